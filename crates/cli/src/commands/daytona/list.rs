//! `holm sandbox list --sandbox daytona`: all sandboxes that the key can see, with what Holm's labels tell.

use std::collections::BTreeMap;

use holm_daytona_client::ListQuery;
use holm_daytona_client::wire::sandbox::SandboxListItem;
use holm_sandbox::SandboxError;
use holm_sandbox_backends::daytona::{LABEL_ENVIRONMENT, LABEL_RUN, LABEL_THREAD};
use serde::Serialize;

use super::Remote;
use crate::args::ListArgs;
use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, printable_line};
use crate::table::table;

const HEADINGS: [&str; 6] = ["NAME", "STATE", "RUN", "THREAD", "ENVIRONMENT", "CREATED"];
/// More than anybody reads.
const SANDBOXES_MAX: usize = 10_000;

#[derive(Debug, Serialize)]
struct ListedJson {
    name: String,
    id: String,
    state: String,
    snapshot: Option<String>,
    target: String,
    labels: BTreeMap<String, String>,
    created_at: Option<String>,
}

impl From<&SandboxListItem> for ListedJson {
    fn from(item: &SandboxListItem) -> Self {
        let labels = item.labels.iter();
        Self {
            name: item.name.clone(),
            id: item.id.clone(),
            state: state(item),
            snapshot: item.snapshot.clone(),
            target: item.target.clone(),
            labels: labels
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            created_at: item.created_at.clone(),
        }
    }
}

pub(crate) fn run(context: &Context, args: &ListArgs) -> Result<u8, CliError> {
    let remote = Remote::new(context)?;
    let client = remote.options.client()?;
    let listing = client.list(ListQuery::default()).all(SANDBOXES_MAX);
    let listed = remote.runtime.block_on(listing).map_err(|error| {
        CliError::Sandbox(SandboxError::Backend {
            doing: "list the sandboxes of the server".to_owned(),
            hint: Some("see what DAYTONA_API_URL and DAYTONA_API_KEY say".to_owned()),
            source: Box::new(error),
        })
    })?;
    if args.json {
        let rows: Vec<ListedJson> = listed.iter().map(ListedJson::from).collect();
        output::json(&rows)?;
        return Ok(0);
    }
    if listed.is_empty() {
        output::say(
            "there are no sandboxes; make one with `holm sandbox create --sandbox daytona`",
        );
        return Ok(0);
    }
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(listed.iter().map(row));
    output::raw(&table(&rows))?;
    Ok(0)
}

fn row(item: &SandboxListItem) -> [String; 6] {
    let label = |name: &str| {
        let value = item.labels.get(name);
        value.map_or_else(|| "-".to_owned(), |value| printable_line(value))
    };
    [
        printable_line(&item.name),
        printable_line(&state(item)),
        label(LABEL_RUN),
        label(LABEL_THREAD),
        label(LABEL_ENVIRONMENT),
        printable_line(item.created_at.as_deref().unwrap_or("-")),
    ]
}

fn state(item: &SandboxListItem) -> String {
    let state = item.state.as_ref();
    state.map_or_else(|| "unknown".to_owned(), |state| state.as_str().to_owned())
}
