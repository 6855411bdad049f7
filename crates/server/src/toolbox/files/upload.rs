//! One file on its way in: as a whole body, or as the field `file` of a form.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use bytes::Bytes;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::files::UploadedFile;
use holm_daytona_wire::multipart::{self, Event, Lengths, Multipart, MultipartError};
use holm_daytona_wire::signature::FileMethod;

use super::incoming::{Incoming, Upload};
use super::path::Place;
use super::signed;
use crate::error::{ApiError, Result};
use crate::state::AppState;

/// Parts of one body.
const PARTS_MAX: u32 = 20_000;

pub(super) async fn upload(
    State(state): State<AppState>,
    request: Request,
) -> Result<Json<UploadedFile>> {
    let (mut parts, body) = request.into_parts();
    let (inside, given) = signed::enter(&state, &mut parts, FileMethod::Upload).await?;
    let (bytes_max, silence_max) = {
        let limits = &state.config.limits;
        (limits.upload_bytes_max, limits.silence_max)
    };
    refuse_announced(&parts.headers, bytes_max)?;
    let place = Place::file(&inside.machine, &given)?;
    let mut upload = Upload::begin(&inside.machine, place.clone(), bytes_max).await?;
    match form_boundary(&parts.headers)? {
        None => {
            let mut incoming = Incoming::new(body, silence_max);
            while let Some(bytes) = incoming.next().await? {
                upload.write(bytes).await?;
            }
        }
        Some(boundary) => {
            let mut form = Form::new(Incoming::new(body, silence_max), &boundary);
            form.skip_to_file().await?;
            while let Some(bytes) = form.data().await? {
                upload.write(bytes).await?;
            }
        }
    }
    upload.finish().await?;
    let name = place.path.file_name().unwrap_or_default();
    Ok(Json(UploadedFile {
        name: name.to_string_lossy().into_owned(),
        path: place.path.to_string_lossy().into_owned(),
        kind: "file".to_owned(),
    }))
}

/// Refuses what says by itself that it is too much, before any of it is sent.
pub(super) fn refuse_announced(headers: &HeaderMap, bytes_max: u64) -> Result<()> {
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length > bytes_max => Err(ApiError {
            status: Some(413),
            ..ApiError::bad_request(format!("the body has more than {bytes_max} bytes"))
        }),
        Some(_) | None => Ok(()),
    }
}

/// The boundary of a form; none if the body is anything else.
pub(super) fn form_boundary(headers: &HeaderMap) -> Result<Option<String>> {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.to_str());
    let Some(Ok(kind)) = kind else {
        return Ok(None);
    };
    let is_form = kind
        .get(.."multipart/".len())
        .is_some_and(|start| start.eq_ignore_ascii_case("multipart/"));
    if !is_form {
        return Ok(None);
    }
    match multipart::boundary(kind) {
        Some(boundary) => Ok(Some(boundary)),
        None => Err(ApiError::new(
            ErrorCode::InvalidRequestBody,
            "the content type has to be `multipart/form-data; boundary=…`",
        )),
    }
}

impl From<MultipartError> for ApiError {
    fn from(error: MultipartError) -> Self {
        Self::new(ErrorCode::InvalidRequestBody, error.to_string())
    }
}

/// A form that is being read.
#[derive(Debug)]
pub(super) struct Form {
    incoming: Incoming,
    multipart: Multipart,
    parts: u32,
}

impl Form {
    pub(super) fn new(incoming: Incoming, boundary: &str) -> Self {
        Self {
            incoming,
            multipart: Multipart::new(boundary, Lengths::Ignored),
            parts: 0,
        }
    }

    /// What comes next; never [`Event::Starved`].
    pub(super) async fn next(&mut self) -> Result<Event> {
        loop {
            match self.multipart.next_event()? {
                Event::Starved => match self.incoming.next().await? {
                    Some(bytes) => self.multipart.feed(bytes),
                    None => self.multipart.end(),
                },
                Event::Part(headers) => {
                    self.parts += 1;
                    if self.parts > PARTS_MAX {
                        return Err(ApiError::new(
                            ErrorCode::InvalidRequestBody,
                            format!("the body has more than {PARTS_MAX} parts"),
                        ));
                    }
                    return Ok(Event::Part(headers));
                }
                event @ (Event::Data(_) | Event::PartEnd | Event::End) => return Ok(event),
            }
        }
    }

    /// More of the part at hand; nothing at its end.
    pub(super) async fn data(&mut self) -> Result<Option<Bytes>> {
        match self.next().await? {
            Event::Data(bytes) => Ok(Some(bytes)),
            Event::PartEnd | Event::Part(_) | Event::End | Event::Starved => Ok(None),
        }
    }

    /// Goes to the content of the field `file`.
    async fn skip_to_file(&mut self) -> Result<()> {
        loop {
            match self.next().await? {
                Event::Part(headers) if headers.name == "file" => return Ok(()),
                Event::Part(_) | Event::Data(_) | Event::PartEnd | Event::Starved => {}
                Event::End => {
                    return Err(ApiError::new(
                        ErrorCode::InvalidRequestBody,
                        "the form has no field `file`",
                    ));
                }
            }
        }
    }
}
