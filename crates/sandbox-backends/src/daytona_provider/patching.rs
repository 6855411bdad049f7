//! Patches: worked out here, carried out in the sandbox in one step that undoes itself.
//!
//! ```text
//! parse ──▶ map paths ──▶ look and read ──▶ apply (pure) ──▶ new files beside the workspace ──▶ one script moves all of them ──▶ look again
//! ```
//!
//! Up to the last arrow but one nothing in the workspace has changed. The script keeps what it replaces, and puts it back if a step fails.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use holm_daytona_client::{ClientError, Recurse};
use holm_patch::{Contents, Executable, FileState, Outcome};
use holm_sandbox::SandboxError;
use uuid::Uuid;

use super::error::{ProviderError, Result};
use super::files::{self, Placed};
use super::live::Live;
use super::provider::Provider;
use super::remote::{self, Kind};

const COMMIT: &str = include_str!("commit.sh");
/// All arguments of the script together; a command line may hold about twice as much.
const ARGUMENTS_BYTES_MAX: usize = 1024 * 1024;

/// What a patch has done, by paths in the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchReport {
    pub written: Vec<String>,
    pub removed: Vec<String>,
}

impl Provider {
    /// Carries out a unified diff or a Codex patch as a whole, or not at all. Paths are mapped as those of files are.
    pub async fn apply_patch(&self, patch: &[u8]) -> Result<PatchReport> {
        let patch = holm_patch::parse(patch)?;
        let live = self.live().await?;
        // One after the other, so that each finds what the one before has left.
        let _turn = live.patch_turn().await;
        let patch = patch.map_paths(|path| live.mapper().map(Path::new(path)))?;
        let paths: Vec<&str> = patch.paths_to_read().into_iter().collect();
        let before = read_all(&live, &paths).await?;
        let outcome = holm_patch::apply(&patch, &before)?;
        carry_out(&live, &before, &outcome).await
    }
}

async fn read_all(live: &Live, paths: &[&str]) -> Result<Contents> {
    let found = remote::inspect(live, paths).await?;
    let mut contents = Contents::new();
    let mut bytes_left = live.file_bytes_max();
    for (path, found) in paths.iter().zip(found) {
        let content = match found.kind {
            Kind::Missing => None,
            Kind::File => {
                let bytes_max = bytes_left;
                let read = live
                    .call(|toolbox| async move { toolbox.files().read(path, bytes_max).await })
                    .await;
                let content = read.map_err(|error| too_large(error, path, live))?;
                bytes_left -= content.len();
                Some(content)
            }
            Kind::Link | Kind::Folder | Kind::Other => {
                return Err(SandboxError::NotAFile { path: path.into() }.into());
            }
        };
        contents.insert((*path).to_owned(), content);
    }
    Ok(contents)
}

fn too_large(error: ProviderError, path: &str, live: &Live) -> ProviderError {
    if !matches!(error, ProviderError::Client(ClientError::TooLarge { .. })) {
        return error;
    }
    let error = SandboxError::TooLarge {
        path: path.into(),
        bytes_max: u64::try_from(live.file_bytes_max()).unwrap_or(u64::MAX),
    };
    error.into()
}

/// One change as the script is told of it.
struct Step<'outcome> {
    path: &'outcome str,
    number: String,
    state: &'outcome FileState,
    /// What was there: its SHA-256, or `missing`.
    before: String,
}

async fn carry_out(live: &Live, before: &Contents, outcome: &Outcome) -> Result<PatchReport> {
    let stage = format!("{}/.holm-patch-{}", live.home(), Uuid::new_v4().simple());
    let steps: Vec<Step<'_>> = outcome
        .files
        .iter()
        .enumerate()
        .map(|(number, (path, state))| Step {
            path,
            number: number.to_string(),
            state,
            before: match before.get(path) {
                Some(Some(content)) => files::sha256(content),
                Some(None) | None => "missing".to_owned(),
            },
        })
        .collect();
    let arguments = arguments(&stage, &steps)?;
    let staged = stage_all(live, &stage, &steps).await;
    let ran = match staged {
        Ok(()) => {
            live.call(|toolbox| {
                let arguments: Vec<&str> = arguments.clone();
                async move { remote::run(&toolbox, COMMIT, &arguments).await }
            })
            .await
        }
        Err(error) => Err(error),
    };
    match ran {
        Ok(answer) if answer.exit_code == 0 => {}
        Ok(answer) => {
            return Err(ProviderError::PatchUndone {
                problem: answer.result.trim().to_owned(),
            });
        }
        Err(error) => {
            // The script removes it otherwise.
            let removed = live.toolbox();
            drop(removed.files().delete(&stage, Recurse::Yes).await);
            return Err(error);
        }
    }
    confirm(live, &steps).await
}

