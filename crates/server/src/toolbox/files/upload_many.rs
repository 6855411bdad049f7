//! Many files on their way in, as fields `files[N].path` and `files[N].file` of one form.
//!
//! The Python SDK sends all paths and then all files, the TypeScript SDK one after the other; a path comes before
//! its file in both. What fails for one file does not keep the others from being written.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::files::{FileResult, UploadFilesResponse};
use holm_daytona_wire::multipart::Event;

use super::incoming::{Incoming, Upload};
use super::path::Place;
use super::upload::{Form, form_boundary};
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::toolbox::Inside;

/// A path, and anything else that is not a file.
const FIELD_BYTES_MAX: usize = 4_096;

pub(super) async fn upload_many(
    State(state): State<AppState>,
    inside: Inside,
    request: Request,
) -> Result<(StatusCode, Json<UploadFilesResponse>)> {
    let (parts, body) = request.into_parts();
    let Some(boundary) = form_boundary(&parts.headers)? else {
        return Err(ApiError::new(
            ErrorCode::InvalidRequestBody,
            "the content type has to be `multipart/form-data; boundary=…`",
        ));
    };
    let limits = &state.config.limits;
    let mut bulk = Bulk {
        inside,
        form: Form::new(Incoming::new(body, limits.silence_max), &boundary),
        bytes_max: limits.upload_bytes_max,
        paths: HashMap::new(),
        answer: UploadFilesResponse::default(),
    };
    if let Err(error) = bulk.run().await {
        bulk.answer.errors.push(error.message);
    } else if bulk.answer == UploadFilesResponse::default() {
        let message =
            "the form has no file: its fields are named `files[N].path` and `files[N].file`";
        bulk.answer.errors.push(message.to_owned());
    }
    let status = if bulk.answer.errors.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::BAD_REQUEST
    };
    Ok((status, Json(bulk.answer)))
}

/// Which field a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Path(u32),
    File(u32),
    Other,
}

impl Field {
    fn named(name: &str) -> Self {
        let parsed = name.strip_prefix("files[").and_then(|rest| {
            let (index, kind) = rest.split_once("].")?;
            Some((index.parse().ok()?, kind))
        });
        match parsed {
            Some((index, "path")) => Self::Path(index),
            Some((index, "file")) => Self::File(index),
            Some(_) | None => Self::Other,
        }
    }
}

struct Bulk {
    inside: Inside,
    form: Form,
    bytes_max: u64,
    /// Paths whose files have not come.
    paths: HashMap<u32, String>,
    answer: UploadFilesResponse,
}

impl Bulk {
    /// Reads the form to its end. An error here is one of the form as a whole.
    async fn run(&mut self) -> Result<()> {
        loop {
            match self.form.next().await? {
                Event::Part(headers) => match Field::named(&headers.name) {
                    Field::Path(index) => self.path(index).await?,
                    Field::File(index) => self.file(index).await?,
                    Field::Other => self.skip().await?,
                },
                Event::End => break,
                Event::Data(_) | Event::PartEnd | Event::Starved => {}
            }
        }
        let mut left: Vec<_> = self.paths.drain().collect();
        left.sort_unstable();
        for (_, path) in left {
            let error = format!("no content came for `{}`", path.escape_debug());
            self.answer.errors.push(error);
        }
        Ok(())
    }

    async fn path(&mut self, index: u32) -> Result<()> {
        let mut text = Vec::new();
        while let Some(bytes) = self.form.data().await? {
            if text.len() + bytes.len() > FIELD_BYTES_MAX {
                self.answer.errors.push(format!(
                    "`files[{index}].path` has more than {FIELD_BYTES_MAX} bytes"
                ));
                return self.skip().await;
            }
            text.extend_from_slice(&bytes);
        }
        match String::from_utf8(text) {
            Ok(path) if !self.paths.contains_key(&index) => {
                self.paths.insert(index, path);
            }
            Ok(_) => {
                let error = format!("`files[{index}].path` comes twice");
                self.answer.errors.push(error);
            }
            Err(_) => {
                let error = format!("`files[{index}].path` is not UTF-8");
                self.answer.errors.push(error);
            }
        }
        Ok(())
    }

    async fn file(&mut self, index: u32) -> Result<()> {
        let Some(path) = self.paths.remove(&index) else {
            self.answer.errors.push(format!(
                "`files[{index}].file` has no path: `files[{index}].path` has to come before it"
            ));
            return self.skip().await;
        };
        let machine = &self.inside.machine;
        let begun = match Place::file(machine, &path) {
            Ok(place) => Upload::begin(machine, place, self.bytes_max).await,
            Err(error) => Err(error),
        };
        let mut upload = match begun {
            Ok(upload) => upload,
            Err(error) => {
                self.answer.errors.push(error.message);
                return self.skip().await;
            }
        };
        while let Some(bytes) = self.form.data().await? {
            if let Err(error) = upload.write(bytes).await {
                self.answer.errors.push(error.message);
                return self.skip().await;
            }
        }
        match upload.finish().await {
            Ok(bytes) => self.answer.files.push(FileResult { path, bytes }),
            Err(error) => self.answer.errors.push(error.message),
        }
        Ok(())
    }

    /// Goes to the end of the part at hand.
    async fn skip(&mut self) -> Result<()> {
        let mut skipped = 0_u64;
        while let Some(bytes) = self.form.data().await? {
            skipped = skipped.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            if skipped > self.bytes_max {
                return Err(ApiError::bad_request(format!(
                    "a part has more than {} bytes",
                    self.bytes_max
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_by_their_names() {
        assert_eq!(Field::named("files[0].path"), Field::Path(0));
        assert_eq!(Field::named("files[12].file"), Field::File(12));
        for other in [
            "",
            "file",
            "files[].path",
            "files[-1].path",
            "files[0].name",
            "files[99999999999].file",
            "files[0]path",
        ] {
            assert_eq!(Field::named(other), Field::Other, "{other}");
        }
    }
}
