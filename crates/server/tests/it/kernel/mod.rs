//! With real boxes.

mod events;
mod execute;
mod files;
mod git;
mod inside;
mod lifecycle;
mod system;
mod transfers;
