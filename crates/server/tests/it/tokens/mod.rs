//! Who may do what: every operation with every credential.

mod matrix;
mod queries;
mod rotation;
