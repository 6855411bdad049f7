//! The end of a sandbox, and what is brought home from it.
//!
//! ```text
//! untouched? ──yes──▶ remove everything
//!     │ no
//! snapshot what is not committed ──▶ pack the new commits (inside) ──▶ index the pack (outside)
//!     │ git inside is broken                                                 │
//!     └──▶ the same once more with a fresh `.git` over the agent's files     ▼
//!              │ fails too                                        move the branch, remove the rest
//!              └──▶ keep the layers and say where they are
//! ```
//!
//! Nothing inside is trusted. Commits come home as a pack stream, as from any foreign remote: indexed
//! strictly, checked to be whole, and only then named by a ref. No file of the box's `.git` is read by
//! a git outside.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use holm_sandbox::{
    BranchOrigin, KeptBranch, Result, SandboxError, SnapshotId, TeardownReport, UncommittedWork,
};

use super::checkout::{at, make_private_folder, remove_tree};
use super::git::{GitOutput, text};
use super::inside::{InsideGit, is_untouched};
use super::place::Place;
use super::record::{IsolationKind, Record, SourceRecord};
use super::repository::Repository;
use super::runtime::LocalRuntime;
use super::sandbox::Inner;
use super::start::{Layers, start_box, write_upper};
use super::worktree;

/// An agent has a few branches; more are an attack on the user's list of them.
const OTHER_BRANCHES_MAX: usize = 50;
/// Longer names are replaced by numbers.
const BRANCH_NAME_BYTES_MAX: usize = 100;

/// A sandbox's parts that outlive its process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remains<'a> {
    pub(crate) runtime: &'a LocalRuntime,
    pub(crate) directory: &'a Path,
    pub(crate) record: &'a Record,
}

impl Inner {
    pub(crate) fn remains(&self) -> Remains<'_> {
        Remains {
            runtime: &self.runtime,
            directory: &self.directory,
            record: &self.record,
        }
    }

    pub(crate) fn inside(&self, operation: &'static str) -> Result<InsideGit<'_>> {
        match &self.record.source {
            SourceRecord::Repository { .. } => Ok(InsideGit {
                runtime: &self.runtime,
                record: &self.record,
                place: &self.place,
            }),
            SourceRecord::Empty | SourceRecord::Directory { .. } => {
                Err(SandboxError::Unsupported { operation })
            }
        }
    }
}

/// Commits everything as it is now and returns the commit.
pub(crate) fn snapshot(inner: &Inner) -> Result<SnapshotId> {
    let inside = inner.inside("snapshot")?;
    inside.commit_all(
        &format!("snapshot-{}", inner.record.run_id),
        super::inside::Empty::Allowed,
    )?;
    inside
        .commit_of("HEAD")?
        .map(SnapshotId)
        .ok_or_else(|| SandboxError::Git {
            doing: "take a snapshot".into(),
            detail: "the sandbox's HEAD names no commit".into(),
            hint: None,
        })
}

/// Ends a sandbox that is in use.
pub(crate) fn end(inner: &Inner, work: UncommittedWork) -> TeardownReport {
    end_remains(inner.remains(), Some(&inner.place), work)
}

/// Ends a sandbox, running or not: brings its work home, then removes every trace of it.
pub(crate) fn end_remains(
    remains: Remains<'_>,
    place: Option<&Place>,
    work: UncommittedWork,
) -> TeardownReport {
    let mut report = TeardownReport::default();
    let brought = bring_home(remains, place, work, &mut report);
    if let Some(Place::Boxed { inner, .. }) = place
        && let Err(error) = inner.stop()
    {
        report
            .warnings
            .push(format!("the box was not removed cleanly: {error}"));
    }
    let keep_files = match (brought, work) {
        (Ok(all), _) => all == Brought::NotAll,
        (Err(error), UncommittedWork::Discard) => {
            report
                .warnings
                .push(format!("the sandbox's commits are lost: {error}"));
            false
        }
        (Err(error), UncommittedWork::Keep) => {
            report.warnings.push(format!(
                "the sandbox's work could not be brought home: {error}"
            ));
            true
        }
    };
    if keep_files && let Err(error) = put_aside(remains, &mut report) {
        // Then nothing is removed at all, and the next call tries again.
        report.warnings.push(error.to_string());
        return report;
    }
    remove(remains, &mut report);
    report
}

