//! A box on its way: what init has been told, and which answers are still due.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use crate::boxes::end_process;
use crate::cgroup::BoxGroup;
use crate::error::{EngineError, Result};
use crate::ids::IdRange;
use crate::protocol::{Answer, Order, Then};
use crate::seccomp::Profile;
use crate::spawner::NewProcess;
use crate::spec::{Base, BoxSpec, Network};
use crate::step::{Durability, Step};
use crate::wire;

/// What must be known to prepare a box ahead of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedSpec {
    pub id: String,
    pub directory: PathBuf,
    pub base: Base,
    pub layers: Vec<PathBuf>,
    pub profile: Profile,
    pub network: Network,
    pub durability: Durability,
    pub ids: IdRange,
}

impl From<&BoxSpec> for PreparedSpec {
    fn from(spec: &BoxSpec) -> Self {
        Self {
            id: spec.id.clone(),
            directory: spec.directory.clone(),
            base: spec.base.clone(),
            layers: spec.layers.clone(),
            profile: spec.profile,
            network: spec.network,
            durability: spec.durability,
            ids: spec.ids,
        }
    }
}

/// A box in all but its files, limits and lock-down: namespaces and the base's mounts exist already.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) spec: PreparedSpec,
    pub(crate) process: NewProcess,
    pub(crate) group: BoxGroup,
    pub(crate) waiting: Waiting,
}

/// A process that performs the base steps, before it has groups.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) spec: PreparedSpec,
    pub(crate) process: NewProcess,
    /// On v2, where the process is born into it.
    pub(crate) group: Option<BoxGroup>,
    pub(crate) sent: Vec<Step>,
}

/// Which answer of init is still due.
#[derive(Debug)]
pub(crate) enum Waiting {
    Nothing,
    /// The one to the base steps.
    Base(Vec<Step>),
}

impl Prepared {
    pub(crate) fn send(
        &self,
        steps: &[Step],
        descriptors: &[BorrowedFd<'_>],
        then: Then,
    ) -> Result<()> {
        send_steps(&self.spec.id, &self.process, steps, descriptors, then)
    }

    pub(crate) fn receive(&self, steps: &[Step]) -> Result<()> {
        receive_answer(&self.spec.id, &self.process, steps)
    }

    pub(crate) fn take_base_answer(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => Ok(()),
            Waiting::Base(steps) => self.receive(&steps),
        }
    }

    pub(crate) fn tasks(&self) -> Result<Vec<OwnedFd>> {
        self.group
            .join_fds()
            .map_err(|source| EngineError::Cgroup { source })
    }
}

pub(crate) fn send_steps(
    id: &str,
    process: &NewProcess,
    steps: &[Step],
    descriptors: &[BorrowedFd<'_>],
    then: Then,
) -> Result<()> {
    let order = Order::Perform {
        steps: steps.to_vec(),
        then,
    };
    wire::send(&process.control, &order, descriptors).map_err(|source| set_up_failed(id, source))
}

fn receive_answer(id: &str, process: &NewProcess, steps: &[Step]) -> Result<()> {
    let answer = wire::receive_answer::<Answer>(&process.control);
    match answer.map_err(|source| set_up_failed(id, source))? {
        Some((Answer::Done, _)) => Ok(()),
        Some((Answer::StepFailed { index, errno }, _)) => {
            let source = io::Error::from_raw_os_error(errno);
            Err(match steps.get(index) {
                Some(step) => EngineError::Step {
                    step: Box::new(step.clone()),
                    source,
                },
                None => set_up_failed(id, source),
            })
        }
        None => Err(EngineError::NotRunning { id: id.to_owned() }),
    }
}

fn set_up_failed(id: &str, source: io::Error) -> EngineError {
    EngineError::Control {
        doing: "set up",
        id: id.to_owned(),
        source,
    }
}

/// Ends a box that never came to be. Its folder is the caller's to remove.
pub(crate) fn abandon(prepared: Prepared) {
    end_process(&prepared.process.pidfd);
    // A group that stays empty does no harm, and the next clean-up finds it.
    drop(prepared.group.remove());
}
