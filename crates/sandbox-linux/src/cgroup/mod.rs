//! Limits for a box: cgroup v1, v2 and mixtures behind one type.
//!
//! [`Hierarchy::detect`] finds out once where groups can be made; [`Hierarchy::create`] makes
//! `holm/<name>` in every place that is needed and sets the [`Limits`].
//!
//! - A v1 controller is used where it is mounted; v2 gives what is left. A host with all controllers on v1
//!   and an empty `unified` tree beside them is treated as v1: killing by `cgroup.kill` is not faster than our loop,
//!   and one way in is simpler than two.
//! - The place is the topmost group that the caller may write to, so that it is found again after
//!   a restart, whatever session that one runs in.
//! - What the host does not grant is reported ([`BoxGroup::unenforced`]), never ignored.
//! - Processes join by themselves ([`join_via_fds`]) or are born inside ([`BoxGroup::clone_into_fd`]). Moving a
//!   running process costs milliseconds, see [`BoxGroup::attach`].
//!
//! **Invariant:** only directories under `holm/` are created, changed or removed; the only other file that is
//! written is `cgroup.subtree_control` of the group above, on v2.

mod error;
mod group;
mod hierarchy;
mod join;
mod lifecycle;
mod limits;
mod parse;
mod usage;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_kernel;

pub use error::CgroupError;
pub use group::BoxGroup;
pub use hierarchy::{Availability, Hierarchy};
pub use join::join_via_fds;
pub use limits::{LimitKind, Limits, Reason, Unenforced};
pub use parse::{Controller, Version};
pub use usage::Usage;
