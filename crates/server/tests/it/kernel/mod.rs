//! With real boxes.

mod events;
mod execute;
mod files;
mod git;
mod inside;
mod lifecycle;
mod lsp;
mod preview;
mod sessions;
mod sockets;
mod system;
mod transfers;
