//! With real boxes.

mod execute;
mod files;
mod git;
mod git_credentials;
mod inside;
mod lifecycle;
mod lsp;
mod system;
mod transfers;
mod transfers_hostile;
