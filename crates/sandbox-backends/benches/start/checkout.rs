//! C: a sandbox with a checkout, by the number of its files.

use std::cell::Cell;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holm_sandbox::{Exec, UncommittedWork};
use holm_sandbox_backends::local::{CreateOptions, IsolationChoice, LocalSandbox, Source};

use crate::lab::{LIMITS, Lab, TRUE, make, remove, run_quietly, time_process};
use crate::report::{Against, Report};
use crate::schedule::{Case, Measured, Random, Rounds, Row, measure};
use crate::statistics::Samples;

const FILES_PER_FOLDER: usize = 20;
const FOLDERS_PER_FOLDER: usize = 50;
/// Rounds of this part; a sandbox with a checkout is ended with care for its work, which takes time.
const ROUNDS_MAX: usize = 40;

/// A generated repository.
struct Repository {
    files: usize,
    path: PathBuf,
}

pub(crate) fn run(lab: &Lab, rounds: usize, report: &mut Report) -> Result<()> {
    let repositories = [1_000, 10_000, 50_000]
        .into_iter()
        .map(|files| generate(lab, files))
        .collect::<Result<Vec<_>>>()?;
    let firsts = repositories
        .iter()
        .map(|repository| first(lab, repository))
        .collect::<Result<Vec<_>>>()?;
    for repository in &repositories {
        // Git hashes files again that are as young as its index: the first call ends that.
        git_status(repository)?;
        git_status(repository)?;
    }
    let mut cases = Vec::new();
    for repository in &repositories {
        cases.push(create_case(lab, repository));
        cases.extend(status_cases(lab, repository));
        cases.extend(git_cases(lab, repository));
    }
    let mut measured = measure("checkout", cases, rounds.min(ROUNDS_MAX), &mut report.notes);
    measured.extend(firsts);
    measured.sort_by_key(|row| group_of(&row.row.key));
    report.table_as_is(
        "Sandbox with a checkout, through the local backend (ms)",
        measured,
        &[("create-1000", "1,000 cached")],
    );
    report.promise(
        "sandbox with 50,000 files, at most 1.2x of 1,000",
        "create-50000",
        1.2,
        Against::Row("create-1000"),
    );
    for files in [1_000, 10_000, 50_000] {
        report.promise(
            &format!(
                "first `git status` with {files} files, at most 1.5x a warm one in the source"
            ),
            &format!("status-{files}"),
            1.5,
            Against::Row(&format!("source-status-{files}")),
        );
    }
    for repository in &repositories {
        remove(&repository.path)?;
    }
    Ok(())
}

/// Rows of one kind stand together.
fn group_of(key: &str) -> usize {
    let kinds = [
        "create",
        "first",
        "worktree",
        "clone",
        "status",
        "source-status",
        "teardown",
    ];
    let kind = key.rsplit_once('-').map_or(key, |(kind, _)| kind);
    kinds
        .iter()
        .position(|it| *it == kind)
        .unwrap_or(kinds.len())
}

fn create(lab: &Lab, repository: &Repository) -> Result<LocalSandbox> {
    Ok(lab.runtime.create(&CreateOptions {
        source: Source::Repository {
            path: repository.path.clone(),
            branch: None,
        },
        isolation: IsolationChoice::Namespaces,
        limits: LIMITS,
        ..CreateOptions::default()
    })?)
}

fn exec(sandbox: &LocalSandbox, argv: &[&str]) -> Result<String> {
    let outcome = sandbox.exec_blocking(Exec::new(argv), None)?;
    ensure!(
        outcome.exit_code == 0,
        "{argv:?} ended with {}: {}",
        outcome.exit_code,
        outcome.stderr_text()
    );
    Ok(outcome.stdout_text().to_string())
}

/// The creation that finds nothing in the cache: it happens once per commit.
fn first(lab: &Lab, repository: &Repository) -> Result<Measured> {
    let started = Instant::now();
    let sandbox = create(lab, repository)?;
    exec(&sandbox, &[TRUE])?;
    let elapsed = started.elapsed();
    drop(sandbox.teardown_blocking(UncommittedWork::Discard));
    Ok(Measured {
        row: Row {
            key: format!("first-{}", repository.files),
            title: format!("Holm, {} files, first time (not cached)", repository.files),
        },
        samples: Samples::from_iter([elapsed]),
    })
}

fn create_case<'a>(lab: &'a Lab, repository: &'a Repository) -> Case<'a> {
    let files = repository.files;
    Case::with_rows(
        &[
            (
                &format!("create-{files}"),
                &format!("**Holm, {files} files**, cached, and `/bin/true`"),
            ),
            (
                &format!("teardown-{files}"),
                &format!("Holm, {files} files: teardown, not counted above"),
            ),
        ],
        Rounds::All,
        move || {
            let started = Instant::now();
            let sandbox = create(lab, repository)?;
            exec(&sandbox, &[TRUE])?;
            let used = started.elapsed();
            drop(sandbox.teardown_blocking(UncommittedWork::Discard));
            Ok(vec![used, started.elapsed() - used])
        },
    )
}

