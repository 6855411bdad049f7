//! Git inside a sandbox, where nothing that it says is trusted.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use holm_sandbox::{Result, SandboxError};
use holm_sandbox_linux::Exit;
use holm_sandbox_linux::files::ConfinedDir;
use holm_sandbox_linux::pump::{Cause, Source};

use super::environment;
use super::errors::{engine_error, files_error};
use super::git::{GitCommand, GitOutput, text};
use super::place::{Place, Run};
use super::record::Record;
use super::repository::{git_user, owner_of};
use super::runtime::LocalRuntime;

/// What git inside may say; it answers with commits and short errors.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The largest pack that is taken home.
const PACK_BYTES_MAX: u64 = 16 << 30;
/// Adding a very large tree takes its time; longer is a hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// Git in the sandbox's work directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InsideGit<'a> {
    pub(crate) runtime: &'a LocalRuntime,
    pub(crate) record: &'a Record,
    pub(crate) place: &'a Place,
}

/// Whether a commit may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empty {
    Allowed,
    Refused,
}

/// Whether a commit was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    Yes,
    NothingToDo,
}

/// The agent's own settings must not get in the way of saving its work.
const OVERRIDES: [&str; 12] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "core.bare=false",
    "-c",
    "advice.addEmbeddedRepo=false",
];

impl InsideGit<'_> {
    fn git(&self, arguments: &[&str], doing: &str) -> Result<GitOutput> {
        match self.place {
            Place::Plain { .. } => {
                let user = git_user(owner_of(&self.record.work_dir)?);
                GitCommand::new(&self.runtime.config, &self.record.work_dir, user)
                    .args(OVERRIDES)
                    .args(arguments)
                    .output(doing)
            }
            Place::Boxed { .. } => {
                let mut stdout = Vec::new();
                let mut output = self.run_boxed(arguments, b"", doing, &mut |piece| {
                    let room = ANSWER_BYTES_MAX.saturating_sub(stdout.len());
                    stdout
                        .extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
                })?;
                output.stdout = stdout;
                Ok(output)
            }
        }
    }

    fn run_boxed(
        &self,
        arguments: &[&str],
        input: &[u8],
        doing: &str,
        output: &mut dyn FnMut(&[u8]),
    ) -> Result<GitOutput> {
        let failed = |source: io::Error| SandboxError::Backend {
            doing: doing.to_owned(),
            hint: None,
            source: source.into(),
        };
        let (stdin, mut writer) = io::pipe().map_err(failed)?;
        // A few lines at most, which a pipe holds without a reader.
        writer.write_all(input).map_err(failed)?;
        drop(writer);
        let mut environment = self.place.environment();
        let fixed = [
            ("LC_ALL", "C"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_EDITOR", "true"),
            // What is saved is what is there, not what a replacement shows.
            ("GIT_NO_REPLACE_OBJECTS", "1"),
        ];
        environment::extend(
            &mut environment,
            fixed.map(|(key, value)| (OsString::from(key), OsString::from(value))),
        );
        let argv = std::iter::once("git")
            .chain(OVERRIDES)
            .chain(arguments.iter().copied());
        let run = Run {
            argv: argv.map(OsString::from).collect(),
            environment,
            cwd: self.record.work_dir.clone(),
            stdin: stdin.into(),
            timeout: Some(PATIENCE),
            interrupts: None,
            cancel: None,
        };
        let mut stderr = Vec::new();
        let ended = self
            .place
            .run(run, &mut |source, piece| match source {
                Source::Stdout => output(piece),
                Source::Stderr => {
                    let room = ANSWER_BYTES_MAX.saturating_sub(stderr.len());
                    stderr
                        .extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
                }
            })
            .map_err(engine_error)?;
        Ok(GitOutput {
            success: ended.exit == Exit::Code(0) && ended.cause == Cause::Itself,
            stdout: Vec::new(),
            stderr: String::from_utf8_lossy(&stderr).trim().to_owned(),
        })
    }

    fn must(&self, arguments: &[&str], doing: &str) -> Result<Vec<u8>> {
        let output = self.git(arguments, doing)?;
        if output.success {
            Ok(output.stdout)
        } else {
            Err(output.error(doing))
        }
    }

    /// Commits all that is in the work tree.
    pub(crate) fn commit_all(&self, message: &str, empty: Empty) -> Result<Committed> {
        let doing = "commit the sandbox's files";
        let added = self.git(&["add", "--all", "--", "."], doing)?;
        if !added.success {
            // A git that was killed leaves its lock; nobody else works here now.
            self.remove_stale_lock()?;
            self.must(&["add", "--all", "--", "."], doing)?;
        }
        match empty {
            Empty::Refused => {
                let has_head = self.commit_of("HEAD")?.is_some();
                if has_head
                    && self
                        .git(&["diff", "--cached", "--quiet", "HEAD"], doing)?
                        .success
                {
                    return Ok(Committed::NothingToDo);
                }
            }
            Empty::Allowed => {}
        }
        let identity = self.missing_identity()?;
        let commit = identity.iter().copied().chain([
            "commit",
            "--quiet",
            "--no-verify",
            "--allow-empty",
            "--message",
            message,
        ]);
        self.must(&commit.collect::<Vec<_>>(), doing)?;
        Ok(Committed::Yes)
    }

    /// What git needs to commit where the user has not said who they are.
    fn missing_identity(&self) -> Result<&'static [&'static str]> {
        let known = self.git(&["var", "GIT_COMMITTER_IDENT"], "find the user's name")?;
        Ok(if known.success {
            &[]
        } else {
            &["-c", "user.name=Holm", "-c", "user.email=holm@localhost"]
        })
    }

    fn remove_stale_lock(&self) -> Result<()> {
        let place = text(&self.must(
            &["rev-parse", "--git-path", "index.lock"],
            "find git's lock",
        )?);
        match self.place {
            Place::Boxed { .. } => {
                let run = Run {
                    argv: ["rm", "-f", "--", &place].map(OsString::from).to_vec(),
                    environment: self.place.environment(),
                    cwd: self.record.work_dir.clone(),
                    stdin: File::open("/dev/null")
                        .map_err(|source| SandboxError::Io {
                            doing: "open".into(),
                            path: "/dev/null".into(),
                            source,
                        })?
                        .into(),
                    timeout: Some(PATIENCE),
                    interrupts: None,
                    cancel: None,
                };
                self.place.run(run, &mut |_, _| {}).map_err(engine_error)?;
            }
            Place::Plain { .. } => {
                let path = self.record.work_dir.join(place);
                if path.exists() {
                    std::fs::remove_file(&path).map_err(super::checkout::at("remove", &path))?;
                }
            }
        }
        Ok(())
    }

    /// The commit that a name stands for, if it stands for one.
    pub(crate) fn commit_of(&self, name: &str) -> Result<Option<String>> {
        let name = format!("{name}^{{commit}}");
        let output = self.git(&["rev-parse", "--quiet", "--verify", &name], "read a ref")?;
        let commit = text(&output.stdout);
        Ok((output.success && is_commit(&commit)).then_some(commit))
    }

    /// Repositories that the agent made inside the work tree: git records that they are there, and
    /// nothing of what is in them.
    pub(crate) fn nested_repositories(&self) -> Result<Vec<String>> {
        let listed = self.must(
            &[
                "diff-tree",
                "-r",
                "-z",
                "--no-commit-id",
                "--diff-filter=A",
                "--raw",
                "HEAD",
            ],
            "look for nested repositories",
        )?;
        let mut fields = listed.split(|byte| *byte == 0);
        let mut found = Vec::new();
        while let (Some(change), Some(name)) = (fields.next(), fields.next()) {
            if change.starts_with(b":000000 160000 ") {
                found.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        Ok(found)
    }

    /// The branches inside, with their commits.
    pub(crate) fn branches(&self) -> Result<Vec<(String, String)>> {
        let arguments = [
            "for-each-ref",
            "--format=%(objectname) %(refname:lstrip=2)",
            "refs/heads",
        ];
        let listed = self.must(&arguments, "list the sandbox's branches")?;
        let listed = text(&listed);
        let pairs = listed.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs
            .filter(|(commit, _)| is_commit(commit))
            .map(|(commit, name)| (name.to_owned(), commit.to_owned()))
            .collect())
    }

    pub(crate) fn is_ancestor(&self, older: &str, newer: &str) -> Result<bool> {
        let arguments = ["merge-base", "--is-ancestor", older, newer];
        Ok(self.git(&arguments, "compare two commits")?.success)
    }

    /// Writes the commits that lead from `base` to `tip` as a pack.
    pub(crate) fn pack(&self, tip: &str, base: &str, file: &mut File) -> Result<()> {
        let doing = "pack the sandbox's commits";
        let mut bounded = BoundedFile {
            file,
            left: PACK_BYTES_MAX,
            error: None,
        };
        let output = self.run_boxed(
            &[
                "pack-objects",
                "--revs",
                "--stdout",
                "--thin",
                "--delta-base-offset",
                "--quiet",
            ],
            format!("{tip}\n^{base}\n").as_bytes(),
            doing,
            &mut |piece| bounded.push(piece),
        )?;
        if let Some(source) = bounded.error {
            return Err(SandboxError::Backend {
                doing: doing.into(),
                hint: None,
                source: source.into(),
            });
        }
        if output.success {
            Ok(())
        } else {
            Err(output.error(doing))
        }
    }
}

