//! With real boxes.

mod clocks;
mod copies;
mod events;
mod execute;
mod files;
mod git;
mod git_credentials;
mod inside;
mod interpreter;
mod lifecycle;
mod lsp;
mod network;
mod preview;
mod sessions;
mod sessions_end;
mod settings;
mod shell;
mod sizes;
mod sockets;
mod ssh;
mod system;
mod tenants;
mod terminals;
mod transfers;
mod transfers_hostile;
mod volumes;
