//! `holm sandbox rm`: ends sandboxes and says what of their work was kept.

use std::path::Path;

use holm_sandbox::{TeardownReport, UncommittedWork};
use holm_sandbox_backends::local::{Listed, SourceRecord};
use serde::Serialize;

use super::exec::tell_end;
use super::{Context, daytona};
use crate::args::{RemoveArgs, SandboxKind};
use crate::error::{self, CliError};
use crate::output::{self, BranchJson, teardown_warnings};

#[derive(Debug, Serialize)]
pub(super) struct RemovedJson {
    name: String,
    branches: Vec<BranchJson>,
    warnings: Vec<String>,
}

pub(crate) fn run(context: &Context, args: &RemoveArgs) -> Result<u8, CliError> {
    let work = if args.discard {
        UncommittedWork::Discard
    } else {
        UncommittedWork::Keep
    };
    match context.backend(args.backend)? {
        SandboxKind::Local => {}
        SandboxKind::Daytona => return daytona::remove(context, args),
    }
    let runtime = context.start()?;
    let listed = runtime.list()?;
    let mut removed = Vec::new();
    let mut failed = Vec::new();
    for name in &args.names {
        match runtime.remove(name, work) {
            Ok(report) => {
                tell_end(&report, repository_of(&listed, name));
                removed.push(RemovedJson::new(name, &report));
            }
            // The others can still be removed.
            Err(error) => failed.push(CliError::from(error)),
        }
    }
    tell(context, args, &removed, failed)
}

/// What was removed, and what was not.
pub(super) fn tell(
    context: &Context,
    args: &RemoveArgs,
    removed: &[RemovedJson],
    mut failed: Vec<CliError>,
) -> Result<u8, CliError> {
    if args.json {
        output::json(&removed)?;
    }
    if let ([error], 1) = (failed.as_mut_slice(), args.names.len()) {
        // The only one: it is the failure of the command itself.
        return Err(std::mem::replace(
            error,
            CliError::Told { failed: 1, all: 1 },
        ));
    }
    let data_dir = context.data_dir().ok();
    for error in &failed {
        error::print(error, data_dir.as_deref());
    }
    if failed.is_empty() {
        Ok(0)
    } else {
        Err(CliError::Told {
            failed: failed.len(),
            all: args.names.len(),
        })
    }
}

/// The repository that a sandbox works on, as long as it is known.
fn repository_of<'a>(listed: &'a [Listed], name: &str) -> Option<&'a Path> {
    let mut records = listed.iter().map(|listed| &listed.record);
    let record =
        records.find(|record| record.title() == name || record.run_id.to_string() == name)?;
    match &record.source {
        SourceRecord::Repository { path, .. } => Some(path),
        SourceRecord::Empty | SourceRecord::Directory { .. } => None,
    }
}

impl RemovedJson {
    pub(super) fn new(name: &str, report: &TeardownReport) -> Self {
        Self {
            name: name.to_owned(),
            branches: report.branches.iter().map(BranchJson::from).collect(),
            warnings: teardown_warnings(report),
        }
    }
}
