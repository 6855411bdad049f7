//! What the gateway itself says to a sandbox, always one line of plain text.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use crate::policy::Reason;
use crate::target::TargetError;

/// Our own words, or what comes from outside, as it comes.
pub(crate) type Body = Either<Full<Bytes>, Incoming>;

/// Why a request or tunnel did not come about.
#[derive(Debug)]
pub(crate) enum Failure {
    Unusable(TargetError),
    Refused(Reason),
    /// The outside did not answer as it should.
    Outside(String),
    /// A limit of time was reached.
    TooLate(String),
}

impl Failure {
    pub(crate) fn respond(&self, target: &str) -> Response<Body> {
        match self {
            Self::Unusable(error) => text(StatusCode::BAD_REQUEST, &error.to_string()),
            Self::Refused(reason) => {
                let line = format!("egress to {target} refused: {reason}");
                text(StatusCode::FORBIDDEN, &line)
            }
            Self::Outside(problem) => {
                let line = format!("could not reach {target}: {problem}");
                text(StatusCode::BAD_GATEWAY, &line)
            }
            Self::TooLate(problem) => {
                let line = format!("could not reach {target} in time: {problem}");
                text(StatusCode::GATEWAY_TIMEOUT, &line)
            }
        }
    }
}

fn text(status: StatusCode, line: &str) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::from(format!("{line}\n"))));
    *response.status_mut() = status;
    // Most clients show of a refused CONNECT the status line alone.
    if let Ok(phrase) = ReasonPhrase::try_from(line.as_bytes()) {
        response.extensions_mut().insert(phrase);
    }
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    // What is left of the request's body is not waited for.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}
