//! With real boxes.

mod events;
mod lifecycle;
