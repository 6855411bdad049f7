//! Unified diffs, with what git adds: renames, copies, modes.
//!
//! Text before the first file (a commit's message) is skipped. What is inside of a hunk is counted, so that a removed line `-- x` is not
//! taken for the header of a file; a hunk whose counts are wrong is refused and not guessed at.

use crate::lines::{body, shown};
use crate::model::{Dialect, Executable, FileChange, Hunk, Line, Patch};
use crate::{ParseError, unified_names};

pub(crate) fn parse(lines: &[&[u8]]) -> Result<Patch, ParseError> {
    let mut reader = Reader { lines, at: 0 };
    let mut changes = Vec::new();
    while let Some(line) = reader.peek() {
        if line.starts_with(b"diff --git ") {
            changes.extend(reader.git_section()?);
        } else if reader.is_file_header() {
            let mut section = Section::default();
            reader.file(&mut section, None)?;
            changes.push(reader.change(section)?);
        } else if !changes.is_empty() && reader.looks_like_a_hunks_line(line) {
            reader.at += 1;
            return Err(reader.wrong(format!(
                "`{}` comes after the end of a hunk: the numbers after `@@` are too small, or `@@` is missing",
                shown(line)
            )));
        } else {
            reader.at += 1;
        }
    }
    if changes.is_empty() {
        return Err(ParseError::new(
            0,
            "there is neither `*** Begin Patch` nor a pair of lines `--- a/FILE` and `+++ b/FILE`",
        ));
    }
    Ok(Patch {
        dialect: Dialect::Unified,
        changes,
    })
}

/// What the headers and hunks of one file say.
#[derive(Default)]
struct Section {
    old: Option<String>,
    new: Option<String>,
    renamed: Option<(String, String)>,
    copied: Option<(String, String)>,
    is_created: bool,
    is_deleted: bool,
    executable: Option<Executable>,
    hunks: Vec<Hunk>,
}

struct Reader<'text> {
    lines: &'text [&'text [u8]],
    at: usize,
}

