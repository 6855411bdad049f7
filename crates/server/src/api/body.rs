//! Bodies of requests: JSON, with errors of our own.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use holm_daytona_wire::error::ErrorCode;
use serde::de::DeserializeOwned;

use crate::error::{ApiError, Result};
use crate::state::AppState;

/// A JSON body. No body at all is as good as an empty object: every field has a default.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self> {
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejected| {
                let message = if rejected.status() == StatusCode::PAYLOAD_TOO_LARGE {
                    format!(
                        "the body is larger than {} bytes",
                        state.config.limits.json_bytes_max
                    )
                } else {
                    "the body could not be read".to_owned()
                };
                ApiError {
                    status: Some(rejected.status().as_u16()),
                    ..ApiError::new(ErrorCode::InvalidRequestBody, message)
                }
            })?;
        let text: &[u8] = if bytes.trim_ascii().is_empty() {
            b"{}"
        } else {
            &bytes
        };
        // A list would be read as the fields of the object in their order.
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Err(ApiError::new(
                ErrorCode::InvalidRequestBody,
                "the body has to be a JSON object",
            ));
        }
        serde_json::from_slice(text).map(Self).map_err(|error| {
            ApiError::new(
                ErrorCode::InvalidRequestBody,
                format!("the body is not the JSON that is expected here: {error}"),
            )
        })
    }
}
