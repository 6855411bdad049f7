//! The seccomp filter of a box: a list of allowed system calls, kept as data with a reason each.
//!
//! The filter is the second wall. The first is that the box has no capability and no name for
//! anything of the host; the filter keeps the kernel's rarely used doors shut as well, so that a
//! bug behind one of them is out of reach. [`GROUPS`] holds the decisions, `program` turns them
//! into instructions for the kernel, and [`render_markdown`] into the reference.
//!
//! A call that is refused fails with the error of its group; a call in no group fails with `ENOSYS`,
//! as do the numbers of the x32 table; a call through the table of another machine (the 32 bit
//! entry on x86-64) ends the process.
//!
//! **Cost:** the kernel remembers in a bitmap which calls are allowed whatever their arguments, and
//! runs no program for them. Only calls with clauses pay, so they are few.

mod clauses;
mod groups;
mod markdown;
mod numbers;
mod program;
mod rules;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use seccompiler::{BpfProgram, apply_filter};

pub use groups::GROUPS;
pub use markdown::render_markdown;
pub use rules::{ArgumentTest, Clause, Comparison, Errno, Group, Profile, Syscall, Verdict};

#[derive(Debug, thiserror::Error)]
pub enum SeccompError {
    #[error("system call `{syscall}` has a number that the kernel cannot have")]
    Number { syscall: &'static str },
    #[error("the seccomp program needs a jump that is longer than the kernel allows")]
    TooLong,
    #[error("could not install the seccomp program of {instructions} instructions")]
    Install {
        instructions: usize,
        source: seccompiler::Error,
    },
}

/// A compiled filter.
///
/// It depends on the profile only: build it once, install it in every box.
#[derive(Debug, Clone)]
pub struct Filters {
    program: BpfProgram,
}

static STRICT: OnceLock<Filters> = OnceLock::new();
static NESTED: OnceLock<Filters> = OnceLock::new();
static IMAGE: OnceLock<Filters> = OnceLock::new();

/// Builds the filters of all profiles, so that processes forked later find them ready.
pub fn prepare() -> Result<(), SeccompError> {
    for profile in Profile::ALL {
        Filters::prepared(profile)?;
    }
    Ok(())
}

impl Filters {
    pub fn build(profile: Profile) -> Result<Self, SeccompError> {
        program::compile(profile).map(|program| Self { program })
    }

    /// The filter of this process for a profile, built at the first call.
    pub fn prepared(profile: Profile) -> Result<&'static Self, SeccompError> {
        let cell = match profile {
            Profile::Strict => &STRICT,
            Profile::Nested => &NESTED,
            Profile::Image => &IMAGE,
        };
        if let Some(filters) = cell.get() {
            return Ok(filters);
        }
        let filters = Self::build(profile)?;
        Ok(cell.get_or_init(|| filters))
    }

    /// Confines the calling thread and all that it will start, for good.
    ///
    /// Allocates nothing unless it fails, so it may be called between `fork` and `execve`. The
    /// caller has set `PR_SET_NO_NEW_PRIVS` (seccompiler sets it again, which does no harm).
    pub fn install(&self) -> Result<(), SeccompError> {
        apply_filter(&self.program).map_err(|source| SeccompError::Install {
            instructions: self.program.len(),
            source,
        })
    }

    pub fn instruction_count(&self) -> usize {
        self.program.len()
    }
}
