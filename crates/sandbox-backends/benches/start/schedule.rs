//! Runs many cases interleaved, in a new random order each round, so that whatever else the machine
//! does in between falls on all of them alike.

use std::time::Duration;

use anyhow::Result;

use crate::statistics::Samples;

/// Rounds that are run and not counted: caches fill, lazily made things get made.
const WARM_UP_ROUNDS: usize = 3;
/// A case that fails so often is left out of the rest of the run.
const FAILURES_MAX: usize = 3;

/// One row of a table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// By which promises refer to it.
    pub(crate) key: String,
    pub(crate) title: String,
}

/// Something that can be run again and again; each run gives one duration per row.
pub(crate) struct Case<'a> {
    rows: Vec<Row>,
    rounds: Rounds,
    run: Box<dyn FnMut() -> Result<Vec<Duration>> + 'a>,
}

/// How often a case is run. Expensive ones are run less often, but spread evenly over the whole run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rounds {
    All,
    AtMost(usize),
}

/// What became of one row.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) row: Row,
    pub(crate) samples: Samples,
}

impl<'a> Case<'a> {
    pub(crate) fn new(
        key: &str,
        title: &str,
        rounds: Rounds,
        mut run: impl FnMut() -> Result<Duration> + 'a,
    ) -> Self {
        Self::with_rows(&[(key, title)], rounds, move || Ok(vec![run()?]))
    }

    pub(crate) fn with_rows(
        rows: &[(&str, &str)],
        rounds: Rounds,
        run: impl FnMut() -> Result<Vec<Duration>> + 'a,
    ) -> Self {
        let row = |(key, title): &(&str, &str)| Row {
            key: (*key).to_owned(),
            title: (*title).to_owned(),
        };
        Self {
            rows: rows.iter().map(row).collect(),
            rounds,
            run: Box::new(run),
        }
    }

    fn rounds_of(&self, all: usize) -> usize {
        match self.rounds {
            Rounds::All => all,
            Rounds::AtMost(count) => count.min(all),
        }
    }

    /// Whether round `index` of `all` is one of this case's.
    fn takes_part(&self, index: usize, all: usize) -> bool {
        let own = self.rounds_of(all);
        (index + 1) * own / all > index * own / all
    }
}

/// Runs all cases. What fails is said in `notes`; a case that cannot be run at all has no row.
pub(crate) fn measure(
    name: &str,
    mut cases: Vec<Case<'_>>,
    rounds: usize,
    notes: &mut Vec<String>,
) -> Vec<Measured> {
    let mut random = Random::new();
    let mut samples: Vec<Vec<Samples>> = Vec::new();
    let mut failures: Vec<usize> = Vec::new();
    for case in &mut cases {
        let warm_up = match case.rounds {
            Rounds::All => WARM_UP_ROUNDS,
            Rounds::AtMost(_) => 1,
        };
        let failed = (0..warm_up).find_map(|_| (case.run)().err());
        if let Some(error) = &failed {
            let title = case.rows.first().map_or("", |row| row.title.as_str());
            notes.push(format!("{title}: left out: {error:#}"));
        }
        failures.push(if failed.is_some() { FAILURES_MAX } else { 0 });
        samples.push(vec![Samples::default(); case.rows.len()]);
    }
    for round in 0..rounds {
        if round % 20 == 0 {
            eprintln!("{name}: round {round} of {rounds}");
        }
        let mut order: Vec<usize> = (0..cases.len()).collect();
        random.shuffle(&mut order);
        for index in order {
            let (Some(case), Some(failed), Some(samples)) = (
                cases.get_mut(index),
                failures.get_mut(index),
                samples.get_mut(index),
            ) else {
                continue;
            };
            if *failed >= FAILURES_MAX || !case.takes_part(round, rounds) {
                continue;
            }
            match (case.run)() {
                Ok(durations) => {
                    for (samples, duration) in samples.iter_mut().zip(durations) {
                        samples.push(duration);
                    }
                }
                Err(error) => {
                    *failed += 1;
                    let title = case.rows.first().map_or("", |row| row.title.as_str());
                    notes.push(format!("{title}: failed in round {round}: {error:#}"));
                }
            }
        }
    }
    let rows = cases.into_iter().flat_map(|case| case.rows);
    rows.zip(samples.into_iter().flatten())
        .filter(|(_, samples)| !samples.is_empty())
        .map(|(row, samples)| Measured { row, samples })
        .collect()
}

/// Good enough to shuffle with (xorshift64), and the same in every run.
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new() -> Self {
        Self {
            state: 0x9e37_79b9_7f4a_7c15,
        }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.state % bound).unwrap_or_default()
    }

    fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            let other = self.below(last + 1);
            order.swap(last, other);
        }
    }
}
