//! What git itself writes, carried out on what it was made from.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use holm_patch::{Contents, Executable, FileState, apply, parse};

type Tree = BTreeMap<String, (Vec<u8>, bool)>;

fn tree(files: &[(&str, &str, bool)]) -> Tree {
    let file = |(name, content, is_program): &(&str, &str, bool)| {
        (
            (*name).to_owned(),
            (content.as_bytes().to_vec(), *is_program),
        )
    };
    files.iter().map(file).collect()
}

fn git(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "core.autocrlf=false",
        ])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn write(folder: &Path, tree: &Tree) {
    for (name, (content, is_program)) in tree {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let mode = if *is_program { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// The tree after the patch, with the rights that it asks for.
fn patched(patch: &[u8], before: &Tree) -> Tree {
    let patch = parse(patch).unwrap();
    let contents: Contents = patch
        .paths_to_read()
        .into_iter()
        .map(|path| {
            (
                path.to_owned(),
                before.get(path).map(|(content, _)| content.clone()),
            )
        })
        .collect();
    let mut after = before.clone();
    for (path, state) in apply(&patch, &contents).unwrap().files {
        match state {
            FileState::Gone => {
                after.remove(&path);
            }
            FileState::Present {
                content,
                executable,
                mode_of,
            } => {
                let like = before.get(mode_of.as_ref().unwrap_or(&path));
                let is_program = match executable {
                    Some(executable) => executable == Executable::Yes,
                    None => like.is_some_and(|(_, is_program)| *is_program),
                };
                after.insert(path, (content, is_program));
            }
        }
    }
    after
}

#[test]
fn what_git_writes_leads_to_what_git_has() {
    let long: String = (0..60).map(|line| format!("line {line}\n")).collect();
    let edited = long
        .replace("line 7\n", "line seven\n")
        .replace("line 50\n", "");
    let before = tree(&[
        ("kept", "kept\n", false),
        ("dir/edited", &long, false),
        ("old name", &long, true),
        ("copied", &long.replace("line", "row"), false),
        ("crlf", "a\r\nb\r\nc\r\n", false),
        ("no newline", "a\nb", false),
        ("becomes empty", "x\n", false),
        ("gone/with ü \"quotes\"\\", "bye\n", false),
        ("empty gone", "", false),
        ("program", "#!/bin/sh\n", false),
        ("-- dashes", "-- a\n++ b\n", false),
    ]);
    let after = tree(&[
        ("kept", "kept\n", false),
        ("dir/edited", &edited, false),
        ("new dir/new name", &edited, true),
        ("copied", &long.replace("line", "row"), false),
        (
            "copy",
            &long
                .replace("line", "row")
                .replace("row 3\n", "row three\n"),
            false,
        ),
        ("crlf", "a\r\nB\r\nc\r\n", false),
        ("no newline", "a\nb\nc", false),
        ("becomes empty", "", false),
        ("empty new", "", false),
        ("program", "#!/bin/sh\n", true),
        ("-- dashes", "-- b\n++ b\n+++ c\n", false),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    git(path, &["init", "--quiet"]);
    write(path, &before);
    git(path, &["add", "--all"]);
    git(path, &["commit", "--quiet", "--message", "before"]);
    for name in before.keys() {
        fs::remove_file(path.join(name)).unwrap();
    }
    write(path, &after);
    git(path, &["add", "--all"]);
    git(
        path,
        &[
            "commit",
            "--quiet",
            "--message",
            "after\n\n--- not/a\n and no hunk\n",
        ],
    );
    for form in [
        &["diff", "HEAD^", "HEAD"][..],
        &["diff", "--no-renames", "HEAD^", "HEAD"],
        &["diff", "-C", "--find-copies-harder", "-U0", "HEAD^", "HEAD"],
        &["diff", "--no-prefix", "-U8", "HEAD^", "HEAD"],
        &["format-patch", "--stdout", "HEAD^"],
        &["show", "--stat", "--patch", "HEAD"],
    ] {
        let patch = git(path, form);
        let text = String::from_utf8_lossy(&patch);
        assert_eq!(patched(&patch, &before), after, "{form:?}\n{text}");
        // And back again.
        if form[0] == "diff" {
            let mut back = form.to_vec();
            back.insert(1, "-R");
            assert_eq!(patched(&git(path, &back), &after), before, "{back:?}");
        }
    }
}
