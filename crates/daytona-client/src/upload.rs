//! Files on their way into a sandbox: one form, sent as its contents are read.
//!
//! A form that moves is given [`crate::Deadlines::upload`]; one that stands still is given up after
//! [`crate::Deadlines::transfer_silence`].

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use holm_daytona_wire::files::{FileResult, UploadFilesResponse};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Url};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;
use tokio_util::io::ReaderStream;

use crate::request::{Attempts, send};
use crate::retry::Repeat;
use crate::{ClientError, Result, Toolbox, answer};

const CHUNK_BYTES: usize = 256 * 1024;

/// One file to write.
pub struct Upload {
    path: String,
    content: Content,
}

enum Content {
    Bytes(Bytes),
    Reader {
        reader: Pin<Box<dyn AsyncRead + Send + Sync>>,
        length: Option<u64>,
    },
}

impl Upload {
    pub fn bytes(path: impl Into<String>, content: impl Into<Bytes>) -> Self {
        Self {
            path: path.into(),
            content: Content::Bytes(content.into()),
        }
    }

    /// What a reader gives. With a length exactly that much is sent, and a reader that ends earlier is an error. A reader
    /// can be read once only, so that such an upload is not tried again.
    pub fn reader(
        path: impl Into<String>,
        reader: impl AsyncRead + Send + Sync + 'static,
        length: Option<u64>,
    ) -> Self {
        Self {
            path: path.into(),
            content: Content::Reader {
                reader: Box::pin(reader),
                length,
            },
        }
    }

    /// Once more, if that is possible.
    fn again(&self) -> Option<Self> {
        match &self.content {
            Content::Bytes(bytes) => Some(Self::bytes(self.path.clone(), bytes.clone())),
            Content::Reader { .. } => None,
        }
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Upload");
        shown.field("path", &self.path);
        match &self.content {
            Content::Bytes(bytes) => shown.field("length", &bytes.len()),
            Content::Reader { length, .. } => shown.field("length", length),
        };
        shown.finish_non_exhaustive()
    }
}

pub(crate) async fn upload(toolbox: &Toolbox, files: Vec<Upload>) -> Result<Vec<FileResult>> {
    let action = toolbox.action(match files.as_slice() {
        [file] => format!("upload `{}`", file.path),
        files => format!("upload {} files", files.len()),
    });
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let url = toolbox.address(&["files", "bulk-upload"])?;
    let client = toolbox.client();
    let again = || files.iter().map(Upload::again).collect::<Option<Vec<_>>>();
    // Writing the same bytes twice is the same as writing them once.
    let repeat = if again().is_some() {
        Repeat::Harmless
    } else {
        Repeat::Impossible
    };
    let policy = client.shared().settings.retry;
    let mut attempts = Attempts::new(policy, repeat, client.deadlines().upload);
    if repeat == Repeat::Impossible {
        let attempt = upload_once(toolbox, &action, url, files);
        return attempts.limit(&action, attempt).await;
    }
    loop {
        let attempt = upload_once(toolbox, &action, url.clone(), again().unwrap_or_default());
        match attempts.limit(&action, attempt).await {
            Ok(written) => return Ok(written),
            Err(error) => attempts.pause(error).await?,
        }
    }
}

async fn upload_once(
    toolbox: &Toolbox,
    action: &str,
    url: Url,
    files: Vec<Upload>,
) -> Result<Vec<FileResult>> {
    let client = toolbox.client();
    let progress = Arc::new(Progress::new(files.len()));
    // Names of fields hold brackets, which go as they are; nothing else is in them.
    let mut form = Form::new().percent_encode_noop();
    for (index, file) in files.into_iter().enumerate() {
        form = form.text(format!("files[{index}].path"), file.path).part(
            format!("files[{index}].file"),
            part(file.content, &progress),
        );
    }
    let request = client.shared().http.post(url).multipart(form);
    let silence = client.deadlines().transfer_silence;
    let outcome = tokio::select! {
        outcome = send(client, action, request) => outcome,
        () = progress.stands_still(silence) => Err(ClientError::Deadline {
            action: action.to_owned(),
            after: silence,
        }),
    };
    let response = match (outcome, progress.take_failure()) {
        (Ok(response), _) => response,
        // What went wrong here is why the connection broke.
        (Err(ClientError::Interrupted { action, .. }), Some(source)) => {
            return Err(ClientError::Local { action, source });
        }
        (Err(error), _) => return Err(error),
    };
    let bytes_max = client.shared().settings.answer_bytes_max;
    let body = answer::read_whole(action, response, bytes_max).await?;
    // Older servers say no more than that it worked.
    let written: UploadFilesResponse = serde_json::from_slice(&body).unwrap_or_default();
    Ok(written.files)
}

