//! `holm sandbox rm --sandbox daytona`.

use holm_sandbox::{Sandbox, TeardownReport, UncommittedWork};

use super::Remote;
use crate::args::RemoveArgs;
use crate::commands::Context;
use crate::commands::exec::tell_end;
use crate::commands::sandbox_remove::{self, RemovedJson};
use crate::error::CliError;

pub(crate) fn run(context: &Context, args: &RemoveArgs) -> Result<u8, CliError> {
    let work = if args.discard {
        UncommittedWork::Discard
    } else {
        UncommittedWork::Keep
    };
    let remote = Remote::new(context)?;
    let mut removed = Vec::new();
    let mut failed = Vec::new();
    for name in &args.names {
        match remote.attach(name) {
            Ok(sandbox) => {
                let report = remote.runtime.block_on(sandbox.teardown(work));
                tell_end(&report, None);
                removed.push(RemovedJson::new(name, &report));
            }
            // One that cannot be started any more has nothing that could be brought home.
            Err(error) if args.discard => match remote.delete(name) {
                Ok(()) => removed.push(RemovedJson::new(name, &TeardownReport::default())),
                Err(_) => failed.push(error),
            },
            // The others can still be removed.
            Err(error) => failed.push(error),
        }
    }
    sandbox_remove::tell(context, args, &removed, failed)
}
