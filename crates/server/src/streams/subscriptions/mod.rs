//! The protocol's subscriptions, below `__ds/`: somebody is woken when streams have grown.
//!
//! - `keeper` keeps them, `wakes` finds out who is to be woken, `deliver` and `calls` reach those who want to be called.
//! - `secrets` signs calls and makes the tokens that subscribers answer with.
//! - Here are the addresses: a key makes, shows, removes and claims; who was woken answers with the token of that wake, and needs no key.

mod calls;
mod deliver;
mod keeper;
mod secrets;
mod shown;
mod wakes;

use axum::Json;
use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use holm_thread_log::Offset;
use holm_thread_log::subscription::{
    Acknowledge, AcknowledgeError, After, Define, Kind, LinkType, Problem, Subscription,
};
use serde::Deserialize;
use serde_json::json;

use super::access::{Access, Scope};
use super::error::{Result, StreamError};
use super::{address, now};
use crate::auth;
use crate::state::AppState;
use calls::Callee;
use keeper::{Creation, Failure, wake_id};
use secrets::{Claims, TokenError};

pub(crate) use keeper::Keeper;

/// Bodies here are small.
const BODY_BYTES_MAX: usize = 1024 * 1024;
const ID_LENGTH_MAX: usize = 256;
const WORKER_LENGTH_MAX: usize = 256;

/// Answers a request below `__ds/`.
pub(super) async fn handle(
    state: &AppState,
    parts: &Parts,
    body: Body,
    path: &str,
) -> Result<Response> {
    if path == "jwks.json" {
        return key_set(state, parts).await;
    }
    let mut places = path.split('/');
    if places.next() != Some("subscriptions") {
        return Err(nothing_here());
    }
    let id = address::decode(places.next().unwrap_or_default())?;
    let is_id = (1..=ID_LENGTH_MAX).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if !is_id {
        return Err(invalid(format!(
            "the id of a subscription is 1 to {ID_LENGTH_MAX} visible letters without slashes"
        )));
    }
    let rest: Vec<&str> = places.collect();
    let body = state.bodies.read_at_most(parts, body, BODY_BYTES_MAX);
    match (rest.as_slice(), &parts.method) {
        ([], &Method::PUT) => create(state, parts, id, &body.await?.bytes).await,
        ([], &Method::GET) => show(state, parts, &id).await,
        ([], &Method::DELETE) => {
            let organization = owner(state, parts).await?;
            let keeper = &state.subscriptions;
            keeper.delete(&organization, &id).await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        (["streams"], &Method::POST) => add(state, parts, &id, &body.await?.bytes).await,
        (["streams", name @ ..], &Method::DELETE) if !name.is_empty() => {
            remove(state, parts, &id, &name.join("/")).await
        }
        (["claim"], &Method::POST) => claim(state, parts, &id, &body.await?.bytes).await,
        (["callback" | "ack"], &Method::POST) => {
            acknowledge(state, parts, &id, &body.await?.bytes).await
        }
        (["release"], &Method::POST) => release(state, parts, &id, &body.await?.bytes).await,
        ([], _) => Err(wrong_method("PUT, GET, DELETE")),
        (["streams", _, ..], _) => Err(wrong_method("DELETE")),
        (["streams" | "claim" | "callback" | "ack" | "release"], _) => Err(wrong_method("POST")),
        (_, _) => Err(nothing_here()),
    }
}

/// Whose subscriptions a key may use. A token for one thread may use none.
async fn owner(state: &AppState, parts: &Parts) -> Result<String> {
    let access = Access::find(state, parts).await?;
    match access.scope {
        Scope::Whole => Ok(access.organization),
        Scope::Thread(_) => Err(StreamError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "a thread's token opens no subscriptions: use an API key",
        )),
    }
}

/// What the token of a wake says.
async fn woken(state: &AppState, parts: &Parts, id: &str) -> Result<Claims> {
    let refused =
        |code, message: &str| Err(StreamError::new(StatusCode::UNAUTHORIZED, code, message));
    let Some(token) = auth::bearer(parts) else {
        let message = "send the token of the wake as `Authorization: Bearer TOKEN`";
        return refused("TOKEN_INVALID", message);
    };
    let secrets = state.subscriptions.secrets().await?;
    match secrets.open(token, id, now()) {
        Ok(claims) => Ok(claims),
        Err(TokenError::Invalid) => refused(
            "TOKEN_INVALID",
            "this is not the token of a wake of this subscription",
        ),
        Err(TokenError::Expired) => refused("TOKEN_EXPIRED", "the token of the wake has expired"),
    }
}

