//! Running boxes of sandboxes: made, found again, and used.

mod account;
mod activity;
mod adopt;
mod collect;
mod command;
mod environment;
mod ids;
mod machine;
mod make;
pub(crate) mod outside;
mod pins;
mod readiness;
mod saved;
mod trash;
mod volumes;

pub use account::Account;
pub use activity::{Activity, ActivityGuard};
pub(crate) use adopt::{Adopted, adopt, remove_groups};
pub(crate) use command::{CROWD, SIGKILL, write_all};
pub use command::{CommandSpec, Input, Output, Running, exit_code};
pub use ids::BoxIds;
pub use machine::Machine;
pub(crate) use make::{MakeError, Making, Wanted, limits, make};
pub(crate) use pins::Pinned;
pub(crate) use readiness::Readiness;
