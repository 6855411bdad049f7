//! The places where a sandbox can be: one module per backend, one contract over all of them.

pub mod daytona;
pub mod daytona_provider;
mod factory;
pub mod local;

pub use factory::{SandboxFactory, create};