fn part(content: Content, progress: &Arc<Progress>) -> Part {
    let (length, chunks) = match content {
        Content::Bytes(bytes) => {
            let length = u64::try_from(bytes.len()).ok();
            (length, chunks_of(bytes).boxed())
        }
        Content::Reader { reader, length } => {
            let reader = reader.take(length.unwrap_or(u64::MAX));
            let chunks = ReaderStream::with_capacity(reader, CHUNK_BYTES);
            (length, chunks.boxed())
        }
    };
    let body = Body::wrap_stream(watched(chunks, length, Arc::clone(progress)));
    let part = match length {
        Some(length) => Part::stream_with_length(body, length),
        None => Part::stream(body),
    };
    // The path is in its own field; this only says that it is a file.
    part.file_name("file")
}

fn chunks_of(bytes: Bytes) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    stream::unfold(bytes, |mut left| async move {
        if left.is_empty() {
            return None;
        }
        let chunk = left.split_to(left.len().min(CHUNK_BYTES));
        Some((Ok(chunk), left))
    })
}

type Chunks = stream::BoxStream<'static, std::io::Result<Bytes>>;

/// The same chunks, with a mark for each and for what goes wrong.
fn watched(
    chunks: Chunks,
    length: Option<u64>,
    progress: Arc<Progress>,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    let state = Some((chunks, length, progress));
    stream::unfold(state, |state| async move {
        let (mut chunks, mut left, progress) = state?;
        let failure = match chunks.next().await {
            Some(Ok(chunk)) => {
                progress.moved();
                let count = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
                left = left.map(|left| left.saturating_sub(count));
                return Some((Ok(chunk), Some((chunks, left, progress))));
            }
            Some(Err(error)) => error,
            None => match left {
                None | Some(0) => {
                    progress.finished_one();
                    return None;
                }
                Some(left) => std::io::Error::new(
                    std::io::ErrorKind::UnexpectedEof,
                    format!("the content ends {left} bytes too early"),
                ),
            },
        };
        let told = std::io::Error::new(failure.kind(), "the content cannot be read");
        progress.failed(failure);
        Some((Err(told), None))
    })
}

/// How an upload comes along, seen from the side that gives the bytes.
#[derive(Debug)]
struct Progress(Mutex<State>);

#[derive(Debug)]
struct State {
    moved: Instant,
    files_left: usize,
    failure: Option<std::io::Error>,
}

impl Progress {
    fn new(files: usize) -> Self {
        Self(Mutex::new(State {
            moved: Instant::now(),
            files_left: files,
            failure: None,
        }))
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn moved(&self) {
        self.with(|state| state.moved = Instant::now());
    }

    fn finished_one(&self) {
        self.with(|state| state.files_left = state.files_left.saturating_sub(1));
    }

    fn failed(&self, error: std::io::Error) {
        self.with(|state| state.failure = Some(error));
    }

    fn take_failure(&self) -> Option<std::io::Error> {
        self.with(|state| state.failure.take())
    }

    /// Comes back when nothing was taken for that long. Once all is sent it is the server's turn, and the deadline's.
    async fn stands_still(&self, silence: Duration) {
        loop {
            let (until, files_left) = self.with(|state| (state.moved + silence, state.files_left));
            if files_left == 0 {
                return std::future::pending().await;
            }
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}
