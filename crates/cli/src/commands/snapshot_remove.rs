//! `holm snapshot remove`.

use holm_server::operator;
use serde::Serialize;

use super::Context;
use crate::args::SnapshotRemoveArgs;
use crate::error::CliError;
use crate::output::{self, printable, say};

#[derive(Debug, Serialize)]
struct RemovedJson<'a> {
    id: &'a str,
    name: &'a str,
}

pub(crate) fn run(context: &Context, args: &SnapshotRemoveArgs) -> Result<u8, CliError> {
    let (_, store) = context.server_snapshots(args.server.data.as_deref())?;
    let removed = operator::remove_snapshot(&store, &args.name)?;
    if args.json {
        output::json(&RemovedJson {
            id: &removed.id,
            name: &removed.name,
        })?;
    } else {
        say(&format!("removed snapshot {}", printable(&removed.name)));
    }
    Ok(0)
}
