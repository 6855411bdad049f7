//! Files on their way out of a sandbox: a form with a part per file, read as it comes.
//!
//! The end of a form is marked, so that a file which is cut off is never taken for a whole one.

use bytes::Bytes;
use holm_daytona_wire::error::DaemonErrorBody;
use holm_daytona_wire::files::FilesDownloadRequest;
use holm_daytona_wire::multipart::{Event, Lengths, Multipart, PartHeaders, boundary};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, Response};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::{ClientError, Result, Toolbox, answer};

/// What is read of why a file did not come.
const REASON_BYTES_MAX: usize = 64 * 1024;

/// The beginning of what came for one of the paths.
#[derive(Debug)]
pub enum DownloadPart {
    /// The content follows from [`Downloads::chunk`].
    File {
        /// As it was asked for.
        path: String,
        /// In bytes, if the server says so.
        length: Option<u64>,
    },
    /// This file does not come; others may.
    Failed { path: String, error: ClientError },
}

/// Several files in one answer.
#[derive(Debug)]
pub struct Downloads {
    action: String,
    response: Response,
    form: Multipart,
    toolbox: Toolbox,
    is_in_part: bool,
}

pub(crate) async fn download_many(toolbox: &Toolbox, paths: Vec<String>) -> Result<Downloads> {
    let action = match paths.as_slice() {
        [path] => format!("download `{path}`"),
        paths => format!("download {} files", paths.len()),
    };
    let call = toolbox.call(Method::POST, &["files", "bulk-download"], action.as_str())?;
    let body = FilesDownloadRequest { paths };
    // It only reads.
    let response = call.repeatable().body(&body)?.open().await?;
    let action = toolbox.action(action);
    let content_type = response.headers().get(CONTENT_TYPE);
    let boundary = content_type
        .and_then(|value| value.to_str().ok())
        .and_then(boundary)
        .ok_or_else(|| ClientError::Protocol {
            action: action.clone(),
            problem: "it is not multipart/form-data with a boundary".to_owned(),
        })?;
    Ok(Downloads {
        action,
        response,
        // Searching for the boundary in all that comes would cost a tenth of the time.
        form: Multipart::new(&boundary, Lengths::Trusted),
        toolbox: toolbox.clone(),
        is_in_part: false,
    })
}

impl Downloads {
    /// What came for the next path; `None` after the last. The rest of the file before is skipped.
    pub async fn next_part(&mut self) -> Result<Option<DownloadPart>> {
        while self.is_in_part {
            self.chunk().await?;
        }
        loop {
            match self.event().await? {
                Event::Part(headers) => {
                    self.is_in_part = true;
                    return self.begin(headers).await.map(Some);
                }
                Event::End => {
                    // To its end, so that the connection can be used again.
                    while self.receive().await?.is_some() {}
                    return Ok(None);
                }
                Event::Data(_) | Event::PartEnd | Event::Starved => {}
            }
        }
    }

    /// More of the file that began last; `None` at its end. Cancelling this loses nothing.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        while self.is_in_part {
            match self.event().await? {
                Event::Data(bytes) => return Ok(Some(bytes)),
                Event::PartEnd => self.is_in_part = false,
                Event::Part(_) | Event::End | Event::Starved => {}
            }
        }
        Ok(None)
    }

    async fn begin(&mut self, headers: PartHeaders) -> Result<DownloadPart> {
        let path = headers.file_name.unwrap_or_default();
        if headers.name != "error" {
            return Ok(DownloadPart::File {
                path,
                length: headers.content_length,
            });
        }
        let mut reason = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            let room = REASON_BYTES_MAX.saturating_sub(reason.len());
            reason.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        }
        let status = serde_json::from_slice::<DaemonErrorBody>(&reason)
            .map(|body| body.status_code)
            .ok()
            .filter(|status| *status >= 400)
            .unwrap_or(500);
        let action = self.toolbox.action(format!("download `{path}`"));
        let key = &self.toolbox.client().shared().settings.api_key;
        let error = answer::refusal(&action, status, &HeaderMap::new(), &reason, key);
        Ok(DownloadPart::Failed { path, error })
    }

    /// The next event that is not hunger.
    async fn event(&mut self) -> Result<Event> {
        loop {
            let event = self.form.next_event();
            match event.map_err(|error| self.broken(error.to_string()))? {
                Event::Starved => match self.receive().await? {
                    Some(bytes) => self.form.feed(bytes),
                    None => self.form.end(),
                },
                event @ (Event::Part(_) | Event::Data(_) | Event::PartEnd | Event::End) => {
                    return Ok(event);
                }
            }
        }
    }

    async fn receive(&mut self) -> Result<Option<Bytes>> {
        let silence = self.toolbox.client().deadlines().transfer_silence;
        match tokio::time::timeout(silence, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(answer::transport_error(&self.action, error)),
            Err(_elapsed) => Err(ClientError::Deadline {
                action: self.action.clone(),
                after: silence,
            }),
        }
    }

    fn broken(&self, problem: String) -> ClientError {
        ClientError::Protocol {
            action: self.action.clone(),
            problem,
        }
    }
}

/// One file.
#[derive(Debug)]
pub struct Download {
    parts: Downloads,
    length: Option<u64>,
}

pub(crate) async fn download(toolbox: &Toolbox, path: &str) -> Result<Download> {
    let mut parts = download_many(toolbox, vec![path.to_owned()]).await?;
    match parts.next_part().await? {
        Some(DownloadPart::File { length, .. }) => Ok(Download { parts, length }),
        Some(DownloadPart::Failed { error, .. }) => Err(error),
        None => Err(parts.broken("no data came for this file".to_owned())),
    }
}

impl Download {
    /// In bytes, if the server says so.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// `None` at the end of a file that is complete. Cancelling this loses nothing.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        if let Some(bytes) = self.parts.chunk().await? {
            return Ok(Some(bytes));
        }
        while self.parts.next_part().await?.is_some() {}
        Ok(None)
    }

    /// All that is left of it; more than `bytes_max` is an error.
    pub async fn read_to_end(mut self, bytes_max: usize) -> Result<Vec<u8>> {
        let length = self.length.and_then(|length| usize::try_from(length).ok());
        let mut content = Vec::new();
        // The length is only said: what is more than there is, is no reason to fail.
        let _tried = content.try_reserve_exact(length.unwrap_or(0).min(bytes_max));
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > bytes_max - content.len() {
                return Err(ClientError::TooLarge {
                    action: self.parts.action.clone(),
                    bytes_max,
                });
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// Gives the count of bytes.
    pub async fn copy_to(mut self, writer: &mut (impl AsyncWrite + Unpin)) -> Result<u64> {
        let mut count = 0;
        let local = |action: &str, source| ClientError::Local {
            action: action.to_owned(),
            source,
        };
        while let Some(chunk) = self.chunk().await? {
            let written = writer.write_all(&chunk).await;
            written.map_err(|error| local(&self.parts.action, error))?;
            count += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        }
        let flushed = writer.flush().await;
        flushed.map_err(|error| local(&self.parts.action, error))?;
        Ok(count)
    }
}
