//! Running boxes of sandboxes: made, found again, and used.

mod activity;
mod adopt;
mod command;
mod ids;
mod machine;
mod make;
mod readiness;

pub use activity::{Activity, ActivityGuard};
pub(crate) use adopt::{Adopted, adopt, remove_groups};
pub use command::{CommandSpec, Input, Output, Running, exit_code};
pub use ids::BoxIds;
pub use machine::{Account, Machine};
pub(crate) use make::{MakeError, Making, Wanted, make};
pub(crate) use readiness::Readiness;
