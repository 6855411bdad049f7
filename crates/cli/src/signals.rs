//! Ctrl-C and its relatives, from the first polite request to the last resort.
//!
//! ```text
//! SettingUp ──▶ Running ──▶ CleaningUp
//! ```
//!
//! | phase        | Ctrl-C                  | again | SIGTERM, SIGHUP | again |
//! | ---          | ---                     | ---   | ---             | ---   |
//! | `SettingUp`  | the command is not run  | die   | the same        | die   |
//! | `Running`    | passed on               | kill  | kill            | die   |
//! | `CleaningUp` | noted: it is short      | die   | noted           | die   |
//!
//! Dying loses nothing: the next call finds the sandbox, saves its work and removes it. One on another machine is found by nobody:
//! there all that is left to do after a signal has a bound, and a server that does not answer is left alone.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use holm_sandbox::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::error::CliError;
use crate::output::say;

/// More requests than anybody makes before the process is gone.
const INTERRUPTS_MAX: usize = 16;
/// Between two looks of those who wait for a signal.
const LOOK: Duration = Duration::from_millis(50);
/// For a server to end a command, and then to take the sandbox away with the work brought home, once a signal has come.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// Who takes care of what this process leaves when it dies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Heir {
    /// Also of a sandbox that is meant to stay.
    #[default]
    NextCall,
    /// It stops a sandbox that nobody uses, and deletes it.
    Server,
}

/// What the process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    SettingUp,
    Running,
    CleaningUp,
}

/// What a signal leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    /// Remember it; the main thread looks before it goes on.
    Note(&'static str),
    PassOn,
    Kill,
    Die,
}

/// What earlier signals of the same phase have led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Earlier {
    Nothing,
    PassedOn,
    /// All that can be done short of dying.
    Everything,
}

fn decide(heir: Heir, phase: Phase, signal: i32, earlier: Earlier) -> Reaction {
    match (phase, earlier) {
        (_, Earlier::Everything) => Reaction::Die,
        (Phase::Running, Earlier::Nothing) if signal == SIGINT => Reaction::PassOn,
        (Phase::Running, Earlier::Nothing | Earlier::PassedOn) => Reaction::Kill,
        (Phase::SettingUp, Earlier::Nothing | Earlier::PassedOn) => Reaction::Note(match heir {
            Heir::NextCall => "interrupted: the command is not run",
            Heir::Server => {
                "interrupted: deleting the sandbox; press Ctrl-C again to leave it to the server"
            }
        }),
        (Phase::CleaningUp, Earlier::Nothing | Earlier::PassedOn) => Reaction::Note(match heir {
            Heir::NextCall => {
                "interrupted: saving the work; press Ctrl-C again to leave that to the next call"
            }
            Heir::Server => {
                "interrupted: saving the work; press Ctrl-C again to leave it to the server"
            }
        }),
    }
}

#[derive(Debug, Default)]
struct Shared {
    heir: Heir,
    phase: AtomicU8,
    /// An [`Earlier`].
    earlier: AtomicU8,
    /// The signal that came before the command was started, or 0.
    before_start: AtomicI32,
    /// The signal that made us kill the command, or 0.
    killed_by: AtomicI32,
    /// Where to send requests while a command runs.
    requests: Mutex<Option<SyncSender<Interrupt>>>,
    /// Since when all that is left to do is to end.
    ending_since: Mutex<Option<Instant>>,
}

/// The handlers of this process.
#[derive(Debug, Clone)]
pub(crate) struct Interruptions {
    shared: Arc<Shared>,
}

impl Interruptions {
    /// Installs the handlers. Call it after the backend has forked its spawner: this starts a thread.
    pub(crate) fn install(heir: Heir) -> Result<Self, CliError> {
        let failed = |source: io::Error| CliError::Io {
            doing: "listen to signals",
            source,
        };
        let shared = Arc::new(Shared {
            heir,
            ..Shared::default()
        });
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let listening = shared.clone();
        std::thread::Builder::new()
            .name("holm-signals".into())
            .spawn(move || {
                for signal in signals.forever() {
                    listening.handle(signal);
                }
            })
            .map_err(failed)?;
        Ok(Self { shared })
    }

