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
mod interpreter;
mod lsp;
mod pty;
mod session;
mod system;

use std::sync::Arc;

use axum::Router;

use crate::machines::Machine;
use crate::state::AppState;

pub(crate) use inside::Inside;

/// What the toolbox keeps about a running box, one field per family.
#[derive(Debug, Default)]
pub struct ToolboxState {
    lsp: lsp::Servers,
    processor: system::ProcessorMeter,
    sessions: session::Sessions,
    terminals: pty::Terminals,
    interpreters: interpreter::Interpreters,
}

impl ToolboxState {
    /// Finds again what was running before the server was started anew.
    pub(crate) async fn resume(&self, machine: &Arc<Machine>) {
        self.sessions.resume(machine).await;
        self.terminals.resume(machine).await;
    }

    /// Lets go of everything: the box is about to end.
    pub(crate) async fn close(&self) {
        self.sessions.close().await;
        self.lsp.clear();
        self.terminals.close();
        self.interpreters.close();
    }

    /// Processes that only wait for orders, such as the shell of a session: they keep no sandbox awake.
    pub(crate) fn waiting_processes(&self) -> u64 {
        self.lsp.waiting()
            + self.sessions.waiting_processes()
            + self.terminals.waiting_processes()
            + self.interpreters.waiting_processes()
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
        .merge(lsp::router())
        .merge(system::router())
        .merge(computer_use::router())
        .merge(session::router())
        .merge(pty::router())
        .merge(interpreter::router())
}
