//! Whether a caller may see a port, by what it shows.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::cookies;
use super::headers::is_upgrade;
use super::host::Target;
use super::tokens;
use crate::auth::{self, TOKEN_PARAMETER};
use crate::error::Result;
use crate::keys;
use crate::sandboxes::Sandbox;
use crate::state::AppState;

/// Ports that stay closed to strangers even if a sandbox is public: Daytona's toolbox, terminal and recordings.
const NEVER_PUBLIC: [u16; 3] = [2280, 22222, 33333];

/// What a caller gets.
#[derive(Debug)]
pub(super) enum Access {
    Granted(Arc<Sandbox>),
    /// The token of the query becomes a cookie, and the address is asked for again without it.
    Redirect(Response),
    /// Unknown sandboxes and wrong tokens alike.
    Refused,
}

/// Decides, and takes everything out of the request that the box must not learn.
pub(super) async fn check(state: &AppState, parts: &mut Parts, target: &Target) -> Result<Access> {
    let shown = Shown::take(parts, target);
    let scheme = state.scheme();
    let state = state.clone();
    let target = target.clone();
    let is_navigation = parts.method == Method::GET && !is_upgrade(&parts.headers);
    let decided = tokio::task::spawn_blocking(move || {
        decide(&state, &target, &shown).map(|found| (found, shown))
    })
    .await??;
    let (decided, shown) = decided;
    if decided.is_key {
        // A key of ours is none of the box's business, whatever else was shown.
        parts.headers.remove(AUTHORIZATION);
    }
    let Some(sandbox) = decided.sandbox else {
        return Ok(Access::Refused);
    };
    match (decided.by_query, shown.query) {
        (true, Some(token)) if is_navigation => {
            let response = with_cookie(&sandbox.id, &token, &parts.uri, scheme);
            Ok(Access::Redirect(response))
        }
        (true | false, _) => Ok(Access::Granted(sandbox)),
    }
}

/// What the caller showed.
#[derive(Debug)]
struct Shown {
    key: Option<String>,
    header: Option<String>,
    query: Option<String>,
    cookie: Option<String>,
}

impl Shown {
    fn take(parts: &mut Parts, target: &Target) -> Self {
        let query = auth::query_parameter(parts.uri.query(), TOKEN_PARAMETER);
        let shown = Self {
            key: auth::bearer(parts).map(str::to_owned),
            header: auth::header(parts, auth::PREVIEW_TOKEN).map(str::to_owned),
            cookie: auth::cookie(parts, &format!("{}{}", cookies::PREFIX, target.name)),
            query,
        };
        parts.headers.remove(auth::PREVIEW_TOKEN);
        cookies::take_out(&mut parts.headers);
        parts.uri = without_token(&parts.uri);
        shown
    }
}

#[derive(Debug)]
struct Decided {
    sandbox: Option<Arc<Sandbox>>,
    /// Whether the bearer is a key of this server.
    is_key: bool,
    /// Whether it was the query that opened.
    by_query: bool,
}

fn decide(state: &AppState, target: &Target, shown: &Shown) -> Result<Decided> {
    let caller = match &shown.key {
        Some(key) => auth::caller(state, key)?,
        None => None,
    };
    let mut decided = Decided {
        sandbox: None,
        is_key: caller.is_some(),
        by_query: false,
    };
    let Some(sandbox) = state.sandboxes.by_id(&target.name) else {
        decided.sandbox = signed(state, target.port, &target.name)?;
        return Ok(decided);
    };
    let ours = sandbox.peek(|record| record.auth_token.clone());
    let opens = |token: &Option<String>| -> Result<bool> {
        match token {
            None => Ok(false),
            Some(token) if keys::same_secret(ours.expose(), token) => Ok(true),
            Some(token) => {
                let signed = signed(state, target.port, token)?;
                Ok(signed.is_some_and(|signed| signed.id == sandbox.id))
            }
        }
    };
    let is_public = || sandbox.peek(|record| record.public) && !NEVER_PUBLIC.contains(&target.port);
    decided.by_query = opens(&shown.query)?;
    let is_open = decided.by_query
        || caller.is_some_and(|caller| caller.organization == sandbox.organization)
        || opens(&shown.header)?
        || opens(&shown.cookie)?
        || is_public();
    decided.sandbox = is_open.then_some(sandbox);
    Ok(decided)
}

/// The sandbox that a signed token opens this port of.
fn signed(state: &AppState, port: u16, token: &str) -> Result<Option<Arc<Sandbox>>> {
    let found = tokens::find(&state.store, token)?;
    let found = found.filter(|record| record.port == port);
    Ok(found.and_then(|record| state.sandboxes.by_id(&record.sandbox)))
}

/// The address without our parameter, in origin form.
fn without_token(uri: &Uri) -> Uri {
    let path = uri.path();
    let kept: Vec<&str> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| pair.split('=').next() != Some(TOKEN_PARAMETER))
        .collect();
    let had_query = uri.query().is_some();
    let query = kept.join("&");
    let text = if had_query && !query.is_empty() {
        format!("{path}?{query}")
    } else {
        path.to_owned()
    };
    // It was part of an address before.
    text.parse().unwrap_or_default()
}

fn with_cookie(id: &str, token: &str, uri: &Uri, scheme: &str) -> Response {
    let secure = match scheme {
        "https" => "; Secure",
        _ => "",
    };
    let cookie = format!(
        "{}{id}={token}; Path=/; HttpOnly; SameSite=Lax{secure}",
        cookies::PREFIX
    );
    let place = uri.path_and_query().map_or("/", |place| place.as_str());
    // Two slashes would name another host.
    let place = format!("/{}", place.trim_start_matches(['/', '\\']));
    let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
    let headers = response.headers_mut();
    for (name, value) in [(LOCATION, place), (SET_COOKIE, cookie)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_taken_out_of_the_address() {
        for (address, clean) in [
            ("/?DAYTONA_SANDBOX_AUTH_KEY=x", "/"),
            ("/a?b=1&DAYTONA_SANDBOX_AUTH_KEY=x&c=2", "/a?b=1&c=2"),
            ("/a?b=1", "/a?b=1"),
            ("/a?", "/a"),
            ("http://x:80/a?b", "/a?b"),
            ("/a?DAYTONA_SANDBOX_AUTH_KEY", "/a"),
        ] {
            let uri: Uri = address.parse().unwrap();
            assert_eq!(without_token(&uri).to_string(), clean, "{address}");
        }
    }

    #[test]
    fn a_redirect_stays_at_its_host() {
        let uri: Uri = "//evil.example/x?y=1".parse().unwrap();
        let response = with_cookie("id", "token", &uri, "http");
        assert_eq!(response.headers()[LOCATION], "/evil.example/x?y=1");
    }
}
