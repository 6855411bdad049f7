//! With real boxes.

mod execute;
mod lifecycle;
