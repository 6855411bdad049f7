//! What listens in a sandbox, from outside: `http://PORT-SANDBOX.DOMAIN`.
//!
//! ```text
//! request ──▶ host (which port of which sandbox) ──▶ access (may this caller) ──▶ forward ──▶ program in the box
//! ```
//!
//! - `host` reads the name that a request was sent to. Whatever is below the preview domain is answered here and
//!   nowhere else: a page from a box and the API never share an origin.
//! - `access` decides by key, token, cookie or signed name. What it was shown is taken out of the request: the box
//!   learns no key and no token.
//! - `forward` speaks HTTP/1.1 with the program, or hands both ends to each other after a WebSocket was agreed on.
//!
//! **Invariants:** unknown, foreign, expired and wrong look the same. The program is hostile: it gets one parsed
//! request per connection, and nothing that it answers is passed on unparsed.

mod access;
mod cookies;
mod forward;
mod headers;
mod host;
mod page;
pub(crate) mod tokens;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::response::Response;

use crate::metrics::Part;
use crate::request::AnsweredBy;
use crate::state::AppState;

pub(crate) use host::domain;

/// Answers what was sent to a name below the preview domain, and passes everything else on.
pub(crate) async fn intercept(
    state: &AppState,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let named = request.uri().authority().map(Authority::as_str);
    if second.is_some() || named.is_some_and(|named| !named.eq_ignore_ascii_case(host)) {
        // Two servers in a row may each believe another one.
        return page::plain(
            StatusCode::BAD_REQUEST,
            "the request names two different hosts",
        );
    }
    let mut response = match host::parse(host, &domain(&state.config)) {
        host::Host::Other => return next(request).await,
        host::Host::Malformed => page::answer(
            &request,
            StatusCode::NOT_FOUND,
            "There is no preview of this name: they are called PORT-SANDBOX, with a port from 1 to 65535.",
        ),
        host::Host::Preview(target) => answer(state, request, &target).await,
    };
    response.extensions_mut().insert(AnsweredBy(Part::Preview));
    response
}

async fn answer(state: &AppState, request: Request, target: &host::Target) -> Response {
    let (mut parts, body) = request.into_parts();
    let sandbox = match access::check(state, &mut parts, target).await {
        Ok(access::Access::Granted(sandbox)) => sandbox,
        Ok(access::Access::Redirect(response)) => return response,
        Ok(access::Access::Refused) => {
            return page::of_parts(
                &parts,
                StatusCode::UNAUTHORIZED,
                "This preview is not public. Open it with a signed URL, or send the token of its preview URL in the \
                 header `x-daytona-preview-token` or once in the parameter `DAYTONA_SANDBOX_AUTH_KEY`.",
            );
        }
        Err(error) => {
            tracing::error!(error = error.message, "access to a preview was not decided");
            return page::of_parts(
                &parts,
                error.status(),
                "The server could not look this preview up.",
            );
        }
    };
    forward::forward(state, parts, body, &sandbox, target.port).await
}
