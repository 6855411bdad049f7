//! The end of a sandbox: its work comes home, then it is deleted.
//!
//! ```text
//! commit what is uncommitted ──▶ which branches have work ──▶ bundle ──▶ a folder of this machine ──▶ delete
//!                     └───────────────────┴──── failed ────┴──▶ left alone, with a warning
//! ```
//!
//! What is at the remote already needs no bundle. A sandbox whose work could not be brought home is not deleted, so that
//! nothing is lost; an ephemeral one ends by itself when nobody has used it for a while.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use holm_sandbox::{
    BranchOrigin, KeptBranch, Result, SandboxError, TeardownReport, UncommittedWork, shell_quote,
};

use super::again::again;
use super::branch::{Repository, check_branch, commit_in};
use super::errors::remote;
use super::inside;
use super::sandbox::{Inner, Life};

const KEEP: &str = include_str!("keep.sh");
const MESSAGE: &str = "holm: uncommitted work at the end of the sandbox";
/// More branches than an agent makes, fewer than one who wants to fill a terminal.
const BRANCHES_MAX: usize = 200;
/// More than this is not brought home.
const BUNDLE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Ids are of 36 characters.
const ID_CHARACTERS_MAX: usize = 64;

/// What a script said about one branch.
#[derive(Debug, PartialEq, Eq)]
struct Branch {
    place: Place,
    commits: u64,
    tip: String,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Remote,
    SandboxOnly,
}

/// The next teardown tries again.
#[derive(Debug)]
struct LeftBehind;

impl Inner {
    /// The first call does it; others wait for it, and have nothing to report unless it left the sandbox behind.
    pub(super) async fn teardown(&self, work: UncommittedWork) -> TeardownReport {
        let mut report = TeardownReport::default();
        let ending = async {
            report = self.end(work).await;
            if report.leftovers.is_empty() {
                Ok(())
            } else {
                Err(LeftBehind)
            }
        };
        // The report says so.
        let _ended = self.ended.get_or_try_init(|| ending).await;
        report
    }

    async fn end(&self, work: UncommittedWork) -> TeardownReport {
        let mut report = TeardownReport::default();
        if let Some(repository) = &self.repository
            && let Err(error) = self.bring_home(repository, work, &mut report).await
            && !self.is_gone().await
        {
            report.leftovers.push(PathBuf::from(&self.id));
            report.warnings.push(format!(
                "the work in sandbox `{}` could not be brought home, so it was not deleted: {}",
                self.id,
                chain(&error)
            ));
            self.state().life = Life::TornDown;
            return report;
        }
        self.state().life = Life::TornDown;
        // A sandbox that is gone already is what was asked for.
        if let Err(error) = self.toolbox.client().delete(&self.id).await {
            report.leftovers.push(PathBuf::from(&self.id));
            report.warnings.push(format!(
                "sandbox `{}` could not be deleted: {}",
                self.id,
                chain(&error)
            ));
        }
        report
    }

    async fn is_gone(&self) -> bool {
        let found = self.toolbox.client().find(&self.id).await;
        matches!(found, Ok(None))
    }

    async fn bring_home(
        &self,
        repository: &Repository,
        work: UncommittedWork,
        report: &mut TeardownReport,
    ) -> Result<()> {
        let message = match work {
            UncommittedWork::Keep => MESSAGE,
            UncommittedWork::Discard => "",
        };
        let archive = format!("{}.bundle", self.staged());
        let doing = "look for work in the sandbox";
        let folder = self.work_dir.to_string_lossy();
        let argv = [
            "sh",
            "-c",
            KEEP,
            "holm",
            &folder,
            &repository.base,
            message,
            &archive,
        ];
        let command = shell_quote(&argv)?;
        let looking = || inside::run(&self.toolbox, doing, command.clone());
        let said = again(looking).await?;
        if said.code != 0 {
            return Err(SandboxError::Git {
                doing: doing.to_owned(),
                detail: said.text.trim().to_owned(),
                hint: None,
            });
        }
        for line in said.text.lines() {
            if let Some(commit) = line.strip_prefix("holm-commit ").and_then(commit_in) {
                repository.remember(commit);
            }
        }
        let branches: Vec<Branch> = said
            .text
            .lines()
            .filter_map(branch)
            .take(BRANCHES_MAX)
            .collect();
        let is_needed = branches
            .iter()
            .any(|branch| branch.place == Place::SandboxOnly);
        let bundle = match (&self.bundles, is_needed) {
            (Some(folder), true) => Some(self.fetch_bundle(folder, repository, &archive).await?),
            (None, true) => {
                report.warnings.push(format!(
                    "commits of sandbox `{}` were not pushed, and there is no folder to keep them in",
                    self.id
                ));
                None
            }
            (Some(_) | None, false) => None,
        };
        report.branches = branches
            .into_iter()
            .map(|branch| KeptBranch {
                origin: if repository.is_snapshot(&branch.tip) {
                    BranchOrigin::Snapshot
                } else {
                    BranchOrigin::Committed
                },
                bundle: match branch.place {
                    Place::Remote => None,
                    Place::SandboxOnly => bundle.clone(),
                },
                name: branch.name,
                commit: branch.tip,
                commits_ahead: branch.commits,
            })
            .collect();
        Ok(())
    }

