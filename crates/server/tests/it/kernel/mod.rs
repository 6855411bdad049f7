//! With real boxes.

mod events;
mod execute;
mod files;
mod git;
mod git_credentials;
mod inside;
mod interpreter;
mod lifecycle;
mod lsp;
mod preview;
mod sessions;
mod sessions_end;
mod shell;
mod sockets;
mod ssh;
mod system;
mod terminals;
mod transfers;
mod transfers_hostile;
