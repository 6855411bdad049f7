//! `cargo xtask tidy`: the rules of the house that neither the compiler nor clippy knows.
//!
//! Every rule is a function from text to findings, in a file of its own; this file only reads the
//! repository and shows what they found.

mod dependencies;
mod markdown;
mod rust_code;
mod rust_text;
mod specification;
mod text;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Context as _, Failure, Outcome, capture, program};
use crate::workspace;

/// A file that Git tracks, or would track after `git add`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceFile {
    /// From the root of the repository, with `/`.
    path: String,
    text: String,
}

impl SourceFile {
    fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|found| found == extension)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(file: &SourceFile, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: file.path.clone(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

pub(crate) fn run() -> Outcome {
    let root = workspace::root();
    let paths = tracked_paths(&root)?;
    let mut files = Vec::new();
    for path in &paths {
        let bytes = fs::read(root.join(path)).context(format_args!("read `{path}`"))?;
        // What is not text has no lines to check.
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile {
                path: path.clone(),
                text,
            });
        }
    }

    let exists = |path: &Path| root.join(path).exists();
    let mut findings = check(&files, &exists);
    findings.sort_by(|one, two| (&one.path, one.line).cmp(&(&two.path, two.line)));
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!(
            "tidy found {count} things in {} files",
            files.len()
        ))),
    }
}

fn check(files: &[SourceFile], exists: &dyn Fn(&Path) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(text::check(file));
        if file.is_rust() {
            findings.extend(rust_code::check(file));
        }
        if file.path.ends_with("Cargo.toml") {
            findings.extend(dependencies::check(file));
        }
        if file.has_extension("md") {
            findings.extend(markdown::check(file, exists));
        }
        if file.path == "SPECIFICATION.md" {
            findings.extend(specification::check(file, files));
        }
    }
    findings
}

fn tracked_paths(root: &Path) -> Outcome<Vec<String>> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let listing = capture(program("git", &arguments).current_dir(root))?;
    let mut paths: Vec<String> = listing.split_terminator('\0').map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    // Deleted and not yet committed, links (their target may be anywhere), and submodules.
    let is_file = |path: &String| {
        fs::symlink_metadata(root.join(path)).is_ok_and(|metadata| metadata.is_file())
    };
    paths.retain(is_file);
    Ok(paths)
}

/// The folder of a path from the root of the repository.
fn folder_of(path: &str) -> PathBuf {
    Path::new(path)
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default()
}