/// Whether a branch holds everything that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brought {
    All,
    NotAll,
}

/// Moves the agent's files out of the sandbox that is about to be removed.
fn put_aside(remains: Remains<'_>, report: &mut TeardownReport) -> Result<()> {
    let files = match remains.record.isolation {
        IsolationKind::Namespaces => remains.directory.join("tree-upper"),
        IsolationKind::None => remains.record.work_dir.clone(),
    };
    let leftovers = remains.runtime.config.leftovers_dir();
    make_private_folder(&leftovers)?;
    let kept = leftovers.join(remains.record.run_id.to_string());
    fs::rename(&files, &kept).map_err(at("put aside", &files))?;
    report.leftovers.push(kept);
    Ok(())
}

fn bring_home(
    remains: Remains<'_>,
    place: Option<&Place>,
    work: UncommittedWork,
    report: &mut TeardownReport,
) -> Result<Brought> {
    let SourceRecord::Repository { branch, commit, .. } = &remains.record.source else {
        return Ok(Brought::All);
    };
    match remains.record.isolation {
        IsolationKind::Namespaces => {
            let upper = remains.directory.join("tree-upper");
            if !upper.is_dir() || is_untouched(&upper, branch, commit)? {
                return Ok(Brought::All);
            }
        }
        IsolationKind::None => {
            if !remains.record.work_dir.is_dir() {
                return Ok(Brought::All);
            }
        }
    }
    let first = match place {
        Some(place) => bring_home_from(remains, place, work, report),
        None => match remains.record.isolation {
            IsolationKind::Namespaces => with_new_box(remains, |place| {
                bring_home_from(remains, place, work, report)
            }),
            IsolationKind::None => {
                let place = Place::Plain {
                    environment: Vec::new(),
                };
                bring_home_from(remains, &place, work, report)
            }
        },
    };
    match (first, remains.record.isolation) {
        (Ok(brought), _) => Ok(brought),
        (Err(error), IsolationKind::None) => Err(error),
        (Err(_), IsolationKind::Namespaces) => {
            if let Some(Place::Boxed { inner, .. }) = place {
                inner.stop().map_err(super::errors::engine_error)?;
            }
            report.warnings.push(
                "git inside the sandbox was broken; its files were saved with a fresh one".into(),
            );
            replace_git(remains)?;
            with_new_box(remains, |place| {
                bring_home_from(remains, place, work, report)
            })
        }
    }
}

/// Starts a box over the layers of one that has ended.
fn with_new_box<T>(remains: Remains<'_>, use_it: impl FnOnce(&Place) -> Result<T>) -> Result<T> {
    let layers = Layers::of(remains.runtime, remains.record)?;
    let mut record = remains.record.clone();
    // However it was made, this one ends with us.
    record.stay = super::record::Stay::Throwaway;
    let (place, _files, _warnings) = start_box(
        remains.runtime,
        remains.directory,
        &mut record,
        Some(&layers),
        None,
    )?;
    let result = use_it(&place);
    if let Place::Boxed { inner, .. } = &place {
        inner.stop().map_err(super::errors::engine_error)?;
    }
    result
}

/// Puts the agent's `.git` aside and a fresh one in its place.
fn replace_git(remains: Remains<'_>) -> Result<()> {
    let upper = remains.directory.join("tree-upper");
    let broken = remains.directory.join("broken-git");
    remove_tree(&broken)?;
    if let Ok(found) = fs::symlink_metadata(upper.join(".git")) {
        if found.is_dir() {
            // Without root, a folder that may not be written to cannot be moved either.
            fs::set_permissions(upper.join(".git"), Permissions::from_mode(0o700))
                .map_err(at("open up", &upper))?;
        }
        fs::rename(upper.join(".git"), &broken).map_err(at("put aside", &broken))?;
    }
    let layers = Layers::of(remains.runtime, remains.record)?;
    write_upper(remains.runtime, remains.directory, remains.record, &layers)
}

