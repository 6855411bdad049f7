//! With real boxes.

mod execute;
mod files;
mod inside;
mod interpreter;
mod lifecycle;
mod sessions;
mod sockets;
mod terminals;