fn arguments<'all>(stage: &'all str, steps: &'all [Step<'all>]) -> Result<Vec<&'all str>> {
    let mut arguments = vec![stage];
    for step in steps {
        let (verb, executable, mode_of) = match step.state {
            FileState::Gone => ("remove", "", ""),
            FileState::Present {
                executable,
                mode_of,
                ..
            } => {
                let executable = match executable {
                    Some(Executable::Yes) => "+x",
                    Some(Executable::No) => "-x",
                    None => "",
                };
                ("write", executable, mode_of.as_deref().unwrap_or_default())
            }
        };
        arguments.extend([
            verb,
            &step.number,
            step.path,
            executable,
            mode_of,
            &step.before,
        ]);
    }
    let bytes: usize = arguments.iter().map(|argument| argument.len() + 3).sum();
    if bytes > ARGUMENTS_BYTES_MAX {
        return Err(SandboxError::Invalid {
            what: "the patch changes too many files at once".to_owned(),
            hint: "give it in parts".to_owned(),
        }
        .into());
    }
    Ok(arguments)
}

/// Puts the new contents into a folder of their own, outside of the workspace.
async fn stage_all(live: &Live, stage: &str, steps: &[Step<'_>]) -> Result<()> {
    let made = live
        .call(|toolbox| async move { toolbox.files().create_folder(stage, "700").await })
        .await;
    made?;
    let files: Vec<Placed> = contents(steps)
        .map(|(step, content)| Placed {
            path: format!("{stage}/new.{}", step.number),
            content: Bytes::copy_from_slice(content),
        })
        .collect();
    let uploads = || {
        let files = files.iter();
        files
            .map(|file| holm_daytona_client::Upload::bytes(file.path.clone(), file.content.clone()))
            .collect::<Vec<_>>()
    };
    live.call(|toolbox| {
        let uploads = uploads();
        async move { toolbox.files().upload(uploads).await }
    })
    .await?;
    Ok(())
}

fn contents<'all>(
    steps: &'all [Step<'all>],
) -> impl Iterator<Item = (&'all Step<'all>, &'all [u8])> {
    steps.iter().filter_map(|step| match step.state {
        FileState::Gone => None,
        FileState::Present { content, .. } => Some((step, content.as_slice())),
    })
}

/// Looks whether everything is as it should be, and repairs what is not.
async fn confirm(live: &Live, steps: &[Step<'_>]) -> Result<PatchReport> {
    let written: BTreeMap<&str, &[u8]> = contents(steps)
        .map(|(step, content)| (step.path, content))
        .collect();
    let placed: Vec<Placed> = written
        .iter()
        .map(|(path, content)| Placed {
            path: (*path).to_owned(),
            content: Bytes::copy_from_slice(content),
        })
        .collect();
    files::confirm(live, &placed).await?;
    let removed = steps.iter().filter(|step| *step.state == FileState::Gone);
    Ok(PatchReport {
        written: written.into_keys().map(str::to_owned).collect(),
        removed: removed.map(|step| step.path.to_owned()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// The folder with the files, and what the script says.
    fn commit(folder: &Path, changes: &[[&str; 6]]) -> (bool, String) {
        let at = |name: &str| -> PathBuf {
            if name.is_empty() {
                PathBuf::new()
            } else {
                folder.join("files").join(name)
            }
        };
        let mut command = Command::new("sh");
        command.args(["-c", COMMIT, "sh"]).arg(folder.join("stage"));
        for [verb, number, path, executable, mode_of, before] in changes {
            command.args([verb, number]).arg(at(path)).arg(executable);
            command.arg(at(mode_of)).arg(before);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text)
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["files", "stage"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("files/a"), "old").unwrap();
        std::fs::write(folder.path().join("stage/new.0"), "new").unwrap();
        folder
    }

    #[test]
    fn what_was_changed_meanwhile_is_not_overwritten() {
        let folder = folder();
        let read = || std::fs::read_to_string(folder.path().join("files/a")).unwrap();
        let seen = files::sha256(b"something else");
        for (before, path) in [(seen.as_str(), "a"), ("missing", "a"), (seen.as_str(), "b")] {
            std::fs::create_dir_all(folder.path().join("stage")).unwrap();
            std::fs::write(folder.path().join("stage/new.0"), "new").unwrap();
            let (is_done, said) = commit(folder.path(), &[["write", "0", path, "", "", before]]);
            assert!(!is_done);
            assert!(said.ends_with("was changed meanwhile\n"), "{said}");
            assert_eq!(read(), "old");
        }
        assert!(!folder.path().join("stage").exists());
    }

    #[test]
    fn a_step_that_fails_undoes_those_before() {
        let folder = folder();
        let old = files::sha256(b"old");
        std::fs::write(folder.path().join("stage/new.2"), "new").unwrap();
        std::fs::write(folder.path().join("files/file"), "").unwrap();
        let changes = [
            ["remove", "1", "a", "", "", old.as_str()],
            ["write", "0", "deep/b", "+x", "", "missing"],
            // There can be no folder where a file is.
            ["write", "2", "file/c", "", "", "missing"],
        ];
        assert!(!commit(folder.path(), &changes).0);
        let kept = std::fs::read_to_string(folder.path().join("files/a")).unwrap();
        assert_eq!(kept, "old");
        assert!(!folder.path().join("files/deep/b").exists());
        assert!(!folder.path().join("stage").exists());
    }
}
