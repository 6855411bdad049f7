//! `holm thread list`: a table for people, an array for programs.

use holm_thread_client::{Client, Thread, ThreadFilter};

use super::Context;
use super::thread::wait_for;
use crate::args::ThreadListArgs;
use crate::error::CliError;
use crate::output::{self, printable};
use crate::table::table;

const HEADINGS: [&str; 5] = ["ID", "STATUS", "RUN", "TAGS", "UPDATED"];
/// What a server gives at once.
const PAGE_MAX: usize = 200;

pub(crate) fn run(context: &Context, args: ThreadListArgs) -> Result<u8, CliError> {
    let client = context.thread_client()?;
    let filter = ThreadFilter {
        status: args.status,
        tags: args.tags,
        parent: args.parent,
        environment_id: args.environment,
        sandbox_id: args.sandbox,
    };
    let threads = wait_for(listed(&client, &filter, args.limit))?;
    if args.json {
        output::json(&threads)?;
        return Ok(0);
    }
    if threads.is_empty() {
        output::say("there are no such threads; make one with `holm thread create`");
        return Ok(0);
    }
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(threads.iter().map(row));
    output::raw(&table(&rows))?;
    Ok(0)
}

fn row(thread: &Thread) -> [String; 5] {
    let run = thread.run.as_ref().map_or("-", |run| run.id.as_str());
    let tags = match thread.tags.as_slice() {
        [] => "-".to_owned(),
        tags => tags.join(","),
    };
    [
        printable(&thread.id),
        printable(&thread.status),
        printable(run),
        printable(&tags),
        printable(&thread.updated_at),
    ]
}

async fn listed(
    client: &Client,
    filter: &ThreadFilter,
    limit: usize,
) -> Result<Vec<Thread>, CliError> {
    let mut threads = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let wanted = (limit - threads.len()).min(PAGE_MAX);
        let wanted = u16::try_from(wanted).unwrap_or(u16::MAX);
        let page = client
            .list_threads(filter, wanted, cursor.as_deref())
            .await?;
        threads.extend(page.items);
        threads.truncate(limit);
        match page.next_cursor {
            Some(next) if threads.len() < limit && cursor.as_ref() != Some(&next) => {
                cursor = Some(next);
            }
            Some(_) | None => return Ok(threads),
        }
    }
}
