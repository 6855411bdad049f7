//! Tokens and tickets.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use holm_thread_log::threads::{RunId, RunState};
use holm_thread_log::{ProducerId, StreamState};

use super::asking::{Asking, Subject};
use super::failure::{self, coded, denied};
use super::gate::invalid;
use super::threads_of::{Threads, now};
use super::wire::{Failure, MintToken, MintedToken, ReadTicket, stream_path};
use crate::api::Body;
use crate::error::{ApiError, Result};
use crate::state::AppState;
use crate::streams::access::Verb;
use crate::tokens::{
    Grant, MintedFor, Operation, TTL_SECONDS_MAX, Ticket, TokenError, mint_stream_write_jwt, verify,
};

/// Makes a token with which one run writes this thread.
#[utoipa::path(post, path = "/threads/{id}/tokens", tag = "tokens", request_body = MintToken, security(("key" = [])),
    params(("id" = String, Path)), responses(
    (status = 201, body = MintedToken),
    (status = 400, body = Failure),
    (status = 404, body = Failure),
    (status = 409, description = "the run has ended", body = Failure),
))]
pub(super) async fn mint_token(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
    Body(request): Body<MintToken>,
) -> Result<(StatusCode, Json<MintedToken>)> {
    let subject = asking.thread_with_key(&id)?;
    let grant = grant(request)?;
    let (row, stream) = state.threads.find(&subject).await?;
    let has_ended = row
        .run
        .is_some_and(|run| run.id == grant.run && run.state != RunState::Running);
    if has_ended {
        return Err(coded(
            StatusCode::CONFLICT,
            holm_thread_log::threads::code::RUN_ENDED,
            format!(
                "the run `{}` has ended: a new one needs a new id",
                grant.run
            ),
        ));
    }
    let minted = mint(&state.threads, &subject, &stream, grant).await?;
    Ok((StatusCode::CREATED, minted))
}

/// Makes a token like the one that is shown, with all its time before it, as long as its run is the thread's current one.
#[utoipa::path(post, path = "/threads/{id}/tokens/renew", tag = "tokens", security(("token" = [])),
    params(("id" = String, Path)), responses(
    (status = 201, body = MintedToken),
    (status = 401, description = "the token is not good, or has expired", body = Failure),
    (status = 403, description = "a token for another thread, or its run is not the current one", body = Failure),
    (status = 404, body = Failure),
))]
pub(super) async fn renew_token(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<MintedToken>)> {
    let threads = &state.threads;
    if asking.with_key().is_ok() {
        return Err(ApiError::bad_request(
            "only a token can be renewed: show it, or make one with `POST /api/threads/{id}/tokens`",
        ));
    }
    let claims = verify(&threads.keys, asking.bearer(), now())
        .await
        .map_err(|error| denied(invalid(error)))?;
    // Any verb is enough: the new token has the same.
    let subject = asking.thread_of_token(&id)?;
    let (row, stream) = threads.find(&subject).await?;
    row.check_writer(claims.sub.as_str())
        .map_err(failure::of_rule)?;
    let producer = claims.pid.parse::<ProducerId>();
    let grant = Grant {
        run: claims.sub,
        producer: producer.map_err(|error| ApiError::bad_request(error.to_string()))?,
        operations: claims.ops,
        ttl_seconds: claims.exp.saturating_sub(claims.iat),
    };
    let minted = mint(threads, &subject, &stream, grant).await?;
    Ok((StatusCode::CREATED, minted))
}

