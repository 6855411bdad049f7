//! Language servers in a sandbox.
//!
//! One server per language and project, started by a client and run in the box as its user. We are its editor: we open documents,
//! ask, and translate. A server that crashed is started again when it is next needed, a few times.
//!
//! - [`servers`]: which there are, and how they come and go.
//! - [`connection`]: talking to one; [`framing`]: how messages are told apart.
//! - [`answers`]: what servers answer, in Daytona's shape.

mod answers;
mod connection;
mod framing;
mod languages;
mod servers;

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use holm_daytona_wire::lsp::{
    CompletionList, LspCompletionParams, LspDocumentRequest, LspServerRequest, LspSymbol,
};
use serde_json::json;

use super::Inside;
use crate::api::body::Body;
use crate::api::query::Pairs;
use crate::error::Result;
use crate::state::AppState;
use servers::{Document, Key};

pub(super) use servers::Servers;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/lsp/start", post(start))
        .route("/lsp/stop", post(stop))
        .route("/lsp/did-open", post(did_open))
        .route("/lsp/did-close", post(did_close))
        .route("/lsp/completions", post(completions))
        .route("/lsp/document-symbols", get(document_symbols))
        .route("/lsp/workspacesymbols", get(workspace_symbols))
}

async fn start(inside: Inside, Body(request): Body<LspServerRequest>) -> Result<StatusCode> {
    let machine = &inside.machine;
    let key = Key::new(machine, &request.language_id, &request.path_to_project)?;
    machine.toolbox.lsp.start(machine, key).await?;
    Ok(StatusCode::OK)
}

async fn stop(inside: Inside, Body(request): Body<LspServerRequest>) -> Result<StatusCode> {
    let machine = &inside.machine;
    let key = Key::new(machine, &request.language_id, &request.path_to_project)?;
    machine.toolbox.lsp.stop(&key).await?;
    Ok(StatusCode::OK)
}

async fn did_open(inside: Inside, Body(request): Body<LspDocumentRequest>) -> Result<StatusCode> {
    let machine = &inside.machine;
    let key = Key::new(machine, &request.language_id, &request.path_to_project)?;
    let document = Document::new(machine, &request.uri)?;
    let slot = machine.toolbox.lsp.slot(&key)?;
    slot.open(machine, document).await?;
    Ok(StatusCode::OK)
}

async fn did_close(inside: Inside, Body(request): Body<LspDocumentRequest>) -> Result<StatusCode> {
    let machine = &inside.machine;
    let key = Key::new(machine, &request.language_id, &request.path_to_project)?;
    let document = Document::new(machine, &request.uri)?;
    let slot = machine.toolbox.lsp.slot(&key)?;
    slot.close(machine, &document).await?;
    Ok(StatusCode::OK)
}

async fn completions(
    inside: Inside,
    Body(request): Body<LspCompletionParams>,
) -> Result<Json<CompletionList>> {
    let machine = &inside.machine;
    let key = Key::new(machine, &request.language_id, &request.path_to_project)?;
    let document = Document::new(machine, &request.uri)?;
    let connection = machine.toolbox.lsp.slot(&key)?.connection(machine).await?;
    let mut parameters = json!({
        "textDocument": { "uri": document.uri },
        "position": request.position,
    });
    if let Some(context) = request.context.filter(|context| context.trigger_kind != 0) {
        parameters["context"] = json!(context);
    }
    let answer = connection
        .ask("textDocument/completion", parameters)
        .await?;
    Ok(Json(answers::completions(answer)))
}

async fn document_symbols(inside: Inside, pairs: Pairs) -> Result<Json<Vec<LspSymbol>>> {
    let machine = &inside.machine;
    let key = key(&inside, &pairs)?;
    let document = Document::new(machine, pairs.required("uri")?)?;
    let connection = machine.toolbox.lsp.slot(&key)?.connection(machine).await?;
    let symbols = servers::document_symbols(&connection, &document.uri).await?;
    Ok(Json(symbols))
}

async fn workspace_symbols(inside: Inside, pairs: Pairs) -> Result<Json<Vec<LspSymbol>>> {
    let machine = &inside.machine;
    let key = key(&inside, &pairs)?;
    let query = pairs.get("query").unwrap_or_default();
    let slot = machine.toolbox.lsp.slot(&key)?;
    Ok(Json(slot.workspace_symbols(machine, query).await?))
}

fn key(inside: &Inside, pairs: &Pairs) -> Result<Key> {
    let language = pairs.required("languageId")?;
    Key::new(&inside.machine, language, pairs.required("pathToProject")?)
}
