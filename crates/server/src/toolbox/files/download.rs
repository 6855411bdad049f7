//! Files on their way out: one as it is, or many as parts of one answer.

use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use holm_daytona_wire::error::DaemonErrorBody;
use holm_daytona_wire::files::FilesDownloadRequest;
use holm_daytona_wire::signature::FileMethod;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::outgoing::{self, Gone, OpenFile, Outgoing};
use super::path::Place;
use super::signed;
use crate::api::body::Body as JsonBody;
use crate::clock;
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::toolbox::Inside;

/// Files of one request.
const FILES_MAX: usize = 10_000;

/// What may stand in `filename*` as it is.
const EXTENDED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

pub(super) async fn download(State(state): State<AppState>, request: Request) -> Result<Response> {
    let (mut parts, _) = request.into_parts();
    let (inside, given) = signed::enter(&state, &mut parts, FileMethod::Download).await?;
    let place = Place::file(&inside.machine, &given)?;
    let file = OpenFile::open(&inside.machine, &place).await?;
    let size_bytes = file.size_bytes;
    let (outgoing, body) = outgoing::body(state.config.limits.silence_max);
    tokio::spawn(async move {
        // Keeps the sandbox awake until all is sent.
        let _inside = inside;
        if outgoing.send_file(file).await.is_ok() {
            drop(outgoing.finish().await);
        }
    });
    let name = place.path.file_name().unwrap_or_default();
    let disposition = format!("attachment; {}", filename(&name.to_string_lossy()));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size_bytes));
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    // What the box wrote must not act as a page of this server's.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(disposition) = HeaderValue::from_bytes(disposition.as_bytes()) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

pub(super) async fn download_many(
    OriginalUri(uri): OriginalUri,
    inside: Inside,
    JsonBody(request): JsonBody<FilesDownloadRequest>,
) -> Result<Response> {
    if request.paths.is_empty() {
        return Err(ApiError::bad_request("`paths` names no file"));
    }
    if request.paths.len() > FILES_MAX {
        return Err(ApiError::bad_request(format!(
            "`paths` names more than {FILES_MAX} files"
        )));
    }
    let boundary = format!("holm-{}{}", random(), random());
    let (outgoing, body) = outgoing::body(inside.state.config.limits.silence_max);
    let parts = Parts {
        outgoing,
        boundary: boundary.clone(),
        uri,
    };
    tokio::spawn(async move {
        // Who does not take the answer is not told why it ended.
        drop(parts.send(inside, request.paths).await);
    });
    let kind = format!("multipart/form-data; boundary={boundary}");
    Ok(([(CONTENT_TYPE, kind)], body).into_response())
}

fn random() -> String {
    holm_sandbox_linux::random_hex()
}

struct Parts {
    outgoing: Outgoing,
    boundary: String,
    uri: Uri,
}

impl Parts {
    async fn send(self, inside: Inside, paths: Vec<String>) -> std::result::Result<(), Gone> {
        for path in paths {
            let opened = match Place::file(&inside.machine, &path) {
                Ok(place) => OpenFile::open(&inside.machine, &place).await,
                Err(error) => Err(error),
            };
            match opened {
                Ok(file) => {
                    self.begin("file", &path, "application/octet-stream", file.size_bytes)
                        .await?;
                    self.outgoing.send_file(file).await?;
                }
                Err(error) => self.refuse(&path, error).await?,
            }
            self.outgoing.send(Bytes::from_static(b"\r\n")).await?;
        }
        let end = format!("--{}--\r\n", self.boundary);
        self.outgoing.send(Bytes::from(end)).await?;
        self.outgoing.finish().await
    }

    async fn refuse(&self, path: &str, error: ApiError) -> std::result::Result<(), Gone> {
        let now = clock::rfc3339(clock::now());
        let body = DaemonErrorBody::new(error.code, error.message).at("POST", self.uri.path(), now);
        let body = serde_json::to_vec(&body).map_err(|_unwritable| Gone)?;
        let length = u64::try_from(body.len()).unwrap_or(0);
        self.begin("error", path, "application/json", length)
            .await?;
        self.outgoing.send(Bytes::from(body)).await
    }

    async fn begin(
        &self,
        name: &str,
        path: &str,
        kind: &str,
        length: u64,
    ) -> std::result::Result<(), Gone> {
        let headers = format!(
            "--{}\r\nContent-Disposition: form-data; name=\"{name}\"; {}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n",
            self.boundary,
            filename(path),
        );
        self.outgoing.send(Bytes::from(headers)).await
    }
}

/// A name as the parameters of a header: nothing in it ends the header or the quotes. The second form is exact for
/// every name, the first for all without control characters.
fn filename(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_ascii_control() => {
                quoted.push_str(&format!("%{:02X}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    let extended = utf8_percent_encode(name, EXTENDED);
    format!("filename=\"{quoted}\"; filename*=utf-8''{extended}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_breaks_a_header() {
        assert_eq!(
            filename("dir/a b.txt"),
            "filename=\"dir/a b.txt\"; filename*=utf-8''dir%2Fa%20b.txt"
        );
        assert_eq!(
            filename("ü\"\\"),
            "filename=\"ü\\\"\\\\\"; filename*=utf-8''%C3%BC%22%5C"
        );
        let hostile = filename("a\r\nX-Evil: 1\0\x7f");
        assert!(!hostile.contains(['\r', '\n', '\0', '\x7f']), "{hostile}");
        assert!(hostile.starts_with("filename=\"a%0D%0AX-Evil: 1%00%7F\";"));
    }
}
