//! `holm sandbox list`: a table for people, an array for programs.

use std::time::SystemTime;

use holm_sandbox_backends::local::{Listed, SourceRecord, State, Stay};
use serde::Serialize;

use super::sandbox_create::branch_of;
use super::{Context, isolation_name, network_name};
use crate::args::ListArgs;
use crate::error::CliError;
use crate::output::{self, printable};

const HEADINGS: [&str; 6] = ["NAME", "STATE", "ISOLATION", "SOURCE", "BRANCH", "AGE"];
const COLUMN_GAP: &str = "  ";

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
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
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

/// Columns as wide as their widest cell; nothing after the last one.
fn table(rows: &[[String; 6]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = width(column).saturating_sub(cell.chars().count());
            line.push_str(cell);
            line.push_str(&" ".repeat(padding));
            line.push_str(COLUMN_GAP);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The largest whole unit: `5s`, `3m`, `2h`, `4d`.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ages = [0, 59, 60, 3599, 3600, 86_399, 86_400, 900_000].map(age);
        assert_eq!(ages, ["0s", "59s", "1m", "59m", "1h", "23h", "1d", "10d"]);
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [
            ["a", "b", "c", "d", "e", "f"],
            ["long name", "-", "-", "-", "-", "1s"],
        ]
        .map(|row| row.map(str::to_owned));
        assert_eq!(
            table(&rows),
            "a          b  c  d  e  f\nlong name  -  -  -  -  1s\n"
        );
    }
}
