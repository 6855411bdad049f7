//! With real boxes.

mod execute;
mod files;
mod inside;
mod lifecycle;
mod sessions;
mod sockets;
mod terminals;
