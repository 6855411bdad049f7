//! With real boxes.

mod files;
mod inside;
mod lifecycle;