fn status_cases<'a>(lab: &'a Lab, repository: &'a Repository) -> Vec<Case<'a>> {
    let files = repository.files;
    let rounds = Rounds::AtMost(if files > 10_000 { 12 } else { 24 });
    vec![
        Case::new(
            &format!("status-{files}"),
            &format!("Holm, {files} files: first `git status` in the sandbox"),
            rounds,
            move || {
                let sandbox = create(lab, repository)?;
                let started = Instant::now();
                let said = exec(&sandbox, &["git", "status", "--porcelain"])?;
                let elapsed = started.elapsed();
                drop(sandbox.teardown_blocking(UncommittedWork::Discard));
                ensure!(said.is_empty(), "a new sandbox is not clean: {said}");
                Ok(elapsed)
            },
        ),
        Case::new(
            &format!("source-status-{files}"),
            &format!("warm `git status` in the source repository, {files} files"),
            rounds,
            move || git_status(repository),
        ),
    ]
}

/// What git itself offers for a second working tree.
fn git_cases<'a>(lab: &'a Lab, repository: &'a Repository) -> Vec<Case<'a>> {
    let files = repository.files;
    let rounds = Rounds::AtMost(match files {
        0..=1_000 => 12,
        1_001..=10_000 => 6,
        _ => 2,
    });
    let folder = lab.directory.join("git-peers");
    let count = Cell::new(0);
    let place = move |kind: &str| {
        count.set(count.get() + 1);
        folder.join(format!("{kind}-{files}-{}", count.get()))
    };
    let place_of_clone = place.clone();
    vec![
        Case::new(
            &format!("worktree-{files}"),
            &format!("`git worktree add`, {files} files"),
            rounds,
            move || {
                let tree = place("worktree");
                let added = ["worktree", "add", "--quiet", "--detach"];
                let elapsed = time_process(git(&repository.path).args(added).arg(&tree))?;
                run_quietly(
                    git(&repository.path)
                        .args(["worktree", "remove", "--force"])
                        .arg(&tree),
                )?;
                Ok(elapsed)
            },
        ),
        Case::new(
            &format!("clone-{files}"),
            &format!("`git clone --shared`, {files} files"),
            rounds,
            move || {
                let tree = place_of_clone("clone");
                let mut command = Command::new("git");
                command.args(["clone", "--quiet", "--shared"]);
                let elapsed = time_process(command.arg(&repository.path).arg(&tree))?;
                remove(&tree)?;
                Ok(elapsed)
            },
        ),
    ]
}

fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository);
    command
}

fn git_status(repository: &Repository) -> Result<Duration> {
    time_process(git(&repository.path).args(["status", "--porcelain"]))
}

/// A repository with the shape of source code: folders of twenty files of 1 to 4 KiB.
fn generate(lab: &Lab, files: usize) -> Result<Repository> {
    eprintln!("checkout: generating {files} files");
    let path = lab.directory.join(format!("repository-{files}"));
    make(&path)?;
    run_quietly(git(&path).args(["init", "--quiet", "--initial-branch=main"]))?;
    let mut importer = git(&path)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .context("start git fast-import")?;
    let input = importer.stdin.take().context("take git's input")?;
    write_history(BufWriter::new(input), files)?;
    let status = importer.wait()?;
    ensure!(status.success(), "git fast-import failed with {status}");
    run_quietly(git(&path).args(["reset", "--quiet", "--hard"]))?;
    let first = path.join("module-0/part-0/file-0.rs");
    ensure!(fs::exists(&first)?, "`{}` is missing", first.display());
    Ok(Repository { files, path })
}

fn write_history(mut out: impl Write, files: usize) -> Result<()> {
    let mut random = Random::new();
    for mark in 1..=files {
        let mut text = String::new();
        let bytes = 1_024 + random.below(3 * 1_024);
        while text.len() < bytes {
            let (name, value) = (random.below(100_000), random.below(1_000_000));
            text.push_str(&format!("let value_{name} = compute({value});\n"));
        }
        write!(out, "blob\nmark :{mark}\ndata {}\n{text}\n", text.len())?;
    }
    let message = "generated";
    write!(
        out,
        "commit refs/heads/main\ncommitter Bench <bench@example.invalid> 1700000000 +0000\n\
         data {}\n{message}\n",
        message.len()
    )?;
    for index in 0..files {
        let folder = index / FILES_PER_FOLDER;
        writeln!(
            out,
            "M 100644 :{} module-{}/part-{}/file-{}.rs",
            index + 1,
            folder / FOLDERS_PER_FOLDER,
            folder % FOLDERS_PER_FOLDER,
            index % FILES_PER_FOLDER,
        )?;
    }
    out.flush().context("write to git fast-import")
}