/// Makes a ticket with which a browser's `EventSource` reads the thread's stream once, within a minute.
#[utoipa::path(post, path = "/threads/{id}/read-tickets", tag = "tokens", security(("key" = []), ("token" = ["read"])),
    params(("id" = String, Path)), responses(
    (status = 201, body = ReadTicket),
    (status = 403, description = "a token for another thread, or without `read`", body = Failure),
    (status = 404, body = Failure),
))]
pub(super) async fn issue_read_ticket(
    State(state): State<AppState>,
    asking: Asking,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<ReadTicket>)> {
    let subject = asking.thread(&id, Verb::Read)?;
    let (_, stream) = state.threads.find(&subject).await?;
    let ticket = Ticket {
        until: reads_until(&state.threads, &asking).await?,
        organization: subject.organization,
        thread: subject.id,
        stream: stream.id,
    };
    let issued = state.threads.tickets.issue(&ticket, now()).await;
    let (ticket, expires_at) = issued.map_err(failure::store)?;
    let ticket = ReadTicket {
        ticket: ticket.into_inner(),
        expires_at: expires_at.to_string(),
    };
    Ok((StatusCode::CREATED, Json(ticket)))
}

/// How long a reader may come back with what a ticket leads to: as long as the token that it was made with is good, or a new one
/// would be.
async fn reads_until(threads: &Threads, asking: &Asking) -> Result<i64> {
    let seconds = if asking.with_key().is_ok() {
        let now = u64::try_from(now().0 / 1000).unwrap_or(0);
        now + TTL_SECONDS_MAX
    } else {
        let claims = verify(&threads.keys, asking.bearer(), now()).await;
        claims.map_err(|error| denied(invalid(error)))?.exp
    };
    Ok(i64::try_from(seconds)
        .unwrap_or(i64::MAX)
        .saturating_mul(1000))
}

/// Signs from now on with a new key. Tokens of the key before it stay good; asked twice, all earlier tokens are void.
#[utoipa::path(post, path = "/thread-token-keys/rotate", tag = "tokens", security(("key" = [])), responses(
    (status = 204, description = "done"),
))]
pub(super) async fn rotate_token_keys(
    State(state): State<AppState>,
    asking: Asking,
) -> Result<StatusCode> {
    let organization = asking.with_key()?;
    let rotated = state.threads.keys.rotate(organization, now()).await;
    rotated.map_err(|error| ApiError::internal("the keys could not be rotated", error))?;
    Ok(StatusCode::NO_CONTENT)
}

fn grant(request: MintToken) -> Result<Grant> {
    let wrong = |error: String| ApiError::bad_request(error);
    let run: RunId = match &request.run {
        Some(run) => run.parse(),
        None => format!("run-{}", uuid::Uuid::now_v7()).parse(),
    }
    .map_err(|error: holm_thread_log::threads::RunIdError| wrong(error.to_string()))?;
    let producer = request.producer_id.as_deref().unwrap_or(run.as_str());
    let producer: Result<ProducerId, _> = producer.parse();
    let producer = producer.map_err(|error| wrong(error.to_string()))?;
    let operations = request.ops.unwrap_or_else(|| Operation::OF_A_RUN.to_vec());
    if operations.is_empty() || operations.len() > Operation::OF_A_RUN.len() {
        return Err(wrong("`ops` holds one to three verbs".into()));
    }
    let ttl_seconds = request.ttl_seconds.unwrap_or(TTL_SECONDS_MAX);
    if !(1..=TTL_SECONDS_MAX).contains(&ttl_seconds) {
        let message = format!("`ttlSeconds` has to be between 1 and {TTL_SECONDS_MAX}");
        return Err(wrong(message));
    }
    Ok(Grant {
        run,
        producer,
        operations,
        ttl_seconds,
    })
}

async fn mint(
    threads: &Threads,
    subject: &Subject,
    stream: &StreamState,
    grant: Grant,
) -> Result<Json<MintedToken>> {
    let (run, producer_id) = (grant.run.to_string(), grant.producer.to_string());
    let thread = MintedFor {
        id: &subject.id,
        stream: stream.id,
    };
    let house = &subject.organization;
    let minted = mint_stream_write_jwt(&threads.keys, house, thread, grant, now()).await;
    let minted = minted.map_err(|error: TokenError| {
        ApiError::internal(
            "the token could not be made; the server's log says why",
            error,
        )
    })?;
    Ok(Json(MintedToken {
        jwt: minted.jwt.into_inner(),
        expires_at: minted.expires_at.to_string(),
        run,
        producer_id,
        stream_path: stream_path(&subject.id),
    }))
}
