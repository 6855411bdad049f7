//! Files into the sandbox, with proof that they are there, and out of it, whatever they hold.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use holm_daytona_client::{ClientError, Toolbox, Upload};
use holm_sandbox::{FileUpload, SandboxError};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWrite;

use super::error::{ProviderError, Result};
use super::live::Live;
use super::provider::Provider;
use super::remote::{self, Inspected, Kind};

/// Bytes of a file in one command, when upload does not work. As text they are a third more.
const COMMAND_BYTES: usize = 48 * 1024;
/// More than this is not moved by commands.
const COMMANDS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Puts a piece of base64 at the end of a file ($2) next to the one that is meant ($1).
const APPEND: &str = r#"mkdir -p -- "$(dirname -- "$1")" && base64 -d >>"$2""#;
/// Puts that file in its place. One that is there keeps its rights.
const FINISH: &str =
    r#"if [ -e "$1" ]; then cat <"$2" >"$1" && rm -f -- "$2"; else mv -f -- "$2" "$1"; fi"#;

/// A file with its path in the sandbox.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) path: String,
    pub(super) content: Bytes,
}

impl Provider {
    /// Writes files. All paths are checked before the first is written; each file is compared afterwards.
    pub async fn upload(&self, files: &[FileUpload]) -> Result<()> {
        let live = self.live().await?;
        let mut placed = Vec::with_capacity(files.len());
        for file in files {
            placed.push(Placed {
                path: live.mapper().map(&file.path)?,
                content: Bytes::copy_from_slice(&file.content),
            });
        }
        let paths: Vec<&str> = placed.iter().map(|file| file.path.as_str()).collect();
        for (path, found) in paths.iter().zip(remote::inspect(&live, &paths).await?) {
            refuse_what_is_no_file(path, &found)?;
        }
        write(&live, &placed).await
    }

    /// Reads a file as a whole, whatever it holds. One that is longer than the configuration allows is an error.
    pub async fn download(&self, path: &Path) -> Result<Vec<u8>> {
        let live = self.live().await?;
        let path = live.mapper().map(path)?;
        let found = existing(&live, &path).await?;
        let bytes_max = live.file_bytes_max();
        let too_large = || SandboxError::TooLarge {
            path: path.clone().into(),
            bytes_max: u64::try_from(bytes_max).unwrap_or(u64::MAX),
        };
        if found
            .size
            .is_some_and(|size| usize::try_from(size).is_ok_and(|size| size > bytes_max))
        {
            return Err(too_large().into());
        }
        let read = live
            .call(|toolbox| {
                let path = path.clone();
                async move { toolbox.files().read(&path, bytes_max).await }
            })
            .await;
        match read {
            Ok(content) => Ok(content),
            Err(ProviderError::Client(ClientError::TooLarge { .. })) => Err(too_large().into()),
            Err(ProviderError::Client(error)) if another_way_may_work(&error) => {
                tracing::warn!(path, %error, "reading a file by a command instead");
                read_by_command(&live, &path, error).await
            }
            Err(error) => Err(error),
        }
    }