fn bring_home_from(
    remains: Remains<'_>,
    place: &Place,
    work: UncommittedWork,
    report: &mut TeardownReport,
) -> Result<Brought> {
    let SourceRecord::Repository {
        branch,
        commit,
        path,
        ..
    } = &remains.record.source
    else {
        return Ok(Brought::All);
    };
    let inside = InsideGit {
        runtime: remains.runtime,
        record: remains.record,
        place,
    };
    let origin = match work {
        UncommittedWork::Keep => {
            let message = format!(
                "holm: uncommitted work of sandbox {}",
                remains.record.run_id
            );
            match inside.commit_all(&message, super::inside::Empty::Refused)? {
                super::inside::Committed::Yes => BranchOrigin::Snapshot,
                super::inside::Committed::NothingToDo => BranchOrigin::Committed,
            }
        }
        UncommittedWork::Discard => BranchOrigin::Committed,
    };
    let mut brought = Brought::All;
    if origin == BranchOrigin::Snapshot {
        for nested in inside.nested_repositories()? {
            brought = Brought::NotAll;
            report.warnings.push(format!(
                "`{nested}` is a repository of its own, which a branch cannot hold"
            ));
        }
    }
    let repository = Repository::open(&remains.runtime.config, path)?;
    let home = Home {
        remains,
        repository: &repository,
        inside: &inside,
    };
    let head = inside.commit_of("HEAD")?;
    let on_branch = inside.commit_of(&format!("refs/heads/{branch}"))?;
    // An agent that renamed or deleted the branch means what it has checked out.
    let tip = on_branch.clone().or_else(|| head.clone());
    if let Some(tip) = tip.filter(|tip| tip != commit) {
        report
            .branches
            .push(home.bring(&tip, branch, Some(commit), origin)?);
    }
    if let (Some(head), Some(on_branch)) = (head, on_branch)
        && head != on_branch
        && head != *commit
        && !inside.is_ancestor(&head, &on_branch)?
    {
        let name = format!("{branch}-head");
        report
            .branches
            .push(home.bring(&head, &name, None, origin)?);
    }
    home.bring_other_branches(branch, report)?;
    Ok(brought)
}

/// The way home for commits.
pub(crate) struct Home<'a> {
    pub(crate) remains: Remains<'a>,
    pub(crate) repository: &'a Repository,
    pub(crate) inside: &'a InsideGit<'a>,
}