async fn key_set(state: &AppState, parts: &Parts) -> Result<Response> {
    if parts.method != Method::GET {
        return Err(wrong_method("GET"));
    }
    let keys = state.subscriptions.secrets().await?.key_set();
    let headers = [
        (CONTENT_TYPE, "application/jwk-set+json"),
        (CACHE_CONTROL, "public, max-age=300"),
    ];
    Ok((headers, keys.to_string()).into_response())
}

async fn create(state: &AppState, parts: &Parts, id: String, body: &[u8]) -> Result<Response> {
    let organization = owner(state, parts).await?;
    let definition = Define::parse(body).map_err(|error| invalid(error.to_string()))?;
    if let Kind::Webhook { url } = &definition.kind {
        let local = state.config.local_calls;
        Callee::parse(url, local)
            .map_err(|error| StreamError::bad_request("WEBHOOK_URL_REJECTED", error.to_string()))?;
    }
    let base_url = state.public_url(&parts.headers);
    let made = Subscription::new(id, organization, definition, base_url, now());
    let (creation, found) = state.subscriptions.create(made).await?;
    let status = match creation {
        Creation::Made => StatusCode::CREATED,
        Creation::Confirmed => StatusCode::OK,
    };
    let secrets = state.subscriptions.secrets().await?;
    Ok((status, Json(shown::subscription(&found, secrets))).into_response())
}

async fn show(state: &AppState, parts: &Parts, id: &str) -> Result<Response> {
    let organization = owner(state, parts).await?;
    let (_, found) = state.subscriptions.load(&organization, id).await?;
    let secrets = state.subscriptions.secrets().await?;
    Ok(Json(shown::subscription(&found, secrets)).into_response())
}

async fn add(state: &AppState, parts: &Parts, id: &str, body: &[u8]) -> Result<Response> {
    let organization = owner(state, parts).await?;
    let names = Define::parse_streams(body).map_err(|error| invalid(error.to_string()))?;
    let keeper = &state.subscriptions;
    let mut added = Vec::new();
    for name in names {
        // What is there already is not news.
        let tail = keeper.tail(&organization, &name).await?;
        added.push((name, tail.unwrap_or(Offset::START)));
    }
    let linked = keeper.change(&organization, id, |subscription, _| {
        Ok(added
            .iter()
            .all(|(name, tail)| subscription.link(name, LinkType::Explicit, *tail)))
    });
    match linked.await? {
        (true, _) => Ok(StatusCode::NO_CONTENT.into_response()),
        (false, _) => Err(invalid(
            "the subscription is for as many streams as it may be",
        )),
    }
}

