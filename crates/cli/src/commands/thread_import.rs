//! `holm thread import`: the file is checked, and then sent.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use holm_thread_client::{Client, ExportReader, Thread, ThreadCheck, stream_name};
use holm_thread_log::ContentType;

use super::Context;
use super::thread::wait_for;
use crate::args::ThreadImportArgs;
use crate::error::CliError;
use crate::output;

const BATCH_ENTRIES_MAX: usize = 500;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// For each batch: outages are waited out that long.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(context: &Context, args: &ThreadImportArgs) -> Result<u8, CliError> {
    let client = context.thread_client()?;
    let exported = checked(&args.file)?;
    let id = args.new_id.clone().unwrap_or(exported.id);
    let thread = wait_for(import(client, &args.file, &id))?;
    if args.json {
        output::json(&thread)?;
    } else {
        output::data(&thread.id)?;
    }
    Ok(0)
}

/// An export that is open.
pub(super) type OpenExport = ExportReader<BufReader<File>>;

pub(super) fn open(path: &Path) -> Result<OpenExport, CliError> {
    let file = File::open(path).map_err(|source| CliError::HostFile {
        doing: "open",
        path: path.to_path_buf(),
        source,
    })?;
    ExportReader::open(BufReader::new(file)).map_err(failed(path))
}

pub(super) fn failed(path: &Path) -> impl Fn(holm_thread_client::ExportError) -> CliError {
    move |source| CliError::Export {
        path: path.to_path_buf(),
        source,
    }
}

/// The thread of a file in which all is well.
fn checked(path: &Path) -> Result<Thread, CliError> {
    let (thread, check) = read_through(path)?;
    match check.findings(&thread).first() {
        None => Ok(thread),
        Some(finding) => Err(CliError::Refused {
            what: format!("`{}` is no thread: {finding}", path.display()),
            hint: Some(format!(
                "`holm thread verify --file {}` shows all that is wrong",
                path.display()
            )),
        }),
    }
}

/// Reads a file to its end, and with it the checksum.
pub(super) fn read_through(path: &Path) -> Result<(Thread, ThreadCheck), CliError> {
    let mut export = open(path)?;
    let mut check = ThreadCheck::default();
    while let Some(entry) = export.next_entry().map_err(failed(path))? {
        check.entry(&entry);
    }
    let begun = &export.header().thread;
    let thread = export.end().map_or(begun, |end| &end.thread);
    Ok((thread.clone(), check))
}

async fn import(client: Client, path: &Path, id: &str) -> Result<Thread, CliError> {
    let stream = stream_name(id)?;
    let mut export = open(path)?;
    client.create_stream(&stream, &ContentType::json()).await?;
    let (mut batch, mut bytes): (Vec<Bytes>, usize) = (Vec::new(), 0);
    while let Some(entry) = export.next_entry().map_err(failed(path))? {
        if batch.len() >= BATCH_ENTRIES_MAX || bytes + entry.len() > BATCH_BYTES_MAX {
            send(&client, id, &mut batch).await?;
            bytes = 0;
        }
        bytes += entry.len();
        batch.push(entry);
    }
    send(&client, id, &mut batch).await?;
    if export.end().is_some_and(|end| end.thread.stream.closed) {
        client.close_stream(&stream).await?;
    }
    Ok(client.thread(id).await?)
}

/// Entries that are there already are known by their ids.
async fn send(client: &Client, id: &str, batch: &mut Vec<Bytes>) -> Result<(), CliError> {
    if !batch.is_empty() {
        client.append_entries(id, batch, PATIENCE).await?;
        batch.clear();
    }
    Ok(())
}
