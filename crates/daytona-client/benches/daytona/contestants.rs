//! Who is compared, and what each of them does.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::Bytes;
use holm_daytona_client::Toolbox;
use holm_daytona_client::wire::process::ExecuteRequest;

use crate::bare::Bare;
use crate::sdk::Sdk;

pub(crate) const COMMAND: &str = "echo ready";
pub(crate) const PATH: &str = "file";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Command,
    Upload,
    Download,
}

#[derive(Debug)]
pub(crate) enum Contestant {
    /// The floor.
    Bare(Bare),
    /// What comes is looked at and thrown away, as the bare request does.
    Client(Toolbox, Bytes),
    /// What comes is kept in memory.
    BareInMemory(Bare),
    /// What comes is kept in memory, as the SDKs do.
    ClientInMemory(Toolbox, Bytes),
    Sdk(Sdk),
}

impl Contestant {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Bare(_) => "bare request",
            Self::Client(..) => "**Holm's client**",
            Self::BareInMemory(_) => "bare request, into memory",
            Self::ClientInMemory(..) => "**Holm's client**, into memory",
            Self::Sdk(sdk) => sdk.name,
        }
    }

    pub(crate) fn does(&self, work: Work) -> bool {
        match self {
            Self::BareInMemory(_) | Self::ClientInMemory(..) => work == Work::Download,
            Self::Bare(_) | Self::Client(..) | Self::Sdk(_) => true,
        }
    }

    /// Does it once, and says how long that took.
    pub(crate) async fn time(&mut self, work: Work) -> Result<Duration> {
        let begun = Instant::now();
        match self {
            Self::Bare(bare) => match work {
                Work::Command => bare.execute().await?,
                Work::Upload => bare.upload().await?,
                Work::Download => bare.download().await?,
            },
            Self::BareInMemory(bare) => bare.download_into_memory().await?,
            Self::Client(toolbox, content) => match work {
                Work::Command => execute(toolbox).await?,
                Work::Upload => toolbox.files().write(PATH, content.clone()).await?,
                Work::Download => stream(toolbox, content.len()).await?,
            },
            Self::ClientInMemory(toolbox, content) => {
                let read = toolbox.files().read(PATH, content.len()).await?;
                whole(read.len(), content.len())?;
            }
            // It has a clock of its own, so that the way to it does not count.
            Self::Sdk(sdk) => {
                let what = match work {
                    Work::Command => "exec",
                    Work::Upload => "upload",
                    Work::Download => "download",
                };
                return tokio::task::block_in_place(|| sdk.time(what));
            }
        }
        Ok(begun.elapsed())
    }
}

async fn execute(toolbox: &Toolbox) -> Result<()> {
    let request = ExecuteRequest {
        command: COMMAND.to_owned(),
        ..ExecuteRequest::default()
    };
    let answer = toolbox.process().execute(&request).await?;
    if answer.result.trim() != "ready" {
        bail!("`{COMMAND}` said {answer:?}");
    }
    Ok(())
}

async fn stream(toolbox: &Toolbox, bytes: usize) -> Result<()> {
    let mut download = toolbox.files().download(PATH).await?;
    let mut received = 0;
    while let Some(chunk) = download.chunk().await? {
        received += chunk.len();
    }
    whole(received, bytes)
}

fn whole(received: usize, bytes: usize) -> Result<()> {
    if received != bytes {
        bail!("{received} bytes came instead of {bytes}");
    }
    Ok(())
}
