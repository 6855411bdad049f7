//! Git's settings, and credentials that a client wants to be kept.

use axum::Json;
use axum::http::StatusCode;
use holm_daytona_wire::git::{
    GitAuthenticateRequest, GitConfigResponse, GitConfigureUserRequest, GitScope,
    GitSetConfigRequest,
};

use super::failure::failure;
use super::run::{Git, value};
use crate::api::body::Body;
use crate::api::query::Pairs;
use crate::error::{ApiError, Result};
use crate::machines::Machine;
use crate::toolbox::Inside;

const HOST: &str = "github.com";
const PROTOCOL: &str = "https";

pub(super) async fn get(inside: Inside, pairs: Pairs) -> Result<Json<GitConfigResponse>> {
    let key = setting_name(pairs.required("key")?)?;
    let scope = pairs.get("scope").map(GitScope::from);
    let done = git(&inside.machine, scope.as_ref(), pairs.get("path"))?
        .args(["-z", "--get", "--", key])
        .outcome(&inside.machine)
        .await?;
    let value = match done.exit_code {
        0 => Some(
            String::from_utf8_lossy(&done.stdout)
                .trim_end_matches('\0')
                .to_owned(),
        ),
        // It is not set.
        1 if done.stderr.is_empty() => None,
        _ => return Err(failure(&done)),
    };
    Ok(Json(GitConfigResponse { value }))
}

pub(super) async fn set(
    inside: Inside,
    Body(request): Body<GitSetConfigRequest>,
) -> Result<StatusCode> {
    let key = setting_name(&request.key)?;
    set_one(
        &inside,
        request.scope.as_ref(),
        request.path.as_deref(),
        key,
        &request.value,
    )
    .await?;
    Ok(StatusCode::OK)
}

pub(super) async fn set_user(
    inside: Inside,
    Body(request): Body<GitConfigureUserRequest>,
) -> Result<StatusCode> {
    if request.name.is_empty() || request.email.is_empty() {
        return Err(ApiError::bad_request("`name` and `email` are both needed"));
    }
    let (scope, path) = (request.scope.as_ref(), request.path.as_deref());
    set_one(&inside, scope, path, "user.name", &request.name).await?;
    set_one(&inside, scope, path, "user.email", &request.email).await?;
    Ok(StatusCode::OK)
}

async fn set_one(
    inside: &Inside,
    scope: Option<&GitScope>,
    path: Option<&str>,
    key: &str,
    value: &str,
) -> Result<()> {
    if value.contains('\0') {
        return Err(ApiError::bad_request("the value contains a NUL byte"));
    }
    git(&inside.machine, scope, path)?
        .args(["--replace-all", "--", key, value])
        .run(&inside.machine)
        .await?;
    Ok(())
}

/// `git config` for one file of settings.
fn git(machine: &Machine, scope: Option<&GitScope>, path: Option<&str>) -> Result<Git> {
    match scope.unwrap_or(&GitScope::Global) {
        GitScope::Global => Ok(Git::new().args(["config", "--global"])),
        GitScope::System => Ok(Git::new().args(["config", "--system"])),
        GitScope::Local => {
            let path = path.filter(|path| !path.is_empty()).ok_or_else(|| {
                ApiError::bad_request("the scope `local` needs the `path` of a repository")
            })?;
            Ok(Git::inside(machine, path)?.args(["config", "--local"]))
        }
        GitScope::Unknown(word) => Err(ApiError::bad_request(format!(
            "`{}` is no scope: it is one of global, local, system",
            word.escape_debug()
        ))),
    }
}

/// `section.name` or `section.anything.name`.
fn setting_name(key: &str) -> Result<&str> {
    let key = value("key", key)?;
    if key.contains('.') {
        Ok(key)
    } else {
        Err(ApiError::bad_request(format!(
            "`{key}` is no setting: it is named like `user.name`"
        )))
    }
}

/// Keeps credentials in the box's home, in plain text: that is what this operation is for.
pub(super) async fn authenticate(
    inside: Inside,
    Body(request): Body<GitAuthenticateRequest>,
) -> Result<StatusCode> {
    let or = |given: Option<String>, default: &str| {
        given
            .filter(|given| !given.is_empty())
            .unwrap_or_else(|| default.to_owned())
    };
    let protocol = or(request.protocol, PROTOCOL);
    let host = or(request.host, HOST);
    let password = request.password.expose();
    if request.username.is_empty() || password.is_empty() {
        return Err(ApiError::bad_request(
            "`username` and `password` are both needed",
        ));
    }
    let parts = [&protocol, &host, &request.username, password];
    if parts.iter().any(|part| part.contains(['\n', '\r', '\0'])) {
        return Err(ApiError::bad_request(
            "credentials have to be one line each",
        ));
    }
    set_one(&inside, None, None, "credential.helper", "store").await?;
    let username = &request.username;
    let told =
        format!("protocol={protocol}\nhost={host}\nusername={username}\npassword={password}\n\n");
    Git::new()
        .args(["credential", "approve"])
        .stdin(told)
        .run(&inside.machine)
        .await?;
    Ok(StatusCode::OK)
}