impl<'text> Reader<'text> {
    fn peek(&self) -> Option<&'text [u8]> {
        self.lines.get(self.at).copied()
    }

    fn wrong(&self, problem: impl Into<String>) -> ParseError {
        ParseError::new(self.at, problem)
    }

    fn is_file_header(&self) -> bool {
        let next = self.lines.get(self.at + 1);
        self.peek().is_some_and(|line| line.starts_with(b"--- "))
            && next.is_some_and(|line| line.starts_with(b"+++ "))
    }

    /// Outside of hunks such a line is lost, unless it is the mark before git's version at the end of a mail.
    fn looks_like_a_hunks_line(&self, line: &[u8]) -> bool {
        match line.first() {
            Some(b'+') => true,
            Some(b'-') => !line.starts_with(b"--") || line.starts_with(b"---"),
            Some(b'@') => line.starts_with(b"@@"),
            Some(b' ') => !line.trim_ascii().is_empty(),
            Some(_) | None => false,
        }
    }

    fn git_section(&mut self) -> Result<Option<FileChange>, ParseError> {
        let mut section = Section::default();
        let named = self
            .peek()
            .and_then(|line| line.strip_prefix(b"diff --git "))
            .and_then(unified_names::of_git_line);
        self.at += 1;
        let begins_at = self.at;
        while let Some(line) = self.peek() {
            if self.is_file_header() || line.starts_with(b"diff --git ") {
                break;
            }
            self.at += 1;
            if !self.extended(line, &mut section)? {
                break;
            }
        }
        if self.is_file_header() {
            self.file(&mut section, named.as_deref())?;
        } else if let Some(named) = named {
            // Nothing but a mode, or a file that is empty.
            let (has_old, has_new) = (!section.is_created, !section.is_deleted);
            section.old = section.old.or_else(|| has_old.then(|| named.clone()));
            section.new = section.new.or_else(|| has_new.then_some(named));
        } else if section.renamed.is_none() && section.copied.is_none() {
            return Err(ParseError::new(
                begins_at,
                "this section does not say which file it is about",
            ));
        }
        self.change(section).map(Some)
    }

    /// A line between `diff --git` and `---`; false if it is none.
    fn extended(&self, line: &[u8], section: &mut Section) -> Result<bool, ParseError> {
        let name = |text| unified_names::of_extended(text).map_err(|problem| self.wrong(problem));
        let pair = |pair: &mut Option<(String, String)>| pair.take().unwrap_or_default();
        if let Some(text) = line.strip_prefix(b"rename from ") {
            section.renamed = Some((name(text)?, pair(&mut section.renamed).1));
        } else if let Some(text) = line.strip_prefix(b"rename to ") {
            section.renamed = Some((pair(&mut section.renamed).0, name(text)?));
        } else if let Some(text) = line.strip_prefix(b"copy from ") {
            section.copied = Some((name(text)?, pair(&mut section.copied).1));
        } else if let Some(text) = line.strip_prefix(b"copy to ") {
            section.copied = Some((pair(&mut section.copied).0, name(text)?));
        } else if let Some(mode) = line.strip_prefix(b"new file mode ") {
            section.is_created = true;
            section.executable = self.executable(mode)?;
        } else if let Some(mode) = line.strip_prefix(b"new mode ") {
            section.executable = self.executable(mode)?;
        } else if let Some(mode) = line.strip_prefix(b"deleted file mode ") {
            section.is_deleted = true;
            self.executable(mode)?;
        } else if let Some(mode) = line.strip_prefix(b"old mode ") {
            self.executable(mode)?;
        } else if line.starts_with(b"Binary files ") || line.starts_with(b"GIT binary patch") {
            return Err(self.wrong("binary changes cannot be applied; upload the file instead"));
        } else {
            return Ok(line.starts_with(b"index ")
                || line.starts_with(b"similarity index ")
                || line.starts_with(b"dissimilarity index "));
        }
        Ok(true)
    }

    fn executable(&self, mode: &[u8]) -> Result<Option<Executable>, ParseError> {
        match body(mode) {
            b"100644" | b"100664" => Ok(Some(Executable::No)),
            b"100755" => Ok(Some(Executable::Yes)),
            b"120000" => Err(self.wrong("symbolic links cannot be patched")),
            b"160000" => Err(self.wrong("submodules cannot be patched")),
            other => Err(self.wrong(format!("mode `{}` is unknown", shown(other)))),
        }
    }

    /// The two lines with names, and the hunks after them.
    fn file(&mut self, section: &mut Section, named: Option<&str>) -> Result<(), ParseError> {
        let mut header = |prefix: &[u8]| {
            let text = self.peek().and_then(|line| line.strip_prefix(prefix));
            self.at += 1;
            unified_names::of_header(text.unwrap_or_default())
                .map_err(|problem| self.wrong(problem))
        };
        let (old, new) = (header(b"--- ")?, header(b"+++ ")?);
        (section.old, section.new) = unified_names::without_prefixes(old, new, named);
        while let Some(line) = self.peek() {
            if !line.starts_with(b"@@") {
                break;
            }
            let hunk = self.hunk(line)?;
            section.hunks.push(hunk);
        }
        if section.hunks.is_empty() {
            return Err(self.wrong("no hunk (`@@ -1,2 +1,3 @@`) follows the names of the file"));
        }
        Ok(())
    }

    fn hunk(&mut self, header: &[u8]) -> Result<Hunk, ParseError> {
        self.at += 1;
        let header_at = self.at;
        let (Some((old_start, mut old_left)), Some((_, mut new_left))) =
            (old_range(header), new_range(header))
        else {
            return Err(self.wrong(format!("`{}` is not like `@@ -1,2 +1,3 @@`", shown(header))));
        };
        let mut hunk = Hunk {
            old_start: Some(old_start),
            ..Hunk::default()
        };
        let missing = |old_left: usize, new_left: usize| {
            ParseError::new(
                header_at,
                format!(
                    "the hunk says that {old_left} more old and {new_left} more new lines come"
                ),
            )
        };
        while old_left > 0 || new_left > 0 {
            let Some(line) = self.peek() else {
                return Err(missing(old_left, new_left));
            };
            let (takes_old, takes_new, parsed) = match line.split_first() {
                Some((b' ', text)) => (1, 1, Line::Keep(ended(text))),
                // Editors and mail programs take a lone space away.
                _ if body(line).is_empty() => (1, 1, Line::Keep(ended(line))),
                Some((b'-', text)) => (1, 0, Line::Remove(ended(text))),
                Some((b'+', text)) => (0, 1, Line::Add(ended(text))),
                Some(_) | None => return Err(missing(old_left, new_left)),
            };
            let (Some(old), Some(new)) = (
                old_left.checked_sub(takes_old),
                new_left.checked_sub(takes_new),
            ) else {
                return Err(missing(old_left, new_left));
            };
            (old_left, new_left) = (old, new);
            self.at += 1;
            hunk.lines.push(parsed);
            self.no_newline(&mut hunk);
        }
        Ok(hunk)
    }

    /// `\ No newline at end of file` is about the line before it.
    fn no_newline(&mut self, hunk: &mut Hunk) {
        if !self.peek().is_some_and(|line| line.starts_with(b"\\")) {
            return;
        }
        self.at += 1;
        if let Some(Line::Keep(text) | Line::Remove(text) | Line::Add(text)) = hunk.lines.last_mut()
        {
            // Its `\n`.
            text.pop();
        }
    }

    fn change(&self, section: Section) -> Result<FileChange, ParseError> {
        let Section {
            old,
            new,
            renamed,
            copied,
            is_created: _,
            is_deleted: _,
            executable,
            hunks,
        } = section;
        if let Some((from, path)) = copied {
            let change = FileChange::Copy {
                from,
                path,
                hunks,
                executable,
            };
            return self.named(change);
        }
        let (old, new) = match renamed {
            Some((old, new)) => (Some(old), Some(new)),
            None => (old, new),
        };
        let change = match (old, new) {
            (None, None) => return Err(self.wrong("both names of a file are `/dev/null`")),
            (None, Some(path)) => FileChange::Create {
                path,
                content: self.created(&hunks)?,
                executable,
            },
            (Some(path), None) => FileChange::Delete { path, hunks },
            (Some(old), Some(new)) => FileChange::Update {
                moved_to: (new != old).then_some(new),
                path: old,
                hunks,
                executable,
            },
        };
        self.named(change)
    }

    /// Of a pair such as `rename from` and `rename to` one line may be missing.
    fn named(&self, change: FileChange) -> Result<FileChange, ParseError> {
        if change.source() == Some("") || change.target() == Some("") {
            return Err(self.wrong("of `from` and `to` one is missing"));
        }
        Ok(change)
    }

    fn created(&self, hunks: &[Hunk]) -> Result<Vec<u8>, ParseError> {
        let mut content = Vec::new();
        for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
            match line {
                Line::Add(text) => content.extend_from_slice(text),
                Line::Keep(_) | Line::Remove(_) => {
                    return Err(self.wrong("a file that is created has old lines"));
                }
            }
        }
        Ok(content)
    }
}

/// A line with its end, which the last one of the text may lack.
fn ended(text: &[u8]) -> Vec<u8> {
    let mut line = text.to_vec();
    if !line.ends_with(b"\n") {
        line.push(b'\n');
    }
    line
}

/// Where the old lines of `@@ -12,3 +12,4 @@` begin, and how many they are.
pub(crate) fn old_range(header: &[u8]) -> Option<(usize, usize)> {
    range(header, 0, '-')
}

fn new_range(header: &[u8]) -> Option<(usize, usize)> {
    range(header, 1, '+')
}

fn range(header: &[u8], index: usize, sign: char) -> Option<(usize, usize)> {
    let text = std::str::from_utf8(body(header)).ok().or_else(|| {
        // What stands after the second `@@` is a line of the file and may be anything.
        let end = header.windows(3).position(|window| window == b" @@")?;
        std::str::from_utf8(header.get(..end + 3)?).ok()
    })?;
    let (ranges, _) = text.strip_prefix("@@ ")?.split_once(" @@")?;
    let range = ranges.split(' ').nth(index)?.strip_prefix(sign)?;
    match range.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((range.parse().ok()?, 1)),
    }
}
