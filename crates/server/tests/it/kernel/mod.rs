//! With real boxes.

mod execute;
mod files;
mod inside;
mod interpreter;
mod lifecycle;
mod sessions;
mod sessions_end;
mod shell;
mod sockets;
mod terminals;
