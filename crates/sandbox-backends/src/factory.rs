//! Choosing a backend by name.

use std::sync::Arc;

use holm_sandbox::{BackendKind, Result, Sandbox};

use crate::local::{CreateOptions, LocalRuntime};

/// What the backends need; each takes its own part.
#[derive(Debug, Clone)]
pub struct SandboxFactory {
    pub local: Arc<LocalRuntime>,
}

/// Makes a sandbox in the chosen backend. A backend that is not built yet says so.
pub fn create(
    factory: &SandboxFactory,
    kind: BackendKind,
    options: &CreateOptions,
) -> Result<Box<dyn Sandbox>> {
    if let Some(error) = kind.not_yet_built() {
        return Err(error);
    }
    Ok(Box::new(factory.local.create(options)?))
}
