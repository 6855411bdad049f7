//! What goes where: data to standard output, everything said to people to standard error.
//!
//! Colours are for terminals only; `anstream` takes them out everywhere else. Writing never panics:
//! a reader of the data who has gone ends the command, one of the messages does not.

use std::io::{self, Write as _};

use clap::builder::styling::{AnsiColor, Style};
use holm_sandbox::{BranchOrigin, KeptBranch, TeardownReport};
use serde::Serialize;

use crate::error::CliError;

/// What kind of message this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Error,
    Cause,
    Warning,
    Note,
    Hint,
}

impl Tone {
    fn label(self) -> (&'static str, Style) {
        let bold = Style::new().bold();
        match self {
            Self::Error => ("error:", bold.fg_color(Some(AnsiColor::Red.into()))),
            Self::Cause => ("  caused by:", Style::new()),
            Self::Warning => ("warning:", bold.fg_color(Some(AnsiColor::Yellow.into()))),
            Self::Note => ("note:", bold),
            Self::Hint => ("hint:", bold.fg_color(Some(AnsiColor::Cyan.into()))),
        }
    }
}

/// Writes a message with its label. Lines after the first are indented, so that a foreign text cannot
/// pretend to be a message of its own.
pub(crate) fn tell(tone: Tone, text: &str) {
    let (label, style) = tone.label();
    let text = printable(text);
    to_stderr(&format!("{style}{label}{style:#} {text}\n"));
}

/// Writes a message without a label.
pub(crate) fn say(text: &str) {
    to_stderr(&format!("{}\n", printable(text)));
}

/// In one piece, so that lines of several processes do not mix.
fn to_stderr(text: &str) {
    // Nobody may be there to read it, which must not end the command.
    drop(anstream::stderr().write_all(text.as_bytes()));
}

/// Writes a line of data. Its control characters are escaped.
pub(crate) fn data(line: &str) -> Result<(), CliError> {
    raw(&format!("{}\n", printable_line(line)))
}

/// Writes data as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(value).map_err(|error| CliError::Io {
        doing: "describe the result as JSON",
        source: error.into(),
    })?;
    raw(&format!("{text}\n"))
}

/// Writes text that has its final form; colours in it are for terminals only.
pub(crate) fn raw(text: &str) -> Result<(), CliError> {
    let mut stdout = anstream::stdout();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    written.map_err(|source| output_error("write to standard output", source))
}

/// A failure to hand on data. When the reader is gone, there is nobody to tell.
pub(crate) fn output_error(doing: &'static str, source: io::Error) -> CliError {
    if source.kind() == io::ErrorKind::BrokenPipe {
        CliError::OutputClosed
    } else {
        CliError::Io { doing, source }
    }
}

/// Text without control characters that could redraw the terminal. Line breaks are kept, and what
/// follows them is indented.
pub(crate) fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.trim_end().chars() {
        match character {
            '\n' => clean.push_str("\n    "),
            '\t' => clean.push('\t'),
            character if acts(character) => clean.extend(character.escape_default()),
            character => clean.push(character),
        }
    }
    clean
}

/// The same in one line, for a cell of a table or a line of data.
pub(crate) fn printable_line(text: &str) -> String {
    printable(text).replace("\n    ", "\\n")
}

/// Whether a character does something to a terminal besides being shown, such as turning the direction of what follows.
fn acts(character: char) -> bool {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns
}

/// A branch that outlived its sandbox, as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct BranchJson {
    name: String,
    commit: String,
    commits_ahead: u64,
    /// `committed` or `snapshot`: whether the last commit is the sandbox's own or holds its
    /// uncommitted work.
    origin: &'static str,
    /// The file that holds it, where it is in no repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<String>,
}

impl From<&KeptBranch> for BranchJson {
    fn from(branch: &KeptBranch) -> Self {
        Self {
            name: branch.name.clone(),
            commit: branch.commit.clone(),
            commits_ahead: branch.commits_ahead,
            origin: match branch.origin {
                BranchOrigin::Committed => "committed",
                BranchOrigin::Snapshot => "snapshot",
            },
            bundle: branch
                .bundle
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned()),
        }
    }
}

/// What an end of a sandbox left, as warnings: what went wrong, and what could not be removed.
pub(crate) fn teardown_warnings(report: &TeardownReport) -> Vec<String> {
    let leftovers = report
        .leftovers
        .iter()
        .map(|path| format!("`{}` was left behind", path.display()));
    report.warnings.iter().cloned().chain(leftovers).collect()
}

/// `holm/1a2b3c4d (2 commits)`
pub(crate) fn describe_branch(branch: &KeptBranch) -> String {
    let unit = if branch.commits_ahead == 1 {
        "commit"
    } else {
        "commits"
    };
    format!("{} ({} {unit})", branch.name, branch.commits_ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_act() {
        assert_eq!(
            printable("a\u{1b}[2Jb\nhint: rm\n"),
            "a\\u{1b}[2Jb\n    hint: rm"
        );
        assert_eq!(printable("\u{9b}2J\u{202e}"), "\\u{9b}2J\\u{202e}");
        assert_eq!(printable_line("a\nb\t\n"), "a\\nb");
    }
}
