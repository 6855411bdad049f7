//! What a patch says, whichever way it was written.

use std::collections::BTreeSet;

/// Which kind of patch it was. The kinds differ in how sections that name the same file relate, and in how exact they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Every section is about the files as they were before the patch, and lines are where the hunks say, or nearby.
    Unified,
    /// Sections are carried out one after the other, lines are found by what they hold, and what is there may be overwritten.
    Codex,
}

/// What a patch says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    pub dialect: Dialect,
    pub changes: Vec<FileChange>,
}

/// What becomes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    Create {
        path: String,
        content: Vec<u8>,
        executable: Option<Executable>,
    },
    Delete {
        path: String,
        /// What a unified diff says that the file holds; without hunks it may hold anything.
        hunks: Vec<Hunk>,
    },
    Update {
        path: String,
        /// Where the file is afterwards, if not where it was.
        moved_to: Option<String>,
        hunks: Vec<Hunk>,
        executable: Option<Executable>,
    },
    /// A new file, which begins as a copy of another.
    Copy {
        from: String,
        path: String,
        hunks: Vec<Hunk>,
        executable: Option<Executable>,
    },
}

/// Whether a file is a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executable {
    Yes,
    No,
}

/// Lines that belong together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Lines that come before it somewhere, in this order (Codex's `@@ class A`).
    pub anchors: Vec<Vec<u8>>,
    /// The number of the first old line, from 1; with no old lines, of the line before.
    pub old_start: Option<usize>,
    /// Its last line is the last of the file.
    pub at_end: bool,
    pub lines: Vec<Line>,
}

/// A line with its `\n`, which only the last of a file may lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Keep(Vec<u8>),
    Remove(Vec<u8>),
    Add(Vec<u8>),
}

impl Hunk {
    /// What has to be there.
    pub(crate) fn old(&self) -> Vec<&[u8]> {
        let old = self.lines.iter().filter_map(|line| match line {
            Line::Keep(text) | Line::Remove(text) => Some(text.as_slice()),
            Line::Add(_) => None,
        });
        old.collect()
    }
}

impl FileChange {
    /// The file that has to be there before, if one has to.
    pub fn source(&self) -> Option<&str> {
        match self {
            Self::Create { .. } => None,
            Self::Delete { path, .. } | Self::Update { path, .. } => Some(path),
            Self::Copy { from, .. } => Some(from),
        }
    }

    /// The file that is there afterwards, if one is.
    pub fn target(&self) -> Option<&str> {
        match self {
            Self::Delete { .. } => None,
            Self::Create { path, .. } | Self::Copy { path, .. } => Some(path),
            Self::Update { path, moved_to, .. } => Some(moved_to.as_deref().unwrap_or(path)),
        }
    }

    fn paths_mut(&mut self) -> Vec<&mut String> {
        match self {
            Self::Create { path, .. } | Self::Delete { path, .. } => vec![path],
            Self::Copy { from, path, .. } => vec![from, path],
            Self::Update { path, moved_to, .. } => {
                std::iter::once(path).chain(moved_to.as_mut()).collect()
            }
        }
    }
}

impl Patch {
    /// Every path that the patch names; what is there has to be given to [`crate::apply`].
    pub fn paths_to_read(&self) -> BTreeSet<&str> {
        let changes = self.changes.iter();
        changes
            .flat_map(|change| change.source().into_iter().chain(change.target()))
            .collect()
    }

    /// The same patch about other paths, such as those of another machine.
    pub fn map_paths<E>(
        mut self,
        mut map: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<Self, E> {
        for change in &mut self.changes {
            for path in change.paths_mut() {
                *path = map(path)?;
            }
        }
        Ok(self)
    }
}
