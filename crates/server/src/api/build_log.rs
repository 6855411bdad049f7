//! The log of a build, as it grows.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use tokio::io::AsyncReadExt;

use super::Pairs;
use crate::builds::Stage;
use crate::state::Shared;

/// How often a log that is followed is looked at.
const PAUSE: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 64 * 1024;

/// The log of a snapshot's build; with `follow=true` until the build has ended.
pub(super) fn stream(state: &Shared, snapshot: &str, query: &Pairs) -> Body {
    let stage = match query.get("follow") {
        Some("true") => state.builds.stage(snapshot),
        Some(_) | None => tokio::sync::watch::channel(Stage::Done).1,
    };
    let path = state.builds.log_path(snapshot);
    let chunks = stream::try_unfold((None, stage, path), |(file, stage, path)| async move {
        let mut file: Option<tokio::fs::File> = file;
        loop {
            // Asked before reading: what was written before the end is not missed.
            let is_done = *stage.borrow() == Stage::Done;
            if file.is_none() {
                file = tokio::fs::File::open(&path).await.ok();
            }
            if let Some(open) = file.as_mut() {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES);
                if open.read_buf(&mut chunk).await? > 0 {
                    return Ok::<_, std::io::Error>(Some((
                        Bytes::from(chunk),
                        (file, stage, path),
                    )));
                }
            }
            if is_done {
                return Ok(None);
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    Body::from_stream(chunks)
}
