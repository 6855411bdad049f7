//! What happens inside one sandbox: processes, files, git, terminals, language servers.
//!
//! One module per family of operations. A handler takes [`Inside`], which has authenticated the caller, found the
//! sandbox running and keeps it awake, and works on its machine.

mod code_run;
mod command;
mod computer_use;
mod execute;
mod files;
mod git;
mod info;
mod inside;
mod system;

use std::sync::Arc;

use axum::Router;

use crate::machines::Machine;
use crate::state::AppState;

pub(crate) use inside::Inside;

/// What the toolbox keeps about a running box, one field per family.
#[derive(Debug, Default)]
pub struct ToolboxState {
    processor: system::ProcessorMeter,
}

impl ToolboxState {
    /// Finds again what was running before the server was started anew.
    pub(crate) async fn resume(&self, _machine: &Arc<Machine>) {}

    /// Lets go of everything: the box is about to end.
    pub(crate) async fn close(&self) {}

    /// Processes that only wait for orders, such as the shell of a session: they keep no sandbox awake.
    pub(crate) fn waiting_processes(&self) -> u64 {
        0
    }
}

/// The routes below `/toolbox/{sandbox}`.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .merge(info::router())
        .merge(execute::router())
        .merge(code_run::router())
        .merge(files::router())
        .merge(git::router())
        .merge(system::router())
        .merge(computer_use::router())
}