/// Whether a text can be the name of a commit and nothing else, such as an option.
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Writes a pack into a file, up to a size that no honest run reaches.
struct BoundedFile<'a> {
    file: &'a mut File,
    left: u64,
    error: Option<io::Error>,
}

impl BoundedFile<'_> {
    fn push(&mut self, piece: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        match self.left.checked_sub(length) {
            None => self.error = Some(io::Error::other("the sandbox's commits are too big")),
            Some(left) => {
                self.left = left;
                self.error = self.file.write_all(piece).err();
            }
        }
    }
}

/// Whether the box's layer holds just what we put there. Looks at names and three small files, by
/// means that nothing inside can lead astray.
pub(crate) fn is_untouched(upper: &Path, branch: &str, commit: &str) -> Result<bool> {
    let failed = |error| files_error(error, upper);
    let layer = ConfinedDir::open(upper).map_err(failed)?;
    let names = |path: &Path| -> Result<Vec<OsString>> {
        let entries = layer.list(path).map_err(failed)?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    };
    if names(Path::new("."))? != ["."].map(|_| OsString::from(".git")) {
        return Ok(false);
    }
    let Ok(inside_git) = names(Path::new(".git")) else {
        return Ok(false);
    };
    // An index alone holds nothing: what it stages is among the objects.
    let others: Vec<_> = inside_git
        .into_iter()
        .filter(|name| name != "index")
        .collect();
    if others != ["HEAD", "packed-refs", "refs"].map(OsString::from) {
        return Ok(false);
    }
    let same = |path: &Path, expected: String| {
        layer
            .read(path, 4096)
            .is_ok_and(|content| content == expected.as_bytes())
    };
    Ok(
        names(Path::new(".git/refs"))? == ["heads"].map(OsString::from)
            && same(
                Path::new(".git/HEAD"),
                format!("ref: refs/heads/{branch}\n"),
            )
            && same(
                &Path::new(".git/refs/heads").join(branch),
                format!("{commit}\n"),
            ),
    )
}