    async fn fetch_bundle(
        &self,
        folder: &Path,
        repository: &Repository,
        archive: &str,
    ) -> Result<PathBuf> {
        let name = format!("{}-{}.bundle", repository.repo.name, plain(&self.id));
        let path = folder.join(name);
        let part = path.with_extension("part");
        fs::create_dir_all(folder).map_err(at("make folder", folder))?;
        let fetched = again(|| self.fetch(archive, &part)).await;
        if fetched.is_err() {
            // Nobody takes a half for the whole.
            drop(fs::remove_file(&part));
        }
        fetched?;
        fs::rename(&part, &path).map_err(at("write", &path))?;
        Ok(path)
    }

    async fn fetch(&self, archive: &str, part: &Path) -> Result<()> {
        let failed = |error| remote("fetch the sandbox's commits", error);
        let mut download = self
            .toolbox
            .files()
            .download(archive)
            .await
            .map_err(failed)?;
        let mut file = File::create(part).map_err(at("write", part))?;
        let mut count = 0_u64;
        while let Some(chunk) = download.chunk().await.map_err(failed)? {
            count += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            if count > BUNDLE_BYTES_MAX {
                return Err(SandboxError::TooLarge {
                    path: PathBuf::from(archive),
                    bytes_max: BUNDLE_BYTES_MAX,
                });
            }
            file.write_all(&chunk).map_err(at("write", part))?;
        }
        // The sandbox goes next: the bundle must be on the disk by then.
        file.sync_all().map_err(at("write", part))
    }
}

fn at(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> SandboxError {
    move |source| SandboxError::Io {
        doing: doing.to_owned(),
        path: path.to_path_buf(),
        source,
    }
}

/// One line of what the script said; a box may say anything.
fn branch(line: &str) -> Option<Branch> {
    let rest = line.strip_prefix("holm-branch ")?;
    let mut words = rest.splitn(4, ' ');
    let place = match words.next()? {
        "pushed" => Place::Remote,
        "here" => Place::SandboxOnly,
        _ => return None,
    };
    let commits = words.next()?.parse().ok()?;
    let tip = commit_in(words.next()?)?;
    let name = words.next()?.to_owned();
    check_branch(&name).ok()?;
    Some(Branch {
        place,
        commits,
        tip,
        name,
    })
}

/// The server's word for a sandbox, as a part of a file's name: it may say anything, and leads nowhere else.
fn plain(id: &str) -> String {
    let letters = id.chars().take(ID_CHARACTERS_MAX);
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => letter,
        _ => '_',
    };
    letters.map(plain).collect()
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_a_file_and_no_place() {
        assert_eq!(plain("0a-Z9"), "0a-Z9");
        assert_eq!(plain("/../../etc/x.y\0"), "_______etc_x_y_");
        assert_eq!(plain(&"x".repeat(10_000)).len(), ID_CHARACTERS_MAX);
    }

    #[test]
    fn only_well_formed_lines_count() {
        let tip = "0123456789abcdef0123456789abcdef01234567";
        let read = branch(&format!("holm-branch here 2 {tip} fix/a")).unwrap();
        assert_eq!((read.place, read.commits), (Place::SandboxOnly, 2));
        assert_eq!((read.tip.as_str(), read.name.as_str()), (tip, "fix/a"));
        for wrong in [
            String::new(),
            format!("holm-branch elsewhere 2 {tip} a"),
            format!("holm-branch here x {tip} a"),
            "holm-branch here 2 main a".to_owned(),
            format!("holm-branch here 2 {tip} --all"),
            format!("holm-branch here 2 {tip} \x1b[2J"),
        ] {
            assert_eq!(branch(&wrong), None, "{wrong}");
        }
    }
}
