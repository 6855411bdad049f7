//! Secrets: boxes hold a placeholder, and the gateway puts the value on the wire to the secret's hosts.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, put};
use axum::{Json, Router};
use holm_daytona_wire::Hidden;
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::sandbox::{Sandbox, UpdateSandboxSecrets};
use holm_daytona_wire::secret::{CreateSecret, ListSecretsResponse, Secret, UpdateSecret};

use super::sandbox_create::{checked_name, is_variable_name};
use super::{Body, Pairs, show as show_sandbox};
use crate::auth::Caller;
use crate::clock::{self, rfc3339};
use crate::error::{ApiError, Result};
use crate::machines::outside;
use crate::records::SecretRecord;
use crate::state::{AppState, Shared};

/// Secrets of one organisation.
const SECRETS_MAX: usize = 500;
const HOSTS_MAX: usize = 64;
const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/secret", get(list_all).post(create))
        .route("/secret/paginated", get(list))
        .route(
            "/secret/{secret}",
            get(show_one).patch(update).delete(delete),
        )
        .route("/sandbox/{sandbox}/secrets", put(set_of_sandbox))
}

fn show(record: &SecretRecord) -> Secret {
    Secret {
        id: record.id.clone(),
        name: record.name.clone(),
        description: record.description.clone(),
        placeholder: record.placeholder.clone(),
        hosts: record.hosts.clone(),
        created_at: rfc3339(record.created_at),
        updated_at: rfc3339(record.updated_at),
    }
}

fn find(state: &Shared, organization: &str, id: &str) -> Result<SecretRecord> {
    own(state.store.get(id)?, organization, id)
}

/// Another organisation's is as unknown as none.
fn own(found: Option<SecretRecord>, organization: &str, id: &str) -> Result<SecretRecord> {
    found
        .filter(|secret| secret.organization == organization)
        .ok_or_else(|| ApiError::not_found(format!("Secret with ID {id} not found")))
}

/// Refuses what the gateway could not use, and secrets that would go anywhere.
fn check(secret: &SecretRecord) -> Result<()> {
    if secret.hosts.is_empty() {
        return Err(ApiError::bad_request(
            "a secret needs `hosts`, the places where its value may go: one without would go anywhere, and this server does not do that",
        ));
    }
    if secret.hosts.len() > HOSTS_MAX {
        return Err(ApiError::bad_request(format!(
            "a secret has at most {HOSTS_MAX} `hosts`: use `*.example.com`, or several secrets"
        )));
    }
    let description = secret.description.as_deref().unwrap_or_default();
    if description.len() > DESCRIPTION_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "a `description` has at most {DESCRIPTION_BYTES_MAX} bytes"
        )));
    }
    outside::rule(secret)
        .map(drop)
        .map_err(|error| ApiError::bad_request(crate::error::chain(&error)))
}

async fn list_all(State(state): State<AppState>, caller: Caller) -> Result<Json<Vec<Secret>>> {
    let secrets: Vec<SecretRecord> = state.store.list(&caller.organization)?;
    Ok(Json(secrets.iter().map(show).collect()))
}

async fn list(
    State(state): State<AppState>,
    caller: Caller,
    query: Pairs,
) -> Result<Json<ListSecretsResponse>> {
    let limit: usize = query.parsed("limit")?.unwrap_or(100).clamp(1, 200);
    let after: Option<String> = query.get("cursor").map(str::to_owned);
    let name = query.get("name").unwrap_or_default();
    let secrets: Vec<SecretRecord> = state.store.list(&caller.organization)?;
    let wanted: Vec<&SecretRecord> = secrets
        .iter()
        .filter(|secret| secret.name.contains(name))
        .collect();
    // Names are unique and in order: the last one shown is the cursor.
    let rest = wanted
        .iter()
        .filter(|secret| after.as_ref().is_none_or(|after| secret.name > *after));
    let mut items: Vec<Secret> = rest.take(limit + 1).map(|secret| show(secret)).collect();
    let is_cut = items.len() > limit;
    items.truncate(limit);
    Ok(Json(ListSecretsResponse {
        total: wanted.len() as u64,
        next_cursor: items
            .last()
            .filter(|_| is_cut)
            .map(|last| last.name.clone()),
        items,
    }))
}

