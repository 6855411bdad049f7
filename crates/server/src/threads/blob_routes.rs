//! Blobs of a thread: put once, never changed.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    ETAG, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, body::BodyDataStream};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use holm_daytona_wire::error::ErrorCode;
use tokio::sync::mpsc;

use super::asking::{Asking, Subject};
use super::blobs::{BlobError, BlobName, Incoming};
use super::failure::{self, coded};
use super::wire::{Blob, Failure};
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::streams::access::Verb;

/// What is written or read at once.
const PIECE_BYTES: usize = 1024 * 1024;
/// Pieces that wait for the client.
const PIECES_MAX: usize = 2;

/// Puts a blob that is too big for an entry. Its name is its hash, so putting it again changes nothing.
#[utoipa::path(put, path = "/threads/{id}/blobs/{sha256}", tag = "blobs", security(("key" = []), ("token" = ["append"])),
    params(("id" = String, Path), ("sha256" = String, Path, description = "in hexadecimal, small letters")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses(
    (status = 201, description = "stored", body = Blob),
    (status = 200, description = "was there", body = Blob),
    (status = 400, description = "the content has another hash, or ended in its middle", body = Failure),
    (status = 403, description = "a token for another thread or without `append`, or its run has ended", body = Failure),
    (status = 404, body = Failure),
    (status = 413, description = "too large", body = Failure),
    (status = 507, description = "the thread has too many of them, or the disk is full", body = Failure),
))]
pub(super) async fn put_blob(
    State(state): State<AppState>,
    asking: Asking,
    Path((id, sha256)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    let subject = asking.thread(&id, Verb::Append)?;
    let name = named(&sha256)?;
    let (row, _) = state.threads.find(&subject).await?;
    if let Some(writer) = &subject.writer {
        row.check_writer(&writer.run).map_err(failure::of_rule)?;
    }
    let limits = state.config.limits;
    let announced = request.headers().get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limits.blob_bytes_max) {
        return Err(too_large(limits.blob_bytes_max));
    }
    let mut content = Content {
        stream: request.into_body().into_data_stream(),
        silence_max: limits.silence_max,
        left: limits.blob_bytes_max,
        bytes_max: limits.blob_bytes_max,
    };
    if let Some((_, size_bytes)) = open(&state, &subject, &name).await? {
        // A client may not listen before it has sent everything.
        while content.next().await?.is_some() {}
        return Ok(stored(StatusCode::OK, &name, size_bytes));
    }
    let (blobs, owner) = (state.threads.blobs.clone(), owner(&subject));
    let bytes_max = limits.thread_blobs_bytes_max;
    let mut incoming = blocking(move || blobs.begin(owner, bytes_max)).await?;
    while let Some(batch) = content.batch().await? {
        incoming = blocking(move || write(incoming, &batch)).await?;
    }
    // It may have taken long: what was for a thread that is deleted does not go to the next one of its id.
    state.threads.find(&subject).await?;
    let finished = name.clone();
    let size_bytes = blocking(move || incoming.finish(&finished)).await?;
    Ok(stored(StatusCode::CREATED, &name, size_bytes))
}

/// A blob's content. What it is, only its writer knows: it is shown by no browser.
#[utoipa::path(get, path = "/threads/{id}/blobs/{sha256}", tag = "blobs", security(("key" = []), ("token" = ["read"])),
    params(("id" = String, Path), ("sha256" = String, Path)), responses(
    (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
    (status = 403, description = "a token for another thread, or without `read`", body = Failure),
    (status = 404, body = Failure),
))]
pub(super) async fn get_blob(
    State(state): State<AppState>,
    asking: Asking,
    Path((id, sha256)): Path<(String, String)>,
) -> Result<Response> {
    let subject = asking.thread(&id, Verb::Read)?;
    let name = named(&sha256)?;
    state.threads.find(&subject).await?;
    let Some((file, size_bytes)) = open(&state, &subject, &name).await? else {
        return Err(ApiError::not_found("the thread has no such blob"));
    };
    let mut response = Response::new(sent(file, state.config.limits.silence_max));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size_bytes));
    for (header, value) in [
        (CONTENT_TYPE, "application/octet-stream"),
        (CONTENT_DISPOSITION, "attachment"),
        (CONTENT_SECURITY_POLICY, "sandbox"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "private, immutable, max-age=31536000"),
    ] {
        headers.insert(header, HeaderValue::from_static(value));
    }
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", name.as_str())) {
        headers.insert(ETAG, etag);
    }
    Ok(response)
}

