//! Finds the box of an earlier life of the server again.

use holm_daytona_wire::sandbox::SandboxState;
use holm_sandbox_linux::cgroup::{BoxGroup, CgroupError};
use holm_sandbox_linux::{EngineError, Limits, LinuxBox, WIRE_VERSION};

use super::machine::Machine;
use super::make::{MakeError, Making, Wanted};
use crate::records::BoxRecord;

/// What became of a box while nobody looked.
#[derive(Debug)]
pub(crate) enum Adopted {
    Running(Box<Machine>),
    /// It has ended, and nothing of it is left; the text says why.
    Gone(String),
}

/// Attaches to the recorded box, or makes sure that nothing of it is left.
pub(crate) fn adopt(making: &Making, wanted: Wanted<'_>, running: Option<BoxRecord>) -> Adopted {
    thaw(making, &wanted.record.id);
    let reason = match running.map(|running| (running, running.process.open())) {
        None => "its box was not started to the end".to_owned(),
        Some((_, None)) => "its box ended while the server was not running".to_owned(),
        Some((running, Some(process))) => {
            if running.wire_version != WIRE_VERSION {
                running.process.kill();
                "its box was made by another version of Holm".to_owned()
            } else {
                match attach(making, wanted, running, process) {
                    Ok(machine) => return Adopted::Running(Box::new(machine)),
                    Err(error) => {
                        running.process.kill();
                        format!(
                            "its box could not be found again: {}",
                            crate::error::chain(&error)
                        )
                    }
                }
            }
        }
    };
    remove_groups(making, &wanted.record.id);
    Adopted::Gone(reason)
}

fn attach(
    making: &Making,
    wanted: Wanted<'_>,
    running: BoxRecord,
    process: std::os::fd::OwnedFd,
) -> Result<Machine, MakeError> {
    let id = &wanted.record.id;
    let group = group(making, id).map_err(|source| EngineError::Cgroup { source })?;
    let inner = LinuxBox::attach(
        id,
        making.engine.power(),
        &making.config.box_directory(id).join("control"),
        running.process.pid,
        process,
        group,
    )?;
    let machine = making.machine(wanted, inner)?;
    if wanted.record.state == SandboxState::Paused {
        machine.inner().freeze()?;
    }
    Ok(machine)
}

/// Lets a box run that is paused, or that was being copied when the server died: a frozen one neither answers nor dies.
fn thaw(making: &Making, id: &str) {
    if let Ok(group) = making.engine.hierarchy().open_existing(id)
        && let Err(error) = group.thaw()
    {
        tracing::debug!(sandbox = id, %error, "a box was not thawed");
    }
}

fn group(making: &Making, id: &str) -> Result<BoxGroup, CgroupError> {
    let hierarchy = making.engine.hierarchy();
    match hierarchy.open_existing(id) {
        // Without root there may be no control groups at all.
        Err(CgroupError::NotFound { .. }) => hierarchy.create(id, &Limits::default()),
        found => found,
    }
}

/// Removes what a dead box left in the control groups.
pub(crate) fn remove_groups(making: &Making, id: &str) {
    if let Ok(group) = making.engine.hierarchy().open_existing(id) {
        // Whatever still runs in there belongs to nobody.
        if let Err(error) = group.kill_all().and_then(|()| group.remove()) {
            tracing::warn!(sandbox = id, %error, "control groups of a dead box stay");
        }
    }
}
