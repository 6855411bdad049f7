//! All contestants in turn, round after round.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use holm_daytona_client::wire::sandbox::{CreateSandbox, Sandbox};
use holm_daytona_client::{Client, Settings};

use crate::bare::Bare;
use crate::contestants::{COMMAND, Contestant, PATH, Work};
use crate::report::{Report, Samples};
use crate::sdk;
use crate::subject::{KEY, Subject};

/// The client may cost this many times a bare request.
const PROMISED: f64 = 1.2;
const START_MAX: Duration = Duration::from_secs(60);
/// The first ones load modules and fill caches and pools.
const WARM_UP_ROUNDS: usize = 3;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count {
    pub(crate) commands: usize,
    pub(crate) transfers: usize,
    pub(crate) bytes: usize,
}

pub(crate) async fn run(
    subject: &Subject,
    folder: &Path,
    count: Count,
    report: &mut Report,
) -> Result<()> {
    let content = content(count.bytes);
    let file = folder.join("file");
    std::fs::write(&file, &content).context("write the file that is sent")?;
    let client = Client::new(Settings::new(subject.api_url.as_str(), KEY))?;
    let wish = CreateSandbox {
        auto_stop_interval: Some(0),
        ..CreateSandbox::default()
    };
    let sandbox = client.create_started(wish, START_MAX).await?;
    let outcome = compare(subject, &client, &sandbox, (content, &file), count, report).await;
    let deleted = client.delete(&sandbox.id).await;
    // If both failed, the first is the cause.
    outcome.and(deleted.map(drop).context("delete the sandbox"))
}

async fn compare(
    subject: &Subject,
    client: &Client,
    sandbox: &Sandbox,
    (content, file): (Bytes, &Path),
    count: Count,
    report: &mut Report,
) -> Result<()> {
    let toolbox = client.toolbox(sandbox).await?;
    let address = format!("{}/{}", sandbox.toolbox_proxy_url, sandbox.id);
    let bare = Bare::new(address, &content)?;
    let mut all = vec![
        Contestant::Bare(bare.clone()),
        Contestant::Client(toolbox.clone(), content.clone()),
        Contestant::BareInMemory(bare),
        Contestant::ClientInMemory(toolbox, content),
    ];
    let sdks = sdk::start_all(subject, &sandbox.id, file, report)?;
    all.extend(sdks.into_iter().map(Contestant::Sdk));
    let mebibytes = count.bytes >> 20;
    for (work, rounds, title, promise) in [
        (
            Work::Command,
            count.commands,
            format!("`{COMMAND}` in a living sandbox"),
            "a command, times a bare request".to_owned(),
        ),
        (
            Work::Upload,
            count.transfers,
            format!("Upload of {mebibytes} MiB to `{PATH}`"),
            format!("upload of {mebibytes} MiB, times a bare request"),
        ),
        (
            Work::Download,
            count.transfers,
            format!("Download of {mebibytes} MiB"),
            format!("download of {mebibytes} MiB, times a bare request"),
        ),
    ] {
        let rows = measure(&mut all, work, rounds).await?;
        report.times(&title, &rows);
        if let [(_, floor), (_, client), ..] = rows.as_slice() {
            let ratio = client.percentile(50) / floor.percentile(50);
            report.promise(&promise, ratio, PROMISED);
        }
    }
    Ok(())
}

async fn measure(
    all: &mut [Contestant],
    work: Work,
    rounds: usize,
) -> Result<Vec<(String, Samples)>> {
    let mut rows: Vec<(String, Samples)> = all
        .iter()
        .map(|contestant| (contestant.name().to_owned(), Samples::default()))
        .collect();
    let places = all.len();
    for round in 0..rounds + WARM_UP_ROUNDS {
        // Each begins as often as the others, and comes after each of the others.
        let step = if (round / places).is_multiple_of(2) {
            1
        } else {
            places - 1
        };
        for turn in 0..places {
            let place = (round + turn * step) % places;
            let (Some(contestant), Some((_, samples))) = (all.get_mut(place), rows.get_mut(place))
            else {
                continue;
            };
            if !contestant.does(work) {
                continue;
            }
            let took = contestant.time(work).await?;
            if round >= WARM_UP_ROUNDS {
                samples.push(took);
            }
        }
    }
    rows.retain(|(_, samples)| samples.count() > 0);
    Ok(rows)
}

/// Bytes that no file system can leave out or fold.
fn content(bytes: usize) -> Bytes {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend(state.to_le_bytes());
    }
    content.truncate(bytes);
    content.into()
}
