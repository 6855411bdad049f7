//! Patches as agents write them, carried out on files in memory.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod codex;
mod diff;
mod git;
mod properties;
mod unified;

use holm_patch::{ApplyError, Contents, Executable, FileState, Outcome, apply, parse};

/// Files by name. What a patch names and is not here does not exist.
type Files<'text> = &'text [(&'text str, &'text str)];

fn outcome(patch: &str, files: Files<'_>) -> Result<Outcome, ApplyError> {
    let patch = parse(patch.as_bytes()).unwrap();
    let mut contents: Contents = patch
        .paths_to_read()
        .into_iter()
        .map(|path| (path.to_owned(), None))
        .collect();
    for (path, content) in files {
        contents.insert((*path).to_owned(), Some(content.as_bytes().to_vec()));
    }
    apply(&patch, &contents)
}

/// What the patch leaves: `name: content`, or `name gone`.
#[track_caller]
fn check(patch: &str, files: Files<'_>, expected: &[&str]) {
    let outcome = outcome(patch, files).unwrap();
    let shown: Vec<String> = outcome.files.iter().map(show).collect();
    assert_eq!(shown, expected);
}

fn show((path, state): (&String, &FileState)) -> String {
    match state {
        FileState::Gone => format!("{path} gone"),
        FileState::Present {
            content,
            executable,
            mode_of,
        } => {
            let content = String::from_utf8_lossy(content);
            let executable = match executable {
                None => "",
                Some(Executable::Yes) => " +x",
                Some(Executable::No) => " -x",
            };
            let mode_of = mode_of.as_deref().map(|path| format!(" like {path}"));
            format!(
                "{path}{executable}{}: {content}",
                mode_of.unwrap_or_default()
            )
        }
    }
}

#[track_caller]
fn refused(patch: &str, files: Files<'_>, problem: &str) {
    assert_eq!(outcome(patch, files).unwrap_err().to_string(), problem);
}

#[track_caller]
fn unreadable(patch: &str, problem: &str) {
    assert_eq!(parse(patch.as_bytes()).unwrap_err().to_string(), problem);
}
