//! `holm sandbox export --sandbox daytona`.

use std::path::Path;

use holm_sandbox::Sandbox;

use super::Remote;
use crate::args::ExportArgs;
use crate::commands::Context;
use crate::error::CliError;
use crate::output;

pub(crate) fn run(context: &Context, args: &ExportArgs) -> Result<u8, CliError> {
    let remote = Remote::new(context)?;
    let sandbox = remote.attach(&args.name)?;
    let from = args.path.as_deref().unwrap_or(Path::new("."));
    let exporting = sandbox.export_directory(from, &args.destination);
    let went = remote.runtime.block_on(exporting)?;
    output::say(&format!("exported to {}", went.display()));
    Ok(0)
}
