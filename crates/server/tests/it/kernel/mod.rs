//! With real boxes.

mod lifecycle;
