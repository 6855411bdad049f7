//! With real boxes.

mod events;
mod execute;
mod files;
mod inside;
mod lifecycle;
mod preview;
mod ssh;
