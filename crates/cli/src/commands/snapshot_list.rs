//! `holm snapshot list`: a table for people, an array for programs.

use holm_server::operator;
use serde::Serialize;

use super::Context;
use crate::args::SnapshotListArgs;
use crate::error::CliError;
use crate::output::{self, printable};
use crate::table::{age, table, unix_seconds_now};

const HEADINGS: [&str; 5] = ["NAME", "FOR", "STATE", "SIZE", "AGE"];
const MIB: u64 = 1024 * 1024;

#[derive(Debug, Serialize)]
struct ListedJson {
    id: String,
    name: String,
    /// None: for all.
    organization: Option<String>,
    state: String,
    cpu: u32,
    memory_gib: u32,
    disk_gib: u32,
    size_bytes: u64,
    created_unix_seconds: u64,
}

pub(crate) fn run(context: &Context, args: &SnapshotListArgs) -> Result<u8, CliError> {
    let (_, store) = context.server_snapshots(args.server.data.as_deref())?;
    let snapshots: Vec<ListedJson> = operator::list_snapshots(&store)?
        .into_iter()
        .map(|(snapshot, organization)| ListedJson {
            id: snapshot.id,
            name: snapshot.name,
            organization,
            state: snapshot.state.to_string(),
            cpu: snapshot.resources.cpu,
            memory_gib: snapshot.resources.memory_gib,
            disk_gib: snapshot.resources.disk_gib,
            size_bytes: snapshot.size_bytes,
            created_unix_seconds: u64::try_from(snapshot.created_at / 1000).unwrap_or(0),
        })
        .collect();
    if args.json {
        output::json(&snapshots)?;
        return Ok(0);
    }
    let now = unix_seconds_now();
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(snapshots.into_iter().map(|snapshot| {
        [
            printable(&snapshot.name),
            printable(snapshot.organization.as_deref().unwrap_or("all")),
            printable(&snapshot.state),
            match snapshot.size_bytes {
                0 => "-".to_owned(),
                bytes => format!("{} MiB", bytes.div_ceil(MIB)),
            },
            age(now.saturating_sub(snapshot.created_unix_seconds)),
        ]
    }));
    output::raw(&table(&rows))?;
    Ok(0)
}
