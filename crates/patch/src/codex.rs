//! Codex's own form of a patch, as models write it.
//!
//! ```text
//! *** Begin Patch
//! *** Add File: PATH            then lines with `+`
//! *** Delete File: PATH
//! *** Update File: PATH         then perhaps `*** Move to: PATH`, then hunks
//! @@ a line that comes before   lines with ` `, `-` or `+`; perhaps `*** End of File`
//! *** End Patch
//! ```
//!
//! What models often add is understood: a here-document around it, no `@@` before the first hunk, an empty line instead of one
//! with a single space, and line numbers after `@@` as in unified diffs.

use crate::lines::{body, shown};
use crate::model::{Dialect, FileChange, Hunk, Line, Patch};
use crate::unified::old_range;
use crate::{ParseError, unified_names};

const BEGIN: &[u8] = b"*** Begin Patch";
const END: &[u8] = b"*** End Patch";
const END_OF_FILE: &[u8] = b"*** End of File";

/// Whether this is such a patch; white space and the line of a here-document may come first.
pub(crate) fn begins(lines: &[&[u8]]) -> bool {
    first_line(lines).is_some()
}

fn first_line(lines: &[&[u8]]) -> Option<usize> {
    let mut meaningful = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.trim_ascii().is_empty());
    let (index, line) = meaningful.next()?;
    if line.trim_ascii() == BEGIN {
        return Some(index);
    }
    let is_wrapper = line.windows(2).any(|pair| pair == b"<<");
    let (index, line) = meaningful.next()?;
    (is_wrapper && line.trim_ascii() == BEGIN).then_some(index)
}

pub(crate) fn parse(lines: &[&[u8]]) -> Result<Patch, ParseError> {
    let mut reader = Reader {
        lines,
        at: first_line(lines).map_or(0, |index| index + 1),
    };
    let mut changes = Vec::new();
    loop {
        let Some(line) = reader.next() else {
            return Err(ParseError::new(
                lines.len(),
                "`*** End Patch` is missing: the patch is cut off",
            ));
        };
        let line = line.trim_ascii();
        if line == END {
            break;
        }
        if line.is_empty() {
            continue;
        }
        changes.push(reader.section(line)?);
    }
    if changes.is_empty() {
        return Err(ParseError::new(0, "it changes no file"));
    }
    Ok(Patch {
        dialect: Dialect::Codex,
        changes,
    })
}

struct Reader<'text> {
    lines: &'text [&'text [u8]],
    at: usize,
}

impl<'text> Reader<'text> {
    fn peek(&self) -> Option<&'text [u8]> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'text [u8]> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    /// `self.at` is the number of the line that was read last.
    fn wrong(&self, problem: impl Into<String>) -> ParseError {
        ParseError::new(self.at, problem)
    }

    fn path(&self, text: &[u8]) -> Result<String, ParseError> {
        unified_names::checked(text.trim_ascii()).map_err(|problem| self.wrong(problem))
    }

    fn section(&mut self, header: &[u8]) -> Result<FileChange, ParseError> {
        if let Some(path) = header.strip_prefix(b"*** Add File:") {
            let path = self.path(path)?;
            return Ok(FileChange::Create {
                path,
                content: self.added(),
                executable: None,
            });
        }
        if let Some(path) = header.strip_prefix(b"*** Delete File:") {
            let path = self.path(path)?;
            return Ok(FileChange::Delete {
                path,
                hunks: Vec::new(),
            });
        }
        if let Some(path) = header.strip_prefix(b"*** Update File:") {
            let path = self.path(path)?;
            return self.update(path);
        }
        Err(self.wrong(format!(
            "`{}` is not `*** Add File:`, `*** Delete File:`, `*** Update File:` or `*** End Patch`",
            shown(header)
        )))
    }

    fn added(&mut self) -> Vec<u8> {
        let mut content = Vec::new();
        while let Some(text) = self.peek().and_then(|line| line.strip_prefix(b"+")) {
            self.at += 1;
            content.extend_from_slice(&whole(text));
        }
        content
    }

    fn update(&mut self, path: String) -> Result<FileChange, ParseError> {
        let mut moved_to = None;
        if let Some(target) = self
            .peek()
            .and_then(|line| line.strip_prefix(b"*** Move to:"))
        {
            self.at += 1;
            moved_to = Some(self.path(target)?);
        }
        let mut hunks: Vec<Hunk> = Vec::new();
        while let Some(hunk) = self.hunk(hunks.is_empty())? {
            hunks.push(hunk);
        }
        if hunks.is_empty() && moved_to.is_none() {
            return Err(self.wrong(format!("the update of `{path}` changes nothing")));
        }
        Ok(FileChange::Update {
            path,
            moved_to,
            hunks,
            executable: None,
        })
    }

    /// The next hunk of a file, if there is one more.
    fn hunk(&mut self, is_first: bool) -> Result<Option<Hunk>, ParseError> {
        let mut hunk = Hunk::default();
        let mut has_header = false;
        loop {
            let Some(line) = self.peek() else {
                return Ok(None);
            };
            if let Some(text) = line.strip_prefix(b"@@") {
                self.at += 1;
                has_header = true;
                if let Some((start, _)) = old_range(line) {
                    hunk.old_start = Some(start);
                } else if !text.trim_ascii().is_empty() {
                    let text = text.strip_prefix(b" ").unwrap_or(text);
                    hunk.anchors.push(body(text).to_vec());
                }
            } else if !has_header && line.trim_ascii().is_empty() {
                // Between sections.
                self.at += 1;
            } else {
                break;
            }
        }
        let mut empty_at_end = 0;
        while let Some(line) = self.peek() {
            let is_empty = body(line).is_empty();
            let line = match line.split_first() {
                _ if line.trim_ascii() == END_OF_FILE => {
                    self.at += 1;
                    hunk.at_end = true;
                    break;
                }
                _ if line.starts_with(b"***") || line.starts_with(b"@@") => break,
                Some((b' ', text)) => Line::Keep(whole(text)),
                Some((b'-', text)) => Line::Remove(whole(text)),
                Some((b'+', text)) => Line::Add(whole(text)),
                _ if is_empty => Line::Keep(whole(b"\n")),
                Some(_) | None => {
                    self.at += 1;
                    return Err(self.wrong(format!(
                        "`{}` begins with none of ` `, `-`, `+` and `@@`",
                        shown(line)
                    )));
                }
            };
            self.at += 1;
            hunk.lines.push(line);
            empty_at_end = if is_empty { empty_at_end + 1 } else { 0 };
        }
        if !hunk.at_end && self.peek().is_none_or(|line| line.starts_with(b"***")) {
            // Empty lines before the next section are no lines of the file.
            hunk.lines.truncate(hunk.lines.len() - empty_at_end);
        }
        match (hunk.lines.is_empty(), has_header) {
            (false, _) if has_header || is_first => Ok(Some(hunk)),
            (false, _) => Err(self.wrong("a hunk begins with `@@`")),
            (true, true) => Err(self.wrong("there are no lines after `@@`")),
            (true, false) => Ok(None),
        }
    }
}

/// The line of a patch as a line of a file: Codex's patches do not tell how files end.
fn whole(text: &[u8]) -> Vec<u8> {
    let mut line = body(text).to_vec();
    line.push(b'\n');
    line
}
