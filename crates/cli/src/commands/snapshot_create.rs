//! `holm snapshot create`.

use holm_server::operator::{self, OperatorSnapshot, SnapshotSource};
use serde::Serialize;

use super::Context;
use crate::args::{SnapshotCreateArgs, SnapshotSourceArgs};
use crate::environment::absolute;
use crate::error::CliError;
use crate::output::{self, printable, say};

#[derive(Debug, Serialize)]
struct CreatedJson<'a> {
    id: &'a str,
    name: &'a str,
    size_bytes: u64,
}

pub(crate) fn run(context: &Context, args: &SnapshotCreateArgs) -> Result<u8, CliError> {
    let (config, store) = context.server_snapshots(args.server.data.as_deref())?;
    let wanted = OperatorSnapshot {
        name: args.name.clone(),
        source: source(&args.source)?,
        cpu: args.cpu,
        memory_gib: args.memory,
        disk_gib: args.disk,
    };
    let progress = |line: &str| say(&printable(line));
    let made = operator::create_snapshot(&config, &store, &wanted, &progress)?;
    if args.json {
        output::json(&CreatedJson {
            id: &made.id,
            name: &made.name,
            size_bytes: made.size_bytes,
        })?;
    } else {
        output::data(&made.id)?;
    }
    Ok(0)
}

fn source(args: &SnapshotSourceArgs) -> Result<SnapshotSource, CliError> {
    Ok(if let Some(path) = &args.from_tar {
        SnapshotSource::Tar(absolute(path)?)
    } else if let Some(path) = &args.from_oci {
        SnapshotSource::OciLayout(absolute(path)?)
    } else if let Some(image) = &args.from_image {
        SnapshotSource::Image(image.clone())
    } else if let Some(id) = &args.from_sandbox {
        SnapshotSource::Sandbox(id.clone())
    } else if let Some(suite) = &args.debootstrap {
        SnapshotSource::Debootstrap(suite.clone())
    } else {
        // The command line asks for one of them.
        return Err(CliError::Refused {
            what: "a snapshot has to be made from something".into(),
            hint: Some("name it, for example with --from-image".into()),
        });
    })
}
