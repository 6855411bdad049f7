//! Carrying a patch out on contents in memory: all of it, or an error.

use std::collections::{BTreeMap, BTreeSet};

use crate::ApplyError;
use crate::lines;
use crate::model::{Dialect, Executable, FileChange, Hunk, Line, Patch};
use crate::place::{self, Budget};

/// What is there before: of every path of [`Patch::paths_to_read`] its content, or `None` if there is no such file.
pub type Contents = BTreeMap<String, Option<Vec<u8>>>;

/// What a path shall be afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    Gone,
    Present {
        content: Vec<u8>,
        /// `None` leaves it as it is; a new file is no program then.
        executable: Option<Executable>,
        /// The file whose rights this one takes over, if it comes from another path.
        mode_of: Option<String>,
    },
}

/// What each path that the patch changes shall be afterwards. Others stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub files: BTreeMap<String, FileState>,
}

/// What the files are after a patch. Nothing is changed here, so an error leaves everything as it was.
pub fn apply(patch: &Patch, before: &Contents) -> Result<Outcome, ApplyError> {
    let mut application = Application {
        dialect: patch.dialect,
        before,
        after: BTreeMap::new(),
        sources: BTreeSet::new(),
        vanishing: vanishing(patch),
    };
    for change in &patch.changes {
        application.change(change)?;
    }
    Ok(Outcome {
        files: application.after,
    })
}

/// The paths at which there will be no file unless something else is put there.
fn vanishing(patch: &Patch) -> BTreeSet<&str> {
    let vanishes = |change: &&FileChange| match change {
        FileChange::Delete { .. } => true,
        FileChange::Update { moved_to, .. } => moved_to.is_some(),
        FileChange::Create { .. } | FileChange::Copy { .. } => false,
    };
    let changes = patch.changes.iter().filter(vanishes);
    changes.filter_map(FileChange::source).collect()
}

struct Application<'patch> {
    dialect: Dialect,
    before: &'patch Contents,
    after: BTreeMap<String, FileState>,
    /// What has been changed, moved or deleted so far.
    sources: BTreeSet<&'patch str>,
    vanishing: BTreeSet<&'patch str>,
}

impl<'patch> Application<'patch> {
    fn change(&mut self, change: &'patch FileChange) -> Result<(), ApplyError> {
        match change {
            FileChange::Create {
                path,
                content,
                executable,
            } => self.put(path, content.clone(), *executable, None),
            FileChange::Delete { path, hunks } => {
                self.takes(path)?;
                let content = self.content(path)?;
                if !hunks.is_empty() && !patched(self.dialect, path, &content, hunks)?.is_empty() {
                    return Err(ApplyError::DeleteDiffers { path: path.clone() });
                }
                self.remove(path);
                Ok(())
            }
            FileChange::Update {
                path,
                moved_to,
                hunks,
                executable,
            } => {
                self.takes(path)?;
                let content = patched(self.dialect, path, &self.content(path)?, hunks)?;
                match moved_to {
                    Some(target) if target != path => {
                        self.remove(path);
                        self.put(target, content, *executable, Some(path))
                    }
                    Some(_) | None => self.write(path, content, *executable, None),
                }
            }
            FileChange::Copy {
                from,
                path,
                hunks,
                executable,
            } => {
                let content = patched(self.dialect, from, &self.content(from)?, hunks)?;
                self.put(path, content, *executable, Some(from))
            }
        }
    }

    /// In a unified diff all sections are about the files before it, so a file can be changed by one of them only.
    fn takes(&mut self, path: &'patch str) -> Result<(), ApplyError> {
        let is_first = self.sources.insert(path);
        match self.dialect {
            Dialect::Unified if !is_first => Err(ApplyError::Twice {
                path: path.to_owned(),
            }),
            Dialect::Unified | Dialect::Codex => Ok(()),
        }
    }

    /// What a section finds at a path.
    fn content(&self, path: &str) -> Result<Vec<u8>, ApplyError> {
        let missing = || ApplyError::Missing {
            path: path.to_owned(),
        };
        match (self.dialect, self.after.get(path)) {
            (Dialect::Codex, Some(FileState::Present { content, .. })) => Ok(content.clone()),
            (Dialect::Codex, Some(FileState::Gone)) => Err(missing()),
            (Dialect::Codex, None) | (Dialect::Unified, _) => {
                let before = self.before.get(path).ok_or_else(|| ApplyError::NotGiven {
                    path: path.to_owned(),
                })?;
                before.clone().ok_or_else(missing)
            }
        }
    }