impl Home<'_> {
    /// Copies the commits up to `tip` into the user's repository and names them.
    pub(crate) fn bring(
        &self,
        tip: &str,
        branch: &str,
        expected: Option<&str>,
        origin: BranchOrigin,
    ) -> Result<KeptBranch> {
        let config = &self.remains.runtime.config;
        let base = &self.repository_commit();
        let git = || self.repository.git(config);
        let is_plain = self.remains.record.isolation == IsolationKind::None;
        if !is_plain && !self.has_commit(tip)? {
            self.import(tip, base)?;
        }
        let name = self.name_commit(tip, branch, expected)?;
        let count = git()
            .args(["rev-list", "--count", &format!("{base}..{tip}")])
            .run("count the new commits")?;
        Ok(KeptBranch {
            name,
            commit: tip.to_owned(),
            commits_ahead: text(&count).parse().unwrap_or_default(),
            origin,
            bundle: None,
        })
    }

    /// Brings the commits that only other branches inside lead to.
    fn bring_other_branches(&self, own: &str, report: &mut TeardownReport) -> Result<()> {
        if self.remains.record.isolation == IsolationKind::None {
            return Ok(());
        }
        let mut kept = 0;
        for (name, tip) in self.inside.branches()? {
            if self.has_commit(&tip)? {
                continue;
            }
            if kept == OTHER_BRANCHES_MAX {
                report.warnings.push(format!(
                    "the sandbox had more than {OTHER_BRANCHES_MAX} further branches; the rest was not kept"
                ));
                break;
            }
            kept += 1;
            let name = if name.len() <= BRANCH_NAME_BYTES_MAX {
                format!("{own}-{name}")
            } else {
                format!("{own}-{kept}")
            };
            match self.bring(&tip, &name, None, BranchOrigin::Committed) {
                Ok(branch) => report.branches.push(branch),
                Err(error) => report
                    .warnings
                    .push(format!("branch `{name}` was not brought home: {error}")),
            }
        }
        Ok(())
    }

    fn has_commit(&self, commit: &str) -> Result<bool> {
        let found = self
            .repository
            .git(&self.remains.runtime.config)
            .args(["cat-file", "-e", &format!("{commit}^{{commit}}")])
            .output("look for a commit")?;
        Ok(found.success)
    }

    fn repository_commit(&self) -> String {
        match &self.remains.record.source {
            SourceRecord::Repository { commit, .. } => commit.clone(),
            SourceRecord::Empty | SourceRecord::Directory { .. } => String::new(),
        }
    }

    /// Points the branch at the commit, or a branch of a free name if the user has moved it meanwhile.
    fn name_commit(&self, tip: &str, branch: &str, expected: Option<&str>) -> Result<String> {
        let config = &self.remains.runtime.config;
        let none = "0".repeat(tip.len());
        let update = |name: &str, old: &str| -> Result<GitOutput> {
            self.repository
                .git(config)
                .args(["update-ref", "-m", "holm: brought home from a sandbox"])
                .args([&format!("refs/heads/{name}"), tip, old])
                .output("move the branch")
        };
        let first = update(branch, expected.unwrap_or(&none))?;
        if first.success {
            return Ok(branch.to_owned());
        }
        // A branch that was pushed has moved on already; going on from there loses nothing.
        let git = || self.repository.git(config);
        let present = git()
            .args(["rev-parse", "--quiet", "--verify"])
            .arg(format!("refs/heads/{branch}"))
            .output("read the branch")?;
        let present = text(&present.stdout);
        if present == tip {
            return Ok(branch.to_owned());
        }
        if !present.is_empty()
            && git()
                .args(["merge-base", "--is-ancestor", &present, tip])
                .output("compare two commits")?
                .success
            && update(branch, &present)?.success
        {
            return Ok(branch.to_owned());
        }
        let other = format!("{branch}-{}", self.remains.record.run_id);
        check(update(&other, &none)?, "name the sandbox's commits")?;
        Ok(other)
    }
}

pub(crate) fn check(output: GitOutput, doing: &str) -> Result<()> {
    if output.success {
        Ok(())
    } else {
        Err(output.error(doing))
    }
}

/// Removes what the host knows of the sandbox. What fails here is told, and tried again by the next call.
fn remove(remains: Remains<'_>, report: &mut TeardownReport) {
    let config = &remains.runtime.config;
    let record = remains.record;
    let mut attempt = |outcome: Result<()>| {
        if let Err(error) = outcome {
            report.warnings.push(error.to_string());
        }
    };
    match &record.source {
        SourceRecord::Repository {
            path,
            branch,
            branch_given,
            commit,
        } => {
            if let Ok(repository) = Repository::open(config, path) {
                attempt(worktree::remove(config, &repository, &record.work_dir));
                if !branch_given {
                    // Refused if it has moved on, which is what is wanted.
                    drop(worktree::delete_unchanged_branch(
                        config,
                        &repository,
                        branch,
                        commit,
                    ));
                }
            }
        }
        SourceRecord::Empty if record.isolation == IsolationKind::None => {
            attempt(remove_tree(&record.work_dir));
        }
        SourceRecord::Empty | SourceRecord::Directory { .. } => {}
    }
    attempt(super::record::remove_directory(remains.directory));
}
