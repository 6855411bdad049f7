//! The end of a process: no sandbox of a shared provider outlives it.
//!
//! ```text
//! main returns, panics ──▶ the guard is dropped ──┐
//! SIGINT, SIGTERM, SIGHUP ──▶ a thread ───────────┴──▶ shutdown_all, within the deadline ──▶ the process ends
//! ```
//!
//! The work is done on a thread and a runtime of its own, so that it depends on nothing that the process was just doing. What
//! neither way reaches, SIGKILL and `process::exit`, is left to the intervals of the configuration.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::registry::shutdown_all;

/// Whoever has it shuts down; a second one waits until that is done.
static TURN: Mutex<()> = Mutex::new(());

/// Deletes the sandboxes of all shared providers when it is dropped. See [`clean_up_on_exit`].
#[derive(Debug)]
#[must_use = "dropping it cleans up: keep it in a variable of `main`"]
pub struct ExitGuard {
    deadline: Duration,
}

/// From now on the sandboxes of all providers that [`super::Provider::shared`] gave are deleted when the process ends: when the
/// guard is dropped, and on SIGINT, SIGTERM and SIGHUP, which end the process afterwards as they would have without this. Neither
/// takes longer than the deadline; a second signal ends the process at once.
///
/// Call it once, in `main`, in a program that has no handlers of its own for these signals; one that has them calls
/// [`super::shutdown_all`] there.
///
/// # Errors
///
/// When handlers or a thread cannot be had.
pub fn clean_up_on_exit(deadline: Duration) -> io::Result<ExitGuard> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let listening = thread::Builder::new().name("holm-signals".to_owned());
    listening.spawn(move || {
        let mut signals = signals.forever();
        if let Some(signal) = signals.next() {
            thread::spawn(move || {
                clean_up(deadline);
                end(signal);
            });
        }
        if let Some(signal) = signals.next() {
            end(signal);
        }
    })?;
    Ok(ExitGuard { deadline })
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        let deadline = self.deadline;
        // Elsewhere, since a runtime of the caller may be entered here. A panic there was told there.
        drop(thread::spawn(move || clean_up(deadline)).join());
    }
}

fn clean_up(deadline: Duration) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        // What went wrong is in the log.
        Ok(runtime) => drop(runtime.block_on(shutdown_all(deadline))),
        Err(error) => tracing::warn!(%error, "sandboxes may be left behind"),
    }
}

/// Ends the process as the signal would have done.
fn end(signal: i32) {
    if let Err(error) = emulate_default_handler(signal) {
        tracing::warn!(%error, signal, "a signal has no default");
    }
}
