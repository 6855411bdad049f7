//! `holm sandbox export`: a folder of a sandbox as a new folder of the machine.

use std::path::Path;

use holm_sandbox::confine_from;
use holm_sandbox_linux::files::{CopyLimits, CopyReport, SkipReason};

use super::{Context, daytona};
use crate::args::{ExportArgs, SandboxKind};
use crate::error::CliError;
use crate::output::{self, Tone, tell};

/// More than these are counted, not listed.
const SKIPPED_SHOWN_MAX: usize = 10;

pub(crate) fn run(context: &Context, args: &ExportArgs) -> Result<u8, CliError> {
    match context.backend(args.backend)? {
        SandboxKind::Local => {}
        SandboxKind::Daytona => return daytona::export(context, args),
    }
    let runtime = context.start()?;
    let sandbox = runtime.open(&args.name)?;
    let path = args.path.as_deref().unwrap_or(Path::new("."));
    let work_dir = &sandbox.record().work_dir;
    let from = confine_from(work_dir, work_dir, path)?;
    let report = sandbox
        .files()?
        .copy_tree_out(&from, &args.destination, CopyLimits::default())?;
    tell_skipped(&report);
    let files = if report.files == 1 { "file" } else { "files" };
    output::say(&format!(
        "exported {} {files} ({}) to {}",
        report.files,
        size(report.bytes),
        args.destination.display()
    ));
    Ok(0)
}

/// Tells what was left out of a copy, and why.
pub(super) fn tell_skipped(report: &CopyReport) {
    for skipped in report.skipped.iter().take(SKIPPED_SHOWN_MAX) {
        let reason = match skipped.reason {
            SkipReason::Special => "it is a pipe, socket or device",
            SkipReason::AbsoluteLink => "it is a link to an absolute path",
            SkipReason::ClimbingLink => "it is a link that leads out of the folder",
            SkipReason::OtherMount => "something else is mounted there",
            SkipReason::Unreadable => "its mode forbids reading it",
            SkipReason::Changed => "it changed while it was copied",
            SkipReason::DirectoryInTheWay => "a folder is in its place",
        };
        tell(
            Tone::Warning,
            &format!("`{}` was not copied: {reason}", skipped.path.display()),
        );
    }
    let more = report.skipped.len().saturating_sub(SKIPPED_SHOWN_MAX);
    if more > 0 {
        tell(Tone::Warning, &format!("{more} more were not copied"));
    }
}

/// A size as people read it: `17 B`, `3.4 KiB`, `20.0 GiB`.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1024;
        unit = next;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_digit_after_the_point() {
        let sizes = [0, 1023, 1024, 3482, 20 << 30, u64::MAX].map(size);
        assert_eq!(
            sizes,
            [
                "0 B",
                "1023 B",
                "1.0 KiB",
                "3.4 KiB",
                "20.0 GiB",
                "16383.9 PiB"
            ]
        );
    }
}
