//! With real boxes.

mod events;
mod execute;
mod files;
mod git;
mod git_credentials;
mod inside;
mod lifecycle;
mod lsp;
mod preview;
mod sessions;
mod sockets;
mod system;
mod transfers;
mod transfers_hostile;
