//! Samples and what is said about them.

use std::time::Duration;

/// What many rounds of one case took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    taken: Vec<Duration>,
}

/// The three numbers of a row, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) p10_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Samples {
    pub(crate) fn push(&mut self, duration: Duration) {
        self.taken.push(duration);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    pub(crate) fn milliseconds(&self) -> Vec<f64> {
        self.taken.iter().copied().map(milliseconds).collect()
    }

    /// Nearest-rank percentiles: every number was really measured.
    pub(crate) fn summary(&self) -> Option<Summary> {
        let mut sorted = self.taken.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied().map(milliseconds)
        };
        Some(Summary {
            count: sorted.len(),
            p10_ms: at(10)?,
            p50_ms: at(50)?,
            p99_ms: at(99)?,
        })
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<I: IntoIterator<Item = Duration>>(durations: I) -> Self {
        Self {
            taken: durations.into_iter().collect(),
        }
    }
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// Three digits that mean something, as a reader of a table wants them.
pub(crate) fn three_digits(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}