    /// A file where none has to be; Codex's patches may overwrite what is there.
    fn put(
        &mut self,
        path: &'patch str,
        content: Vec<u8>,
        executable: Option<Executable>,
        mode_of: Option<&str>,
    ) -> Result<(), ApplyError> {
        let is_there = match self.before.get(path) {
            None => {
                return Err(ApplyError::NotGiven {
                    path: path.to_owned(),
                });
            }
            Some(before) => before.is_some(),
        };
        if self.dialect == Dialect::Unified && is_there && !self.vanishing.contains(path) {
            return Err(ApplyError::Exists {
                path: path.to_owned(),
            });
        }
        self.write(path, content, executable, mode_of)
    }

    fn write(
        &mut self,
        path: &str,
        content: Vec<u8>,
        executable: Option<Executable>,
        mode_of: Option<&str>,
    ) -> Result<(), ApplyError> {
        let is_written = matches!(self.after.get(path), Some(FileState::Present { .. }));
        if self.dialect == Dialect::Unified && is_written {
            return Err(ApplyError::Twice {
                path: path.to_owned(),
            });
        }
        let state = FileState::Present {
            content,
            executable,
            mode_of: mode_of.map(str::to_owned),
        };
        self.after.insert(path.to_owned(), state);
        Ok(())
    }

    fn remove(&mut self, path: &str) {
        // In a unified diff another section may have put a file there already, in exchange.
        let is_exchanged = self.dialect == Dialect::Unified && self.after.contains_key(path);
        if !is_exchanged {
            self.after.insert(path.to_owned(), FileState::Gone);
        }
    }
}

/// A content with the hunks carried out.
fn patched(
    dialect: Dialect,
    path: &str,
    content: &[u8],
    hunks: &[Hunk],
) -> Result<Vec<u8>, ApplyError> {
    if hunks.is_empty() {
        return Ok(content.to_vec());
    }
    let old = lines::split(content);
    let ending = lines::ending_of(&old);
    let mut budget = Budget::new();
    let mut out: Vec<u8> = Vec::with_capacity(content.len());
    let mut done = 0;
    let mut drift = 0_isize;
    for (index, hunk) in hunks.iter().enumerate() {
        let place =
            place::find(dialect, &old, hunk, done, drift, &mut budget).map_err(|problem| {
                ApplyError::Hunk {
                    path: path.to_owned(),
                    hunk: index + 1,
                    hunks: hunks.len(),
                    problem,
                }
            })?;
        for line in old.get(done..place.start).unwrap_or_default() {
            out.extend_from_slice(line);
        }
        if let Some(expected) = hunk.old_start.filter(|_| place.length > 0) {
            drift = signed(place.start) - signed(expected.saturating_sub(1));
        }
        // A diff that fits exactly knows how lines end; other patches follow the file.
        let added_ending = match dialect {
            Dialect::Unified if place.is_exact => None,
            Dialect::Unified | Dialect::Codex => Some(ending),
        };
        done = carry_out(hunk, &old, place, ending, added_ending, &mut out);
    }
    for line in old.get(done..).unwrap_or_default() {
        append(&mut out, line, ending);
    }
    if dialect == Dialect::Codex && !out.is_empty() && !out.ends_with(b"\n") {
        // Codex's patches do not tell how a file ends; its own tool ends them so.
        out.extend_from_slice(ending);
    }
    Ok(out)
}

/// Writes what a hunk leaves and adds; gives the index of the first old line after it.
fn carry_out(
    hunk: &Hunk,
    old: &[&[u8]],
    place: place::Place,
    ending: &[u8],
    added_ending: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> usize {
    let end = place.start + place.length;
    let mut at = place.start;
    for line in &hunk.lines {
        match line {
            // As it is in the file, which the patch may have only nearly right.
            Line::Keep(_) => {
                if let Some(line) = old.get(at).filter(|_| at < end) {
                    append(out, line, ending);
                }
                at = end.min(at + 1);
            }
            Line::Remove(_) => at = end.min(at + 1),
            Line::Add(text) => match added_ending {
                Some(added_ending) if text.ends_with(b"\n") => {
                    append(out, lines::body(text), ending);
                    out.extend_from_slice(added_ending);
                }
                Some(_) | None => append(out, text, ending),
            },
        }
    }
    end
}

/// Appends a line, and ends the one before it first if it has no end.
fn append(out: &mut Vec<u8>, line: &[u8], ending: &[u8]) {
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.extend_from_slice(ending);
    }
    out.extend_from_slice(line);
}

fn signed(index: usize) -> isize {
    isize::try_from(index).unwrap_or(isize::MAX)
}
