//! With real boxes.

mod execute;
mod files;
mod inside;
mod lifecycle;
mod system;
mod transfers;