fn named(sha256: &str) -> Result<BlobName> {
    let name: Result<BlobName, _> = sha256.parse();
    name.map_err(|error| ApiError::bad_request(error.to_string()))
}

fn owner(subject: &Subject) -> (String, holm_thread_log::threads::ThreadId) {
    (subject.organization.clone(), subject.id.clone())
}

fn stored(status: StatusCode, name: &BlobName, size_bytes: u64) -> Response {
    let blob = Blob {
        sha256: name.as_str().to_owned(),
        size_bytes,
    };
    (status, Json(blob)).into_response()
}

async fn open(state: &AppState, subject: &Subject, name: &BlobName) -> Result<Option<(File, u64)>> {
    let (blobs, owner, name) = (state.threads.blobs.clone(), owner(subject), name.clone());
    let opened = tokio::task::spawn_blocking(move || blobs.open(&owner, &name)).await?;
    opened.map_err(|error| ApiError::internal("the blob could not be opened", error))
}

fn write(mut incoming: Incoming, batch: &[Bytes]) -> std::result::Result<Incoming, BlobError> {
    for piece in batch {
        incoming.write(piece)?;
    }
    Ok(incoming)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::result::Result<T, BlobError> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await?.map_err(failed)
}

fn failed(error: BlobError) -> ApiError {
    match error {
        BlobError::Quota { .. } => coded(
            StatusCode::INSUFFICIENT_STORAGE,
            "blob_quota",
            error.to_string(),
        ),
        BlobError::Mismatch { .. } => {
            coded(StatusCode::BAD_REQUEST, "blob_hash", error.to_string())
        }
        BlobError::Io { ref source, .. } if is_full(source) => coded(
            StatusCode::INSUFFICIENT_STORAGE,
            "store_full",
            "the server has no space left, or may not write",
        )
        .with_cause(error),
        BlobError::Io { .. } => ApiError::internal("the blob could not be stored", error),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn too_large(bytes_max: u64) -> ApiError {
    coded(
        StatusCode::PAYLOAD_TOO_LARGE,
        "blob_too_large",
        format!("a blob has at most {bytes_max} bytes"),
    )
}

/// A request's body, as far as it may go.
struct Content {
    stream: BodyDataStream,
    silence_max: Duration,
    left: u64,
    bytes_max: u64,
}

impl Content {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let piece = match tokio::time::timeout(self.silence_max, self.stream.next()).await {
            Ok(Some(Ok(piece))) => piece,
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => {
                let message = "the body ended in its middle";
                return Err(ApiError::bad_request(message).with_cause(error));
            }
            Err(_elapsed) => {
                let message = format!("nothing arrived for {} seconds", self.silence_max.as_secs());
                return Err(ApiError::new(ErrorCode::RequestTimeout, message));
            }
        };
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.left = self
            .left
            .checked_sub(length)
            .ok_or_else(|| too_large(self.bytes_max))?;
        Ok(Some(piece))
    }

    /// As many pieces as are worth a write.
    async fn batch(&mut self) -> Result<Option<Vec<Bytes>>> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < PIECE_BYTES {
            let Some(piece) = self.next().await? else {
                break;
            };
            bytes += piece.len();
            batch.push(piece);
        }
        Ok((!batch.is_empty()).then_some(batch))
    }
}

/// A body that is filled from a file, ahead of the client by a few pieces. A client that takes nothing is given up.
fn sent(file: File, silence_max: Duration) -> Body {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(PIECES_MAX);
    tokio::spawn(async move {
        let mut file = file;
        loop {
            let read = tokio::task::spawn_blocking(move || {
                let mut piece = Vec::with_capacity(PIECE_BYTES);
                let limit = u64::try_from(PIECE_BYTES).unwrap_or(u64::MAX);
                (&mut file).take(limit).read_to_end(&mut piece)?;
                Ok::<_, io::Error>((file, Bytes::from(piece)))
            });
            let piece = match read.await {
                Ok(Ok((_, piece))) if piece.is_empty() => return,
                Ok(Ok((again, piece))) => {
                    file = again;
                    Ok(piece)
                }
                Ok(Err(error)) => {
                    drop(sender.send(Err(error)).await);
                    return;
                }
                Err(_) => return,
            };
            match tokio::time::timeout(silence_max, sender.send(piece)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    });
    Body::from_stream(stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (piece, receiver))
    }))
}
