//! An entry as a line.
//!
//! Colours say what kind it is: bold for what people say, cyan for agents, yellow for signals, green for an end that is well,
//! red for one that is not.

use bytes::Bytes;
use clap::builder::styling::{AnsiColor, Style};
use holm_thread_log::threads::{Group, Signal, Status, ThreadEntry};
use serde_json::Value;

use crate::output::printable;

/// More of what an agent did does not fit on a screen; `--json` has all of it.
const DETAILS_CHARACTERS_MAX: usize = 400;

/// The entry in one line. A line end in JSON can only be white space.
pub(super) fn line(data: &Bytes) -> String {
    String::from_utf8_lossy(data).replace(['\n', '\r'], " ")
}

/// Time, type, author and what it says.
pub(super) fn for_people(data: &Bytes) -> String {
    let whole: Value = serde_json::from_slice(data).unwrap_or_default();
    let payload = whole.get("payload").unwrap_or(&whole);
    let (time, style) = match ThreadEntry::parse(data) {
        Ok(entry) => (short_time(&entry.ts.to_string()), style(&entry.group)),
        // Not from a thread, or from a newer version.
        Err(_) => ("-".to_owned(), Style::new()),
    };
    let kind = payload.get("type").and_then(Value::as_str).unwrap_or("?");
    let author = whole.get("authorId").and_then(Value::as_str);
    let author = author.map_or(String::new(), |author| format!(" {}:", printable(author)));
    let said = said(payload);
    let dim = Style::new().dimmed();
    let space = if said.is_empty() { "" } else { " " };
    format!(
        "{dim}{time}{dim:#} {style}{}{style:#}{author}{space}{}",
        printable(kind),
        printable(&said)
    )
}

/// `2026-11-16 05:30:11`, in UTC.
fn short_time(text: &str) -> String {
    let seconds = text.split('.').next().unwrap_or(text);
    seconds.replacen('T', " ", 1)
}

fn style(group: &Group) -> Style {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match group {
        Group::Chat => Style::new().bold(),
        Group::Agent(_) => colour(AnsiColor::Cyan),
        Group::Signal(signal) => match signal {
            Signal::Failed(_) => colour(AnsiColor::Red),
            Signal::StatusChanged { status, .. } => match status {
                Status::Completed => colour(AnsiColor::Green),
                Status::Failed | Status::Cancelled => colour(AnsiColor::Red),
                Status::Open | Status::Idle | Status::Running => colour(AnsiColor::Yellow),
            },
            Signal::Created(_)
            | Signal::Updated(_)
            | Signal::Usage(_)
            | Signal::ChildFinished
            | Signal::Heartbeat
            | Signal::Other => colour(AnsiColor::Yellow),
        },
    }
}

/// The text, if there is one, and otherwise everything but the type.
fn said(payload: &Value) -> String {
    for name in ["text", "message"] {
        if let Some(text) = payload.get(name).and_then(Value::as_str) {
            return text.to_owned();
        }
    }
    let Value::Object(fields) = payload else {
        return cut(&payload.to_string());
    };
    let others: Vec<String> = fields
        .iter()
        .filter(|(name, _)| *name != "type")
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => format!("{name}={value}"),
        })
        .collect();
    cut(&others.join(" "))
}

fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(DETAILS_CHARACTERS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(entry: &str) -> String {
        let styled = for_people(&Bytes::copy_from_slice(entry.as_bytes()));
        anstream::adapter::strip_str(&styled).to_string()
    }

    #[test]
    fn entries_are_readable_and_cannot_act() {
        for (entry, shown) in [
            (
                r#"{"id":"1","ts":1000,"authorId":"ann","payload":{"type":"chat","text":"hi\nthere\u001b[2J"}}"#,
                "1970-01-01 00:00:01 chat ann: hi\n    there\\u{1b}[2J",
            ),
            (
                r#"{"id":"1","ts":1000,"payload":{"type":"pi.tool","name":"ls","code":0}}"#,
                "1970-01-01 00:00:01 pi.tool code=0 name=ls",
            ),
            (
                r#"{"id":"1","ts":1000,"payload":{"type":"signal.thread.status_changed","status":"completed"}}"#,
                "1970-01-01 00:00:01 signal.thread.status_changed status=completed",
            ),
            (r#"{"a":1}"#, "- ? a=1"),
            ("17", "- ? 17"),
        ] {
            assert_eq!(plain(entry), shown);
        }
    }
}
