//! `cargo xtask gen`: the pages of `docs/reference` that are made from the code.
//!
//! The `holm` binary writes them itself, by a hidden subcommand, so they cannot differ from what it
//! does. They are checked in, and CI compares.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{self, Context as _, Failure, Outcome, cargo};
use crate::workspace;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    /// Change nothing, and fail where a page is not as it would be written.
    Check,
}

pub(crate) fn run(mode: Mode) -> Outcome {
    let reference = workspace::root().join("docs/reference");
    let fresh = workspace::target().join("xtask/reference");
    // Pages of an earlier run must not pass for pages of this one.
    if fresh.exists() {
        fs::remove_dir_all(&fresh).context(format_args!("remove `{}`", fresh.display()))?;
    }
    fs::create_dir_all(&fresh).context(format_args!("create `{}`", fresh.display()))?;
    process::run(cargo(&["run", "--quiet", "--package", "holm", "--", "__generate"]).arg(&fresh))?;

    let names = page_names(&fresh)?;
    if names.is_empty() {
        return Err(Failure::new("`holm __generate` wrote no page"));
    }
    match mode {
        Mode::Write => write(&names, &fresh, &reference),
        Mode::Check => check(&names, &fresh, &reference),
    }
}

fn page_names(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let reading = || format!("read `{}`", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).context(reading())? {
        names.push(PathBuf::from(entry.context(reading())?.file_name()));
    }
    names.sort();
    Ok(names)
}

fn write(names: &[PathBuf], fresh: &Path, reference: &Path) -> Outcome {
    fs::create_dir_all(reference).context(format_args!("create `{}`", reference.display()))?;
    for name in names {
        let page = reference.join(name);
        fs::copy(fresh.join(name), &page).context(format_args!("write `{}`", page.display()))?;
        println!("docs/reference/{}", name.display());
    }
    Ok(())
}

fn check(names: &[PathBuf], fresh: &Path, reference: &Path) -> Outcome {
    let mut stale = 0;
    for name in names {
        let page = fresh.join(name);
        let expected = fs::read(&page).context(format_args!("read `{}`", page.display()))?;
        let shown = name.display();
        match fs::read(reference.join(name)) {
            Ok(found) if found == expected => {}
            Ok(found) => {
                let line = first_difference(&found, &expected);
                eprintln!("docs/reference/{shown}:{line}: differs from what the code says");
                stale += 1;
            }
            Err(error) => {
                eprintln!("docs/reference/{shown}:1: cannot be read: {error}");
                stale += 1;
            }
        }
    }
    if stale == 0 {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{stale} generated pages are not up to date\n\nhint: run `cargo xtask gen`; to see what changes, \
         `git diff --no-index docs/reference {}`",
        fresh.display()
    )))
}

/// The number of the first line that is not the same in both.
fn first_difference(found: &[u8], expected: &[u8]) -> usize {
    let same = found
        .split(|byte| *byte == b'\n')
        .zip(expected.split(|byte| *byte == b'\n'))
        .take_while(|(one, two)| one == two)
        .count();
    same + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_difference_counts_lines_from_one() {
        assert_eq!(first_difference(b"a\nb\n", b"x\nb\n"), 1);
        assert_eq!(first_difference(b"a\nb\nc", b"a\nb\nd"), 3);
        assert_eq!(first_difference(b"a\n", b"a\nb\n"), 2);
    }
}
