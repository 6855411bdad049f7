//! Whether a thread is what it says: its entries are entries, each is there once, and its row follows from them.

use std::collections::HashSet;

use holm_thread_log::Timestamp;
use holm_thread_log::threads::{Parent, Row, RunState, ThreadEntry};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::threads::{Thread, ThreadParent};

/// What was found to be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    #[error("entry {number} is none: {problem}")]
    Entry { number: u64, problem: String },
    #[error("entry {number} has the id `{id}`, which was there before")]
    Repeated { number: u64, id: String },
    #[error("entry {number} ends at offset `{offset}`, which is not behind `{before}`")]
    Order {
        number: u64,
        offset: String,
        before: String,
    },
    #[error("the row says {field} `{row}`, and the entries say `{entries}`")]
    Row {
        field: &'static str,
        row: String,
        entries: String,
    },
}

/// More findings than anybody reads.
const FINDINGS_MAX: usize = 100;

/// Takes a thread's entries, one after the other. Keeps 16 bytes for each.
#[derive(Debug)]
pub struct ThreadCheck {
    row: Row,
    ids: HashSet<[u8; 16]>,
    entries: u64,
    last_offset: Option<String>,
    findings: Vec<Finding>,
}

impl Default for ThreadCheck {
    fn default() -> Self {
        Self {
            row: Row::empty(),
            ids: HashSet::new(),
            entries: 0,
            last_offset: None,
            findings: Vec::new(),
        }
    }
}

impl ThreadCheck {
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The next entry.
    pub fn entry(&mut self, data: &[u8]) {
        self.entries += 1;
        let number = self.entries;
        let entry = match ThreadEntry::parse(data) {
            Ok(entry) => entry,
            Err(error) => {
                let problem = error.to_string();
                return self.found(Finding::Entry { number, problem });
            }
        };
        if !self.ids.insert(digest(entry.id.as_str())) {
            let id = entry.id.as_str().to_owned();
            self.found(Finding::Repeated { number, id });
        }
        self.row.apply(&entry);
    }

    /// Where the entries end that were given until now. As texts, offsets rise.
    pub fn offset(&mut self, offset: &str) {
        if let Some(before) = self
            .last_offset
            .as_ref()
            .filter(|last| last.as_str() > offset)
        {
            let finding = Finding::Order {
                number: self.entries,
                offset: offset.to_owned(),
                before: before.clone(),
            };
            self.found(finding);
        }
        self.last_offset = Some(offset.to_owned());
    }

    /// What was wrong. A fork's row follows from its own entries only, which cannot be told from those that it inherited: it
    /// is not compared.
    pub fn findings(&self, thread: &Thread) -> Vec<Finding> {
        let mut findings = self.findings.clone();
        if thread.forked_from.is_none() {
            findings.extend(self.differences(thread));
        }
        findings
    }

    fn differences(&self, thread: &Thread) -> impl Iterator<Item = Finding> {
        let stored = of_thread(thread);
        let folded = of_row(&self.row);
        stored
            .into_iter()
            .zip(folded)
            .filter(|((_, one), (_, other))| one != other)
            .map(|((field, row), (_, entries))| Finding::Row {
                field,
                row: row.to_string(),
                entries: entries.to_string(),
            })
    }

    fn found(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

type Fields = [(&'static str, Value); 7];

fn of_thread(thread: &Thread) -> Fields {
    [
        ("status", json!(thread.status)),
        ("run", json!(thread.run)),
        ("parent", json!(thread.parent)),
        ("tags", json!(thread.tags)),
        ("environment", json!(thread.environment_id)),
        ("sandbox", json!(thread.sandbox_id)),
        ("usage", known_usage(&thread.usage)),
    ]
}

fn of_row(row: &Row) -> Fields {
    let parent = row
        .parent
        .as_ref()
        .map(|Parent::Thread { id }| ThreadParent::Thread { id: id.to_string() });
    let run = row.run.as_ref().map(|run| {
        let (ended_at, end_reason, exit_code) = match &run.state {
            RunState::Running => (None, None, None),
            RunState::Ended {
                at,
                reason,
                exit_code,
            } => (
                Some(Timestamp(*at).to_string()),
                Some(reason.clone()),
                *exit_code,
            ),
        };
        crate::threads::ThreadRun {
            id: run.id.to_string(),
            began_at: Timestamp(run.began_at).to_string(),
            ended_at,
            end_reason,
            exit_code,
        }
    });
    [
        ("status", json!(row.status)),
        ("run", json!(run)),
        ("parent", json!(parent)),
        ("tags", json!(row.tags)),
        ("environment", json!(row.environment_id)),
        ("sandbox", json!(row.sandbox_id)),
        ("usage", json!(row.usage)),
    ]
}

/// What this program knows to add up; servers may count more.
fn known_usage(usage: &Map<String, Value>) -> Value {
    let mut known = json!(holm_thread_log::threads::Usage::default());
    if let Some(known) = known.as_object_mut() {
        for (name, value) in known.iter_mut() {
            if let Some(stored) = usage.get(name) {
                *value = stored.clone();
            }
        }
    }
    known
}

/// Enough to tell ids apart, and small however long they are.
fn digest(id: &str) -> [u8; 16] {
    let full = Sha256::digest(id.as_bytes());
    let mut short = [0; 16];
    short.copy_from_slice(full.get(..16).unwrap_or(&[0; 16]));
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(status: &str, run: Value) -> Thread {
        serde_json::from_value(json!({
            "id": "t", "status": status, "run": run, "createdAt": "", "updatedAt": "", "tags": ["a"],
            "stream": { "path": "", "nextOffset": "2", "closed": false },
        }))
        .unwrap()
    }

    fn entry(id: &str, payload: Value) -> Vec<u8> {
        json!({ "id": id, "ts": 1000, "payload": payload })
            .to_string()
            .into_bytes()
    }

    fn checked() -> ThreadCheck {
        let mut check = ThreadCheck::default();
        check.entry(&entry(
            "1",
            json!({ "type": "signal.thread.created", "tags": ["a"] }),
        ));
        check.offset("1");
        let run =
            json!({ "type": "signal.thread.status_changed", "status": "running", "runId": "r" });
        check.entry(&entry("2", run));
        check.offset("2");
        check
    }

    #[test]
    fn a_thread_that_is_well_has_no_findings() {
        let run = json!({ "id": "r", "beganAt": "1970-01-01T00:00:01.000Z" });
        assert_eq!(checked().findings(&thread("running", run)), []);
    }

    #[test]
    fn what_is_wrong_is_found() {
        let mut check = checked();
        check.entry(&entry("2", json!({ "type": "chat", "text": "again" })));
        check.entry(b"{\"id\":\"3\"}");
        check.offset("1");
        let findings = check.findings(&thread("idle", Value::Null));
        let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 5, "{texts:#?}");
        assert_eq!(texts[0], "entry 3 has the id `2`, which was there before");
        assert!(texts[1].starts_with("entry 4 is none"), "{}", texts[1]);
        assert_eq!(
            texts[2],
            "entry 4 ends at offset `1`, which is not behind `2`"
        );
        assert_eq!(
            texts[3],
            "the row says status `\"idle\"`, and the entries say `\"running\"`"
        );
        assert!(texts[4].contains("run"), "{}", texts[4]);
    }

    #[test]
    fn findings_have_a_limit() {
        let mut check = ThreadCheck::default();
        for _ in 0..10_000 {
            check.entry(b"1");
        }
        assert_eq!(check.findings.len(), FINDINGS_MAX);
    }
}