async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<CreateSecret>,
) -> Result<(StatusCode, Json<Secret>)> {
    if request.name.is_empty() {
        return Err(ApiError::bad_request("a secret needs a `name`"));
    }
    let now = clock::now();
    let record = SecretRecord {
        id: uuid::Uuid::new_v4().to_string(),
        organization: caller.organization.clone(),
        name: checked_name(&request.name)?,
        description: request.description,
        value: request.value,
        placeholder: format!("holm-secret-{}", holm_sandbox_linux::random_hex()),
        hosts: request.hosts,
        created_at: now,
        updated_at: now,
    };
    check(&record)?;
    let shown = show(&record);
    let writing = state.clone();
    tokio::task::spawn_blocking(move || {
        writing.store.write(|transaction| {
            let own: Vec<SecretRecord> = transaction.list(&record.organization)?;
            if own.iter().any(|known| known.name == record.name) {
                return Err(ApiError::conflict(format!(
                    "Secret with name {} already exists",
                    record.name
                )));
            }
            if own.len() >= SECRETS_MAX {
                return Err(ApiError::new(
                    ErrorCode::Forbidden,
                    format!("an organisation has at most {SECRETS_MAX} secrets: delete some"),
                ));
            }
            Ok(transaction.put(&record)?)
        })
    })
    .await??;
    Ok((StatusCode::CREATED, Json(shown)))
}

async fn show_one(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Secret>> {
    Ok(Json(show(&find(&state, &caller.organization, &id)?)))
}

async fn update(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Body(request): Body<UpdateSecret>,
) -> Result<Json<Secret>> {
    let writing = state.clone();
    let organization = caller.organization.clone();
    let written = tokio::task::spawn_blocking(move || {
        // Read where it is written: one that is deleted meanwhile does not come back.
        writing.store.write(|transaction| {
            let old = own(transaction.get(&id)?, &organization, &id)?;
            let given = |value: Option<Hidden>| value.filter(|value| !value.is_empty());
            let record = SecretRecord {
                value: given(request.value).unwrap_or(old.value),
                description: request.description.or(old.description),
                hosts: request.hosts.unwrap_or(old.hosts),
                updated_at: clock::now(),
                ..old
            };
            check(&record)?;
            transaction.put(&record)?;
            Ok::<_, ApiError>(show(&record))
        })
    });
    let shown = written.await??;
    refresh(&state, &caller.organization)?;
    Ok(Json(shown))
}

async fn delete(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Secret>> {
    let secret = find(&state, &caller.organization, &id)?;
    let writing = state.clone();
    tokio::task::spawn_blocking(move || writing.store.delete::<SecretRecord>(&id)).await??;
    refresh(&state, &caller.organization)?;
    Ok(Json(show(&secret)))
}

/// What has changed counts at once in every sandbox that has a box.
fn refresh(state: &Shared, organization: &str) -> Result<()> {
    for sandbox in state.sandboxes.of(organization) {
        state.sandboxes.refresh_secrets(&sandbox)?;
    }
    Ok(())
}

async fn set_of_sandbox(
    State(state): State<AppState>,
    headers: axum::http::HeaderMap,
    caller: Caller,
    Path(id): Path<String>,
    Body(request): Body<UpdateSandboxSecrets>,
) -> Result<Json<Sandbox>> {
    let sandbox = state.sandboxes.find(&caller.organization, &id)?;
    let wanted = request.secrets.into_iter().flatten().collect();
    check_references(&state, &caller.organization, &wanted)?;
    let record = state.sandboxes.set_secrets(&sandbox, wanted).await?;
    Ok(Json(show_sandbox(&record, &state.public_url(&headers))))
}

/// Variables with good names, for secrets that exist.
pub(super) fn check_references(
    state: &Shared,
    organization: &str,
    secrets: &std::collections::BTreeMap<String, String>,
) -> Result<()> {
    for (variable, name) in secrets {
        if !is_variable_name(variable) {
            return Err(ApiError::bad_request(format!(
                "invalid environment variable name: '{variable}'"
            )));
        }
        if state
            .store
            .find_by_name::<SecretRecord>(organization, name)?
            .is_none()
        {
            return Err(ApiError::bad_request(format!("Secret {name} not found")));
        }
    }
    Ok(())
}
