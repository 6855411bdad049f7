//! Where the lines of a hunk are in a file.
//!
//! A comparison that is exact comes first, then ever looser ones; the first that finds the lines decides. Work is bounded by
//! [`COMPARISONS_MAX`], since a file of one line a million times over and a hunk like it would otherwise keep us busy for hours.

use crate::lines::body;
use crate::model::{Dialect, Hunk};

const COMPARISONS_MAX: usize = 10_000_000;

/// How alike two lines have to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Exact,
    /// `\n`, `\r\n` and no end at all are the same.
    Ends,
    TrailingSpace,
    Space,
    /// Typographic quotes, dashes and spaces are the plain ones.
    Typography,
}

const UNIFIED: &[Likeness] = &[Likeness::Exact, Likeness::Ends];
const CODEX: &[Likeness] = &[
    Likeness::Exact,
    Likeness::Ends,
    Likeness::TrailingSpace,
    Likeness::Space,
    Likeness::Typography,
];

/// What is left of the work that one file may cost.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(COMPARISONS_MAX)
    }

    fn spend(&mut self) -> Result<(), String> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| {
            "finding its lines takes too long: too many lines are alike".to_owned()
        })?;
        Ok(())
    }
}

/// The old lines of a hunk in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The index of the first.
    pub(crate) start: usize,
    /// How many of the hunk's old lines are there; less than all if the last one was blank and is not there.
    pub(crate) length: usize,
    /// They are there byte for byte, their ends too.
    pub(crate) is_exact: bool,
}

/// Finds a hunk at or after line `from`. `drift` is how many lines further down than expected the last hunk was.
pub(crate) fn find(
    dialect: Dialect,
    lines: &[&[u8]],
    hunk: &Hunk,
    from: usize,
    drift: isize,
    budget: &mut Budget,
) -> Result<Place, String> {
    let old = hunk.old();
    let likenesses = match dialect {
        Dialect::Unified => UNIFIED,
        Dialect::Codex => CODEX,
    };
    let mut from = from;
    for anchor in &hunk.anchors {
        let found = search(lines, &[anchor], from, Expected::First, likenesses, budget)?;
        let Some((index, _)) = found else {
            let anchor = crate::lines::shown(anchor);
            return Err(format!("there is no line `{anchor}` after line {from}"));
        };
        from = index + 1;
    }
    if old.is_empty() {
        return insertion(lines, hunk, from, drift);
    }
    let expected = match (hunk.at_end, hunk.old_start) {
        (true, _) => Expected::Last,
        (false, Some(start)) => {
            Expected::Near(start.saturating_sub(1).saturating_add_signed(drift))
        }
        (false, None) => Expected::First,
    };
    if let Some((start, likeness)) = search(lines, &old, from, expected, likenesses, budget)? {
        return Ok(Place {
            start,
            length: old.len(),
            is_exact: likeness == Likeness::Exact,
        });
    }
    // Models end hunks with an empty line that is not in the file.
    if let (Dialect::Codex, Some((last, rest))) = (dialect, old.split_last())
        && !rest.is_empty()
        && body(last).is_empty()
        && let Some((start, likeness)) = search(lines, rest, from, expected, likenesses, budget)?
    {
        return Ok(Place {
            start,
            length: rest.len(),
            is_exact: likeness == Likeness::Exact,
        });
    }
    let first = crate::lines::shown(old.first().copied().unwrap_or_default());
    let count = old.len();
    Err(if from == 0 {
        format!("its {count} old lines, from `{first}` on, are not in the file")
    } else {
        format!("its {count} old lines, from `{first}` on, are not in the file after line {from}")
    })
}

/// Where lines go that come with nothing to find them by.
fn insertion(lines: &[&[u8]], hunk: &Hunk, from: usize, drift: isize) -> Result<Place, String> {
    let start = match hunk.old_start {
        _ if hunk.at_end => lines.len(),
        _ if !hunk.anchors.is_empty() => from,
        Some(start) => start.saturating_add_signed(drift),
        None => lines.len(),
    };
    if start < from || start > lines.len() {
        let count = lines.len();
        return Err(format!(
            "it adds lines after line {start}, and the file has {count} lines"
        ));
    }
    Ok(Place {
        start,
        length: 0,
        is_exact: true,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    First,
    Near(usize),
    Last,
}

fn search(
    lines: &[&[u8]],
    wanted: &[impl AsRef<[u8]>],
    from: usize,
    expected: Expected,
    likenesses: &[Likeness],
    budget: &mut Budget,
) -> Result<Option<(usize, Likeness)>, String> {
    let Some(last) = lines.len().checked_sub(wanted.len()) else {
        return Ok(None);
    };
    if from > last {
        return Ok(None);
    }
    for likeness in likenesses {
        let mut is_at = |start: usize| is_like(lines, wanted, start, *likeness, budget);
        match expected {
            Expected::Last => {
                // It says where, so it is there or nowhere.
                if is_at(last)? {
                    return Ok(Some((last, *likeness)));
                }
            }
            Expected::First => {
                for start in from..=last {
                    if is_at(start)? {
                        return Ok(Some((start, *likeness)));
                    }
                }
            }
            Expected::Near(near) => {
                let near = near.clamp(from, last);
                for distance in 0..=(near - from).max(last - near) {
                    let before = near.checked_sub(distance).filter(|start| *start >= from);
                    if let Some(start) = before
                        && is_at(start)?
                    {
                        return Ok(Some((start, *likeness)));
                    }
                    let after = near + distance;
                    if distance > 0 && after <= last && is_at(after)? {
                        return Ok(Some((after, *likeness)));
                    }
                }
            }
        }
    }
    Ok(None)
}

fn is_like(
    lines: &[&[u8]],
    wanted: &[impl AsRef<[u8]>],
    start: usize,
    likeness: Likeness,
    budget: &mut Budget,
) -> Result<bool, String> {
    let there = lines.get(start..start + wanted.len()).unwrap_or_default();
    for (there, wanted) in there.iter().zip(wanted) {
        budget.spend()?;
        if !are_alike(there, wanted.as_ref(), likeness) {
            return Ok(false);
        }
    }
    Ok(there.len() == wanted.len())
}

fn are_alike(left: &[u8], right: &[u8], likeness: Likeness) -> bool {
    match likeness {
        Likeness::Exact => left == right,
        Likeness::Ends => body(left) == body(right),
        Likeness::TrailingSpace => left.trim_ascii_end() == right.trim_ascii_end(),
        Likeness::Space => left.trim_ascii() == right.trim_ascii(),
        Likeness::Typography => match (std::str::from_utf8(left), std::str::from_utf8(right)) {
            (Ok(left), Ok(right)) => plain(left).eq(plain(right)),
            (Ok(_) | Err(_), _) => false,
        },
    }
}

fn plain(text: &str) -> impl Iterator<Item = char> {
    text.trim().chars().map(|character| match character {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        character => character,
    })
}
