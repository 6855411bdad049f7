//! `holm sandbox list`: a table for people, an array for programs.

use holm_sandbox_backends::local::{Listed, SourceRecord, State, Stay};
use serde::Serialize;

use super::sandbox_create::branch_of;
use super::{Context, daytona, isolation_name, network_name};
use crate::args::{ListArgs, SandboxKind};
use crate::error::CliError;
use crate::output::{self, printable};
use crate::table::{age, table, unix_seconds_now};

const HEADINGS: [&str; 6] = ["NAME", "STATE", "ISOLATION", "SOURCE", "BRANCH", "AGE"];

#[derive(Debug, Serialize)]
struct ListedJson {
    name: String,
    id: String,
    state: &'static str,
    /// `until_removed`, or `throwaway` for one that a running `holm exec` holds.
    stay: &'static str,
    isolation: &'static str,
    network: &'static str,
    /// `empty`, `directory` or `repository`.
    source: &'static str,
    source_path: Option<String>,
    branch: Option<String>,
    work_dir: String,
    created_unix_seconds: u64,
    memory_bytes: Option<u64>,
    cpu_millis: Option<u32>,
    pids: Option<u32>,
}

impl From<&Listed> for ListedJson {
    fn from(listed: &Listed) -> Self {
        let record = &listed.record;
        Self {
            name: record.title(),
            id: record.run_id.to_string(),
            state: state_name(listed.state),
            stay: match record.stay {
                Stay::Throwaway => "throwaway",
                Stay::UntilRemoved => "until_removed",
            },
            isolation: isolation_name(record),
            network: network_name(record),
            source: match &record.source {
                SourceRecord::Empty => "empty",
                SourceRecord::Directory { .. } => "directory",
                SourceRecord::Repository { .. } => "repository",
            },
            source_path: source_path(&record.source),
            branch: branch_of(record).map(str::to_owned),
            work_dir: record.work_dir.to_string_lossy().into_owned(),
            created_unix_seconds: record.created_unix_seconds,
            memory_bytes: record.limits.memory_bytes,
            cpu_millis: record.limits.cpu_millis,
            pids: record.limits.pids,
        }
    }
}

pub(crate) fn run(context: &Context, args: &ListArgs) -> Result<u8, CliError> {
    match context.backend(args.backend)? {
        SandboxKind::Local => {}
        SandboxKind::Daytona => return daytona::list(context, args),
    }
    let runtime = context.start()?;
    let listed = runtime.list()?;
    if args.json {
        let rows: Vec<ListedJson> = listed.iter().map(ListedJson::from).collect();
        output::json(&rows)?;
        return Ok(0);
    }
    if listed.is_empty() {
        output::say("there are no sandboxes; make one with `holm sandbox create`");
        return Ok(0);
    }
    let now = unix_seconds_now();
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(listed.iter().map(|listed| row(listed, now)));
    output::raw(&table(&rows))?;
    Ok(0)
}

fn row(listed: &Listed, now_unix_seconds: u64) -> [String; 6] {
    let record = &listed.record;
    let none = || "-".to_owned();
    [
        record.title(),
        state_name(listed.state).to_owned(),
        isolation_name(record).to_owned(),
        source_path(&record.source).map_or_else(none, |path| printable(&path)),
        branch_of(record).map_or_else(none, printable),
        age(now_unix_seconds.saturating_sub(record.created_unix_seconds)),
    ]
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Stopped => "stopped",
        State::Plain => "plain",
    }
}

fn source_path(source: &SourceRecord) -> Option<String> {
    match source {
        SourceRecord::Empty => None,
        SourceRecord::Directory { path } | SourceRecord::Repository { path, .. } => {
            Some(path.to_string_lossy().into_owned())
        }
    }
}
