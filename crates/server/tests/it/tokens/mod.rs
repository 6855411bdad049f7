//! Who may do what: every operation with every credential.

mod greedy;
mod matrix;
mod queries;
mod replaced;
mod rotation;
