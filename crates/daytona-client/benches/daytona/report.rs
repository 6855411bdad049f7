//! Samples, tables and promises.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// All that was measured, in the order of measuring.
#[derive(Debug, Default)]
pub(crate) struct Report {
    markdown: String,
    promises: Vec<String>,
    notes: Vec<String>,
}

/// What many rounds of one case took, in milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64() * 1_000.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Nearest rank: the number was really measured.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
    }
}

impl Report {
    /// A table of times in milliseconds, with ratios to the first row.
    pub(crate) fn times(&mut self, title: &str, rows: &[(String, Samples)]) {
        let (against, base) = rows.first().map_or(("", f64::NAN), |(name, samples)| {
            (name, samples.percentile(50))
        });
        let mut text = format!(
            "\n### {title} (ms)\n\n| case | n | p10 | p50 | p99 | p50 x {against} |\n|---|--:|--:|--:|--:|--:|\n"
        );
        for (name, samples) in rows {
            let at = |percent| three_digits(samples.percentile(percent));
            text.push_str(&format!(
                "| {name} | {} | {} | {} | {} | {} |\n",
                samples.count(),
                at(10),
                at(50),
                at(99),
                three_digits(samples.percentile(50) / base),
            ));
        }
        self.say(&text);
    }

    /// Shows text at once, so that a long run can be followed.
    pub(crate) fn say(&mut self, text: &str) {
        println!("{}", text.trim_end());
        self.markdown.push_str(text);
    }

    pub(crate) fn note(&mut self, note: String) {
        eprintln!("note: {note}");
        self.notes.push(note);
    }

    pub(crate) fn promise(&mut self, text: &str, measured: f64, at_most: f64) {
        let verdict = if measured <= at_most { "PASS" } else { "FAIL" };
        let (measured, at_most) = (three_digits(measured), three_digits(at_most));
        self.promises
            .push(format!("| {verdict} | {text} | {measured} | {at_most} |\n"));
    }

    pub(crate) fn finish(&mut self, page: Option<&Path>) -> Result<()> {
        let mut text =
            "\n### Promises\n\n| | promise | measured | at most |\n|---|---|--:|--:|\n".to_owned();
        text.extend(std::mem::take(&mut self.promises));
        if !self.notes.is_empty() {
            text.push_str("\nNotes of this run:\n\n");
            text.extend(self.notes.iter().map(|note| format!("- {note}\n")));
        }
        self.say(&text);
        let Some(page) = page else { return Ok(()) };
        let text = format!(
            "# Figures of `cargo xtask bench daytona`\n\nOne run; the promises are in \
             [SPECIFICATION.md](../../SPECIFICATION.md).\n\n{}",
            self.markdown
        );
        std::fs::write(page, text).with_context(|| format!("write `{}`", page.display()))
    }
}

/// Three digits that mean something, as a reader of a table wants them.
fn three_digits(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}