    /// Copies a file of any length as it comes; gives its length.
    pub async fn download_to(
        &self,
        path: &Path,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<u64> {
        let live = self.live().await?;
        let path = live.mapper().map(path)?;
        existing(&live, &path).await?;
        let download = live
            .call(|toolbox| {
                let path = path.clone();
                async move { toolbox.files().download(&path).await }
            })
            .await?;
        Ok(download.copy_to(writer).await?)
    }

    /// Deletes a file, or a link itself.
    pub async fn delete(&self, path: &Path) -> Result<()> {
        let live = self.live().await?;
        let path = live.mapper().map(path)?;
        let found = remote::inspect(&live, &[&path]).await?;
        match found.first().map(|found| found.kind) {
            Some(Kind::File | Kind::Link) => {}
            Some(Kind::Missing) | None => {
                return Err(SandboxError::NotFound { path: path.into() }.into());
            }
            Some(Kind::Folder | Kind::Other) => {
                return Err(SandboxError::NotAFile { path: path.into() }.into());
            }
        }
        live.call(|toolbox| {
            let path = path.clone();
            async move {
                toolbox
                    .files()
                    .delete(&path, holm_daytona_client::Recurse::No)
                    .await
            }
        })
        .await?;
        Ok(())
    }
}

async fn existing(live: &Live, path: &str) -> Result<Inspected> {
    let found = remote::inspect(live, &[path]).await?;
    let missing = || SandboxError::NotFound { path: path.into() };
    let found = found.into_iter().next().ok_or_else(missing)?;
    if found.kind == Kind::Missing {
        return Err(missing().into());
    }
    refuse_what_is_no_file(path, &found)?;
    Ok(found)
}

fn refuse_what_is_no_file(path: &str, found: &Inspected) -> Result<()> {
    match found.kind {
        // A link whose target is a file, or is to become one, inside of the workspace.
        Kind::Missing | Kind::File | Kind::Link => Ok(()),
        Kind::Folder | Kind::Other => Err(SandboxError::NotAFile { path: path.into() }.into()),
    }
}

/// Writes files whose paths were looked at, and looks at them again.
pub(super) async fn write(live: &Live, files: &[Placed]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let sent = live
        .call(|toolbox| {
            let uploads = files
                .iter()
                .map(|file| Upload::bytes(file.path.clone(), file.content.clone()))
                .collect();
            async move { toolbox.files().upload(uploads).await }
        })
        .await;
    let failure = match sent {
        Ok(_) => None,
        Err(ProviderError::Client(error)) if another_way_may_work(&error) => Some(error),
        Err(error) => return Err(error),
    };
    repair(live, files, failure).await
}

/// Compares files that were written, and writes those again that are not as they should be.
pub(super) async fn confirm(live: &Live, files: &[Placed]) -> Result<()> {
    repair(live, files, None).await
}

async fn repair(live: &Live, files: &[Placed], failure: Option<ClientError>) -> Result<()> {
    let wrong = wrong_ones(live, files).await?;
    if wrong.is_empty() {
        return Ok(());
    }
    let reason = failure.as_ref().map(ToString::to_string);
    tracing::warn!(
        files = wrong.len(),
        ?reason,
        "writing files by commands instead"
    );
    let mut failure = failure;
    for (file, problem) in &wrong {
        if let Err(problem) = write_by_commands(live, file).await {
            return Err(not_written(file, problem, failure.take()));
        }
        tracing::debug!(path = file.path, problem, "wrote a file by commands");
    }
    let written: Vec<Placed> = wrong.into_iter().map(|(file, _)| file.clone()).collect();
    match wrong_ones(live, &written).await?.into_iter().next() {
        None => Ok(()),
        Some((file, problem)) => Err(not_written(file, problem, failure)),
    }
}

fn not_written(file: &Placed, problem: String, source: Option<ClientError>) -> ProviderError {
    ProviderError::NotWritten {
        path: file.path.clone(),
        problem,
        source,
    }
}

/// The server can be reached and knows us, so that a command may do what the files' API does not.
fn another_way_may_work(error: &ClientError) -> bool {
    match error {
        ClientError::Api(error) => !matches!(error.status, 401 | 403 | 413 | 429),
        ClientError::Refused { .. }
        | ClientError::Protocol { .. }
        | ClientError::Interrupted { .. } => true,
        ClientError::Invalid { .. }
        | ClientError::Connect { .. }
        | ClientError::Deadline { .. }
        | ClientError::TooLarge { .. }
        | ClientError::Local { .. }
        | ClientError::SandboxState { .. } => false,
    }
}

/// Those that are not in the sandbox as they should be, and what is wrong with them.
async fn wrong_ones<'files>(
    live: &Live,
    files: &'files [Placed],
) -> Result<Vec<(&'files Placed, String)>> {
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let found = remote::inspect(live, &paths).await?;
    let wrong = files.iter().zip(found).filter_map(|(file, found)| {
        let problem = difference(&file.content, &found)?;
        Some((file, problem))
    });
    Ok(wrong.collect())
}

/// As `sha256sum` prints it.
pub(super) fn sha256(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}

fn difference(content: &[u8], found: &Inspected) -> Option<String> {
    let length = content.len();
    match (found.kind, found.size) {
        (Kind::File | Kind::Link, Some(size)) if usize::try_from(size) == Ok(length) => {}
        (Kind::File | Kind::Link, Some(size)) => {
            return Some(format!("it has {size} bytes instead of {length}"));
        }
        (Kind::File, None) => return Some("it cannot be read back".to_owned()),
        (Kind::Missing | Kind::Link, _) => return Some("it is not there".to_owned()),
        (Kind::Folder | Kind::Other, _) => return Some("it is not a file".to_owned()),
    }
    let expected = sha256(content);
    match &found.sha256 {
        // The sandbox has nothing to compute it with: the length has to do.
        None => None,
        Some(sha256) if *sha256 == expected => None,
        Some(_) => Some("its content is another one".to_owned()),
    }
}

async fn write_by_commands(live: &Live, file: &Placed) -> Result<(), String> {
    if file.content.len() > COMMANDS_BYTES_MAX {
        return Err(format!("it is longer than {COMMANDS_BYTES_MAX} bytes"));
    }
    let part = format!("{}.holm-{:.12x}", file.path, Sha256::digest(&file.content));
    let run = async |script: &str, input: Option<&str>| {
        let toolbox: Toolbox = live.toolbox();
        let arguments = [file.path.as_str(), part.as_str()];
        match remote::run_with_input(&toolbox, script, &arguments, input).await {
            Ok(answer) if answer.exit_code == 0 => Ok(()),
            Ok(answer) => Err(answer.result.trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    };
    run(r#"rm -f -- "$2""#, None).await?;
    let mut chunks: Vec<&[u8]> = file.content.chunks(COMMAND_BYTES).collect();
    if chunks.is_empty() {
        // Nothing is something too.
        chunks.push(&[]);
    }
    for chunk in chunks {
        run(APPEND, Some(&STANDARD.encode(chunk))).await?;
    }
    run(FINISH, None).await
}

async fn read_by_command(live: &Live, path: &str, error: ClientError) -> Result<Vec<u8>> {
    let answer = live
        .call(|toolbox| async move { remote::run(&toolbox, r#"base64 <"$1""#, &[path]).await })
        .await;
    let Ok(answer) = answer else {
        return Err(error.into());
    };
    let text: String = answer.result.split_ascii_whitespace().collect();
    match STANDARD.decode(text) {
        Ok(content) if answer.exit_code == 0 => Ok(content),
        Ok(_) | Err(_) => Err(error.into()),
    }
}
