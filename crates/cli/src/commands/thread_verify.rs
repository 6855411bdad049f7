//! `holm thread verify`.

use std::path::Path;

use holm_thread_client::{Client, Finding, ThreadCheck};
use serde::Serialize;

use super::Context;
use super::thread::{read_whole, wait_for};
use super::thread_import::read_through;
use crate::args::ThreadVerifyArgs;
use crate::error::CliError;
use crate::output::{self, Tone, tell};

#[derive(Debug, Serialize)]
struct VerifiedJson {
    thread: String,
    entries: u64,
    is_well: bool,
    findings: Vec<String>,
}

/// What was looked at, and what was found.
#[derive(Debug)]
struct Verified {
    thread: String,
    entries: u64,
    findings: Vec<Finding>,
}

pub(crate) fn run(context: &Context, args: &ThreadVerifyArgs) -> Result<u8, CliError> {
    let verified = match (&args.file, &args.thread) {
        (Some(path), _) => in_file(path)?,
        (None, thread) => {
            let client = context.thread_client()?;
            // The command line asks for one of both.
            wait_for(on_server(client, thread.as_deref().unwrap_or_default()))?
        }
    };
    let is_well = verified.findings.is_empty();
    let findings: Vec<String> = verified.findings.iter().map(ToString::to_string).collect();
    if args.json {
        output::json(&VerifiedJson {
            thread: verified.thread,
            entries: verified.entries,
            is_well,
            findings,
        })?;
    } else {
        for finding in &findings {
            tell(Tone::Error, finding);
        }
        let summary = match findings.len() {
            0 => "all is well".to_owned(),
            1 => "1 finding".to_owned(),
            count => format!("{count} findings"),
        };
        let entries = verified.entries;
        output::data(&format!(
            "thread {}: {entries} entries, {summary}",
            verified.thread
        ))?;
    }
    Ok(u8::from(!is_well))
}

fn in_file(path: &Path) -> Result<Verified, CliError> {
    let (thread, check) = read_through(path)?;
    Ok(Verified {
        findings: check.findings(&thread),
        entries: check.entries(),
        thread: thread.id,
    })
}

async fn on_server(client: Client, id: &str) -> Result<Verified, CliError> {
    let mut check = ThreadCheck::default();
    let whole = read_whole(&client, id, |entry| {
        check.entry(&entry.data);
        check.offset(&entry.after.offset);
        Ok(())
    });
    match whole.await? {
        Some(thread) => Ok(Verified {
            findings: check.findings(&thread),
            entries: check.entries(),
            thread: thread.id,
        }),
        None => Err(CliError::Refused {
            what: format!("thread `{id}` changes faster than it can be checked"),
            hint: Some("export it, and check the file with `holm thread verify --file`".to_owned()),
        }),
    }
}