async fn remove(state: &AppState, parts: &Parts, id: &str, name: &str) -> Result<Response> {
    let organization = owner(state, parts).await?;
    let name = address::decode(name)?;
    let name = name.trim_matches('/');
    let removed = state
        .subscriptions
        .change(&organization, id, |subscription, _| {
            subscription.unlink(name);
            Ok(())
        });
    removed.await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn claim(state: &AppState, parts: &Parts, id: &str, body: &[u8]) -> Result<Response> {
    #[derive(Deserialize)]
    struct Claim {
        worker: String,
    }
    let organization = owner(state, parts).await?;
    let parsed = serde_json::from_slice(body).ok();
    let worker = parsed
        .map(|Claim { worker }| worker)
        .filter(|worker| (1..=WORKER_LENGTH_MAX).contains(&worker.len()))
        .ok_or_else(|| {
            invalid(format!(
                "`worker` is a text of 1 to {WORKER_LENGTH_MAX} bytes"
            ))
        })?;
    let keeper = &state.subscriptions;
    let claimed = keeper.change(&organization, id, |subscription, tails| {
        subscription.expire(now());
        subscription.claim(&worker, tails, wake_id(), now())?;
        Ok(shown::standings(subscription, tails))
    });
    let (streams, subscription) = claimed.await?;
    let generation = subscription.generation;
    let secrets = keeper.secrets().await?;
    let token = secrets.token(&organization, id, generation, now());
    Ok(Json(json!({
        "wake_id": subscription.wake.map(|wake| wake.id),
        "generation": generation,
        "token": token,
        "streams": streams,
        "lease_ttl_ms": subscription.definition.lease_milliseconds,
    }))
    .into_response())
}

async fn acknowledge(state: &AppState, parts: &Parts, id: &str, body: &[u8]) -> Result<Response> {
    let claims = woken(state, parts, id).await?;
    let request = Acknowledge::parse(body).map_err(malformed)?;
    let keeper = &state.subscriptions;
    let changed = keeper.change(&claims.organization, id, |subscription, tails| {
        subscription.acknowledge(claims.generation, &request, tails, now())
    });
    let (after, _) = changed.await?;
    go_on(state, &claims, after).await;
    let next_wake = after == After::Wake;
    Ok(Json(json!({ "ok": true, "next_wake": next_wake })).into_response())
}

async fn release(state: &AppState, parts: &Parts, id: &str, body: &[u8]) -> Result<Response> {
    let claims = woken(state, parts, id).await?;
    let request = Acknowledge::parse(body).map_err(malformed)?;
    let keeper = &state.subscriptions;
    let changed = keeper.change(&claims.organization, id, |subscription, tails| {
        subscription.release(claims.generation, &request, tails)
    });
    let (after, _) = changed.await?;
    go_on(state, &claims, after).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Wakes again what is still pending. What was acknowledged is stored, whatever comes of this.
async fn go_on(state: &AppState, claims: &Claims, after: After) {
    if after == After::Wake {
        let (organization, id) = (&claims.organization, &claims.subscription);
        if let Err(failure) = state.subscriptions.advance(organization, id, None).await {
            wakes::log(&failure);
        }
    }
}

fn invalid(message: impl Into<String>) -> StreamError {
    StreamError::bad_request("INVALID_REQUEST", message)
}

fn malformed(error: AcknowledgeError) -> StreamError {
    match error {
        AcknowledgeError::Malformed(_) => invalid(error.to_string()),
        AcknowledgeError::Offset(_) => {
            StreamError::new(StatusCode::CONFLICT, "INVALID_OFFSET", error.to_string())
        }
    }
}

fn nothing_here() -> StreamError {
    let message = "there is nothing at this address";
    StreamError::new(StatusCode::NOT_FOUND, "SUBSCRIPTION_NOT_FOUND", message)
}

fn wrong_method(allowed: &'static str) -> StreamError {
    let message = format!("this address takes {allowed}");
    StreamError::new(StatusCode::METHOD_NOT_ALLOWED, "method", message).with(ALLOW, allowed)
}

impl From<Failure> for StreamError {
    fn from(failure: Failure) -> Self {
        let conflict = |code, message| Self::new(StatusCode::CONFLICT, code, message);
        match failure {
            Failure::NotFound => Self::new(
                StatusCode::NOT_FOUND,
                "SUBSCRIPTION_NOT_FOUND",
                "there is no such subscription",
            ),
            Failure::Problem(problem) => {
                let message = problem.to_string();
                match problem {
                    Problem::NotPullWake => invalid(message),
                    Problem::AlreadyClaimed { holder, generation } => {
                        conflict("ALREADY_CLAIMED", message)
                            .detail("current_holder", holder)
                            .detail("generation", generation)
                    }
                    Problem::NothingPending => conflict("NO_PENDING_WORK", message),
                    Problem::Fenced => conflict("FENCED", message),
                    Problem::UnknownStream(_)
                    | Problem::OffsetBehind(_)
                    | Problem::OffsetAhead(_) => conflict("INVALID_OFFSET", message),
                }
            }
            Failure::TooMany(what) => invalid(what),
            Failure::Differs => conflict(
                "SUBSCRIPTION_ALREADY_EXISTS",
                "the subscription exists with another definition".to_owned(),
            ),
            Failure::Store(error) => error.into(),
            Failure::Contended => conflict(
                "CONTENDED",
                "others change the subscription all the time: try again".to_owned(),
            ),
            Failure::Internal => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "the server could not use the subscription; its log says why",
            ),
        }
    }
}
