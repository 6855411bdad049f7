//! What a caller may know about itself and about the server: keys, organisation, configuration.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{any, get};
use axum::{Json, Router};
use holm_daytona_wire::api_key::{ApiKeyListItem, ApiKeyPermission, ApiKeyResponse, CreateApiKey};
use holm_daytona_wire::config::{DaytonaConfiguration, OidcConfig};
use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::organization::{Organization, Region};

use super::Body;
use super::sandbox_create::{DEFAULT_SNAPSHOT, TARGET, checked_name};
use crate::auth::Caller;
use crate::clock::rfc3339;
use crate::error::{ApiError, Result};
use crate::keys::{self, KeyError, KeyText};
use crate::missing;
use crate::records::{ApiKeyRecord, OrganizationRecord};
use crate::state::{AppState, Shared};

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/api-keys", get(list_keys).post(create_key))
        .route("/api-keys/current", get(current_key))
        .route("/api-keys/{name}", get(show_key).delete(delete_key))
        .route("/organizations", get(organizations))
        // Not the organisation of that name.
        .route("/organizations/invitations", any(missing::of_control))
        .route("/organizations/{organization}", get(organization))
        .route("/config", get(config))
        .route("/regions", get(regions))
        .route("/shared-regions", get(regions))
}

/// Every key may do everything within its organisation.
fn permissions() -> Vec<ApiKeyPermission> {
    vec![
        ApiKeyPermission::WriteSandboxes,
        ApiKeyPermission::DeleteSandboxes,
        ApiKeyPermission::WriteSnapshots,
        ApiKeyPermission::DeleteSnapshots,
        ApiKeyPermission::ReadVolumes,
        ApiKeyPermission::WriteVolumes,
        ApiKeyPermission::DeleteVolumes,
        ApiKeyPermission::ManageSecrets,
        ApiKeyPermission::ManageApiKeys,
    ]
}

fn show(key: &ApiKeyRecord) -> ApiKeyListItem {
    ApiKeyListItem {
        name: key.name.clone(),
        value: key.shown.clone(),
        created_at: rfc3339(key.created_at),
        permissions: permissions(),
        user_id: key.organization.clone(),
        organization_id: Some(key.organization.clone()),
        ..ApiKeyListItem::default()
    }
}

fn find(state: &Shared, caller: &Caller, name: &str) -> Result<ApiKeyRecord> {
    let found = state.store.find_by_name(&caller.organization, name)?;
    found.ok_or_else(|| ApiError::not_found(format!("API key {name} not found")))
}

async fn list_keys(
    State(state): State<AppState>,
    caller: Caller,
) -> Result<Json<Vec<ApiKeyListItem>>> {
    let keys: Vec<ApiKeyRecord> = state.store.list(&caller.organization)?;
    Ok(Json(keys.iter().map(show).collect()))
}

async fn create_key(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<CreateApiKey>,
) -> Result<(StatusCode, Json<ApiKeyResponse>)> {
    if request.name.is_empty() {
        return Err(ApiError::bad_request("a key needs a `name`"));
    }
    if request.expires_at.is_some() {
        return Err(ApiError::not_implemented(
            "keys do not expire on this server: delete the key when it is not needed any more",
        ));
    }
    let name = checked_name(&request.name)?;
    let made = tokio::task::spawn_blocking(move || {
        let organization: Option<OrganizationRecord> = state.store.get(&caller.organization)?;
        let organization = organization.map(|found| found.name).unwrap_or_default();
        keys::create(&state.store, &organization, &name, KeyText::Random)
    })
    .await?;
    match made {
        Ok(key) => Ok((
            StatusCode::CREATED,
            Json(ApiKeyResponse {
                name: key.record.name,
                value: key.text,
                created_at: rfc3339(key.record.created_at),
                permissions: permissions(),
                expires_at: None,
            }),
        )),
        Err(KeyError::NameTaken { name }) => Err(ApiError::conflict(format!(
            "API key with name {name} already exists"
        ))),
        Err(error @ KeyError::TooManyKeys) => Err(ApiError::new(
            ErrorCode::Forbidden,
            format!("{error}: delete some"),
        )),
        Err(error) => Err(ApiError::internal("the key could not be made", error)),
    }
}

async fn current_key(
    State(state): State<AppState>,
    caller: Caller,
) -> Result<Json<ApiKeyListItem>> {
    Ok(Json(show(&find(&state, &caller, &caller.key_name)?)))
}

async fn show_key(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<ApiKeyListItem>> {
    Ok(Json(show(&find(&state, &caller, &name)?)))
}

async fn delete_key(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode> {
    let key = find(&state, &caller, &name)?;
    tokio::task::spawn_blocking(move || {
        state.store.delete::<ApiKeyRecord>(&key.hash)?;
        keys::wait_until_forgotten();
        Ok::<_, ApiError>(())
    })
    .await??;
    Ok(StatusCode::NO_CONTENT)
}

async fn organizations(
    State(state): State<AppState>,
    caller: Caller,
) -> Result<Json<Vec<Organization>>> {
    Ok(Json(vec![own_organization(&state, &caller)?]))
}

async fn organization(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Organization>> {
    if id != caller.organization {
        return Err(ApiError::not_found(format!(
            "Organization with ID {id} not found"
        )));
    }
    Ok(Json(own_organization(&state, &caller)?))
}

fn own_organization(state: &Shared, caller: &Caller) -> Result<Organization> {
    let found: Option<OrganizationRecord> = state.store.get(&caller.organization)?;
    let found = found.ok_or_else(|| ApiError::unauthorized("the organisation is gone"))?;
    let time = rfc3339(found.created_at);
    Ok(Organization {
        id: found.id.clone(),
        name: found.name,
        created_by: found.id,
        created_at: time.clone(),
        updated_at: time.clone(),
        suspended_at: time.clone(),
        suspended_until: time,
        ..Organization::default()
    })
}

async fn config(State(state): State<AppState>, headers: HeaderMap) -> Json<DaytonaConfiguration> {
    let url = state.public_url(&headers);
    Json(DaytonaConfiguration {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        oidc: OidcConfig::default(),
        proxy_toolbox_url: format!("{url}/toolbox"),
        default_snapshot: DEFAULT_SNAPSHOT.to_owned(),
        dashboard_url: url,
        max_auto_archive_interval: 30 * 24 * 60,
        environment: "holm".to_owned(),
        ..DaytonaConfiguration::default()
    })
}

/// There is one place: this machine.
async fn regions(_caller: Caller) -> Json<Vec<Region>> {
    Json(vec![Region {
        id: TARGET.to_owned(),
        name: TARGET.to_owned(),
        ..Region::default()
    }])
}
