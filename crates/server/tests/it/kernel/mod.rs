//! With real boxes.

mod execute;
mod files;
mod git;
mod inside;
mod lifecycle;
mod lsp;
mod system;
mod transfers;
