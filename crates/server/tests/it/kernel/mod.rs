//! With real boxes.

mod execute;
mod files;
mod git;
mod inside;
mod lifecycle;
mod system;
mod transfers;
