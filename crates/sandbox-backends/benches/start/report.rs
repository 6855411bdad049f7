//! The report: Markdown to standard output, raw numbers into a file.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::schedule::Measured;
use crate::statistics::three_digits;

/// All that was measured, in the order of measuring.
#[derive(Debug, Default)]
pub(crate) struct Report {
    markdown: String,
    measured: Vec<Measured>,
    values: Vec<(String, f64)>,
    promises: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// What a promise is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Against<'a> {
    /// Another row's median.
    Row(&'a str),
    /// A number.
    Value(f64, &'a str),
}

/// A column of ratios: to which row, and what it is called.
pub(crate) type RatioColumn<'a> = (&'a str, &'a str);

impl Report {
    /// A table of times, fastest first, with ratios to rows of the same run.
    pub(crate) fn table(
        &mut self,
        title: &str,
        mut measured: Vec<Measured>,
        ratios: &[RatioColumn<'_>],
    ) {
        measured.sort_by(|a, b| median(a).total_cmp(&median(b)));
        self.table_as_is(title, measured, ratios);
    }

    /// A table of times in the given order, with ratios to rows of the same run.
    pub(crate) fn table_as_is(
        &mut self,
        title: &str,
        measured: Vec<Measured>,
        ratios: &[RatioColumn<'_>],
    ) {
        self.measured.extend(measured.iter().cloned());
        let mut text = format!("\n### {title}\n\n| case | n | p10 | p50 | p99 |");
        for (_, name) in ratios {
            text.push_str(&format!(" x {name} |"));
        }
        text.push_str("\n|---|--:|--:|--:|--:|");
        text.push_str(&"--:|".repeat(ratios.len()));
        text.push('\n');
        for row in &measured {
            let Some(summary) = row.samples.summary() else {
                continue;
            };
            text.push_str(&format!(
                "| {} | {} | {} | {} | {} |",
                row.row.title,
                summary.count,
                three_digits(summary.p10_ms),
                three_digits(summary.p50_ms),
                three_digits(summary.p99_ms),
            ));
            for (key, _) in ratios {
                let ratio = self.median(key).map(|other| summary.p50_ms / other);
                let ratio = ratio.map_or_else(|| "-".to_owned(), three_digits);
                text.push_str(&format!(" {ratio} |"));
            }
            text.push('\n');
        }
        self.say(&text);
    }

    /// Shows text at once, so that a long run can be followed.
    pub(crate) fn say(&mut self, text: &str) {
        println!("{}", text.trim_end());
        self.markdown.push_str(text);
    }

    /// Keeps times that stand in no table of their own.
    pub(crate) fn keep(&mut self, measured: Measured) {
        self.measured.push(measured);
    }

    /// Keeps a number that is not a time.
    pub(crate) fn value(&mut self, key: &str, value: f64) {
        self.values.push((key.to_owned(), value));
    }

    pub(crate) fn median(&self, key: &str) -> Option<f64> {
        let found = self.measured.iter().find(|row| row.row.key == key);
        found
            .and_then(|row| row.samples.summary())
            .map(|it| it.p50_ms)
    }

    /// A promise is `key` at most `factor` times what it is held against.
    pub(crate) fn promise(&mut self, text: &str, key: &str, factor: f64, against: Against<'_>) {
        let own = self.median(key).or_else(|| {
            let found = self.values.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| *value)
        });
        let (other, name) = match against {
            Against::Row(row) => (self.median(row), "ratio"),
            Against::Value(value, unit) => (Some(value), unit),
        };
        let line = match (own, other) {
            (Some(own), Some(other)) => {
                let verdict = if own <= factor * other {
                    "PASS"
                } else {
                    "MISS"
                };
                let (measured, limit) = match against {
                    Against::Row(_) => (own / other, factor),
                    Against::Value(..) => (own, factor * other),
                };
                format!(
                    "| {verdict} | {text} | {name} {} | {} |",
                    three_digits(measured),
                    three_digits(limit)
                )
            }
            (None, _) | (_, None) => format!("| not measured | {text} | | |"),
        };
        self.promises.push(line);
    }

    pub(crate) fn finish(&mut self, json: Option<&Path>) -> Result<()> {
        let mut text = String::new();
        if !self.promises.is_empty() {
            text.push_str(
                "\n### Promises\n\n| | promise | measured | at most |\n|---|---|--:|--:|\n",
            );
            for line in &self.promises {
                text.push_str(line);
                text.push('\n');
            }
        }
        if !self.notes.is_empty() {
            text.push_str("\nNotes of this run:\n\n");
            for note in &self.notes {
                text.push_str(&format!("- {note}\n"));
            }
        }
        self.say(&text);
        let Some(path) = json else { return Ok(()) };
        let rows: Vec<Value> = self
            .measured
            .iter()
            .map(|row| {
                json!({
                    "key": row.row.key,
                    "title": row.row.title,
                    "milliseconds": row.samples.milliseconds(),
                })
            })
            .collect();
        let values: serde_json::Map<String, Value> = self
            .values
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        let all = json!({ "version": 1, "rows": rows, "values": values, "notes": self.notes });
        std::fs::write(path, format!("{all:#}\n"))
            .with_context(|| format!("write `{}`", path.display()))
    }
}

fn median(measured: &Measured) -> f64 {
    measured
        .samples
        .summary()
        .map_or(f64::INFINITY, |summary| summary.p50_ms)
}
