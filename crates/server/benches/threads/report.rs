//! Samples, tables, and goals that are met or missed.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// All that was measured, in the order of measuring.
#[derive(Debug, Default)]
pub(crate) struct Report {
    markdown: String,
    values: Vec<(String, String, String)>,
}

/// What many rounds of one case took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    milliseconds: Vec<f64>,
    processor: Duration,
}

impl Samples {
    pub(crate) fn push(&mut self, took: Duration) {
        self.milliseconds.push(took.as_secs_f64() * 1_000.0);
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.milliseconds.extend(others.milliseconds);
    }

    /// Processor time of all of them together.
    pub(crate) fn used(&mut self, processor: Duration) {
        self.processor = processor;
    }

    fn processor_each(&self) -> Duration {
        let count = u32::try_from(self.count()).unwrap_or(u32::MAX);
        self.processor.checked_div(count).unwrap_or_default()
    }

    pub(crate) fn count(&self) -> usize {
        self.milliseconds.len()
    }

    /// Milliseconds, by nearest rank: the number was really measured.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.milliseconds.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
    }
}

impl Report {
    /// A table of rates and of how long each took.
    pub(crate) fn rates(&mut self, title: &str, rows: &[(&str, (f64, Samples))]) {
        let mut text = format!(
            "\n### {title}\n\n| case | n | per second | p50 ms | p99 ms | processor µs each |\n|---|--:|--:|--:|--:|--:|\n"
        );
        for (name, (rate, samples)) in rows {
            text.push_str(&format!(
                "| {name} | {} | {rate:.0} | {:.2} | {:.2} | {} |\n",
                samples.count(),
                samples.percentile(50),
                samples.percentile(99),
                samples.processor_each().as_micros(),
            ));
        }
        self.say(&text);
    }

    /// A single number.
    pub(crate) fn value(&mut self, name: &str, value: &str) {
        println!("{name}: {value}");
        self.values
            .push((name.to_owned(), value.to_owned(), String::new()));
    }

    /// A single number that has a goal.
    pub(crate) fn goal(&mut self, name: &str, value: &str, goal: &str, verdict: Verdict) {
        let verdict = match verdict {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
        };
        println!("{name}: {value} (goal {goal}: {verdict})");
        let goal = format!("{goal}: {verdict}");
        self.values.push((name.to_owned(), value.to_owned(), goal));
    }

    /// Shows text at once, so that a long run can be followed.
    pub(crate) fn say(&mut self, text: &str) {
        println!("{}", text.trim_end());
        self.markdown.push_str(text);
    }

    pub(crate) fn finish(mut self, page: Option<&Path>) -> Result<()> {
        if !self.values.is_empty() {
            let rows = self
                .values
                .iter()
                .map(|(name, value, goal)| format!("| {name} | {value} | {goal} |\n"));
            let table: String = rows.collect();
            self.markdown.push_str(&format!(
                "\n### Single figures\n\n| | | goal |\n|---|--:|---|\n{table}"
            ));
        }
        let Some(page) = page else { return Ok(()) };
        let text = format!(
            "# Figures of `cargo xtask bench threads`\n\nOne run; the promises are in \
             [SPECIFICATION.md](../../SPECIFICATION.md).\n\n{}",
            self.markdown
        );
        std::fs::write(page, text).with_context(|| format!("write `{}`", page.display()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
}

impl Verdict {
    pub(crate) fn of(is_met: bool) -> Self {
        if is_met { Self::Met } else { Self::Missed }
    }
}