    /// The signal that asks not to begin at all.
    pub(crate) fn before_start(&self) -> Option<i32> {
        Some(self.shared.before_start.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// The signal because of which the command was killed.
    pub(crate) fn killed_by(&self) -> Option<i32> {
        Some(self.shared.killed_by.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// Waits for the signal that asks not to begin at all.
    pub(crate) async fn called_off(&self) -> i32 {
        loop {
            if let Some(signal) = self.before_start() {
                return signal;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until a signal has come and the time for ending what goes on is over. Each phase has that time to itself.
    pub(crate) async fn patience_is_over(&self) {
        let is_over = |since: Instant| since.elapsed() >= END_PATIENCE;
        while !self.shared.ending_since().is_some_and(is_over) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// From here on signals concern the command that listens to these requests.
    pub(crate) fn running(&self) -> (SyncSender<Interrupt>, Receiver<Interrupt>) {
        let (sender, receiver) = sync_channel(INTERRUPTS_MAX);
        *self.shared.requests() = Some(sender.clone());
        self.shared.enter(Phase::Running);
        (sender, receiver)
    }

    pub(crate) fn cleaning_up(&self) {
        self.shared.enter(Phase::CleaningUp);
        *self.shared.requests() = None;
    }
}

impl Shared {
    fn requests(&self) -> MutexGuard<'_, Option<SyncSender<Interrupt>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ending_since(&self) -> MutexGuard<'_, Option<Instant>> {
        let since = self.ending_since.lock();
        since.unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
        self.remember(Earlier::Nothing);
        if let Some(since) = &mut *self.ending_since() {
            *since = Instant::now();
        }
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::SettingUp,
            1 => Phase::Running,
            _ => Phase::CleaningUp,
        }
    }

    fn earlier(&self) -> Earlier {
        match self.earlier.load(Ordering::SeqCst) {
            0 => Earlier::Nothing,
            1 => Earlier::PassedOn,
            _ => Earlier::Everything,
        }
    }

    fn remember(&self, earlier: Earlier) {
        self.earlier.store(earlier as u8, Ordering::SeqCst);
    }

    fn handle(&self, signal: i32) {
        let phase = self.phase();
        match decide(self.heir, phase, signal, self.earlier()) {
            Reaction::Note(text) => {
                self.remember(Earlier::Everything);
                self.ending_since().get_or_insert_with(Instant::now);
                if phase == Phase::SettingUp {
                    self.before_start.store(signal, Ordering::SeqCst);
                }
                say(text);
            }
            Reaction::PassOn => {
                self.remember(Earlier::PassedOn);
                say("interrupted: waiting for the command to end; press Ctrl-C again to kill it");
                self.request(Interrupt::Drain);
            }
            Reaction::Kill => {
                self.remember(Earlier::Everything);
                self.killed_by.store(signal, Ordering::SeqCst);
                self.ending_since().get_or_insert_with(Instant::now);
                self.request(Interrupt::Kill);
            }
            Reaction::Die => {
                // Ends this process as the signal would have done without us.
                drop(emulate_default_handler(signal));
            }
        }
    }

    fn request(&self, interrupt: Interrupt) {
        if let Some(requests) = &*self.requests() {
            // A full queue or a command that has just ended needs no further request.
            let _ = requests.try_send(interrupt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_ctrl_c_kills_and_a_third_ends_everything() {
        for (earlier, reaction) in [
            (Earlier::Nothing, Reaction::PassOn),
            (Earlier::PassedOn, Reaction::Kill),
            (Earlier::Everything, Reaction::Die),
        ] {
            assert_eq!(
                decide(Heir::NextCall, Phase::Running, SIGINT, earlier),
                reaction
            );
        }
    }

    #[test]
    fn a_request_to_terminate_kills_at_once() {
        for signal in [SIGTERM, SIGHUP] {
            for (earlier, reaction) in [
                (Earlier::Nothing, Reaction::Kill),
                (Earlier::PassedOn, Reaction::Kill),
                (Earlier::Everything, Reaction::Die),
            ] {
                assert_eq!(
                    decide(Heir::NextCall, Phase::Running, signal, earlier),
                    reaction
                );
            }
        }
    }

    #[test]
    fn outside_of_a_command_the_first_signal_is_noted() {
        for phase in [Phase::SettingUp, Phase::CleaningUp] {
            assert!(matches!(
                decide(Heir::Server, phase, SIGINT, Earlier::Nothing),
                Reaction::Note(_)
            ));
            assert_eq!(
                decide(Heir::Server, phase, SIGINT, Earlier::Everything),
                Reaction::Die
            );
        }
    }
}
