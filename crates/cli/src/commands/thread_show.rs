//! `holm thread show`.

use holm_thread_client::{Thread, ThreadParent};
use serde_json::Value;

use super::Context;
use super::thread::wait_for;
use crate::args::ThreadShowArgs;
use crate::error::CliError;
use crate::output::{self, printable};
use crate::table::table;

pub(crate) fn run(context: &Context, args: &ThreadShowArgs) -> Result<u8, CliError> {
    let client = context.thread_client()?;
    let thread = wait_for(async { Ok(client.thread(&args.thread).await?) })?;
    if args.json {
        output::json(&thread)?;
    } else {
        output::raw(&table(&rows(&thread)))?;
    }
    Ok(0)
}

/// What there is to say; what there is not is left out.
fn rows(thread: &Thread) -> Vec<[String; 2]> {
    let run = thread.run.as_ref();
    let parent = thread
        .parent
        .as_ref()
        .map(|ThreadParent::Thread { id }| id.clone());
    let ended = run.and_then(|run| {
        let mut text = format!("{} at {}", run.end_reason.as_ref()?, run.ended_at.as_ref()?);
        if let Some(code) = run.exit_code {
            text.push_str(&format!(", exit code {code}"));
        }
        Some(text)
    });
    let tags = (!thread.tags.is_empty()).then(|| thread.tags.join(", "));
    let stream = if thread.stream.closed {
        format!("{} (closed)", thread.stream.path)
    } else {
        thread.stream.path.clone()
    };
    let named = [
        ("id", Some(thread.id.clone())),
        ("status", Some(thread.status.clone())),
        ("run", run.map(|run| run.id.clone())),
        ("began", run.map(|run| run.began_at.clone())),
        ("ended", ended),
        ("parent", parent),
        ("forked from", thread.forked_from.clone()),
        ("tags", tags),
        ("environment", thread.environment_id.clone()),
        ("sandbox", thread.sandbox_id.clone()),
        ("usage", usage(thread)),
        ("created", Some(thread.created_at.clone())),
        ("updated", Some(thread.updated_at.clone())),
        ("last seen", thread.last_seen_at.clone()),
        ("stream", Some(stream)),
        ("next offset", Some(thread.stream.next_offset.clone())),
    ];
    let rows = named.into_iter().filter_map(|(name, value)| {
        let value = printable(&value?);
        Some([name.to_owned(), value])
    });
    rows.collect()
}

/// What is more than nothing of what was used.
fn usage(thread: &Thread) -> Option<String> {
    let used: Vec<String> = thread
        .usage
        .iter()
        .filter(|(_, value)| value.as_u64() != Some(0) && **value != Value::Null)
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    (!used.is_empty()).then(|| used.join(", "))
}
