//! The language servers of one sandbox.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holm_daytona_wire::error::ErrorCode;
use holm_daytona_wire::lsp::LspSymbol;
use holm_sandbox_linux::{EngineError, OnDisconnect};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::answers;
use super::connection::Connection;
use super::languages::{Language, search_path};
use crate::error::{ApiError, Result, chain};
use crate::machines::{CommandSpec, Input, Machine, Output, Running};

/// Servers of one sandbox.
const SERVERS_MAX: usize = 16;
/// Documents open in one server.
const DOCUMENTS_MAX: usize = 1_000;
/// One document.
const DOCUMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How often a server is started again by itself.
const CRASHES_MAX: u32 = 5;

/// What may stand in the path of an address as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Which server is meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    language: Language,
    /// Absolute, as seen inside.
    project: PathBuf,
}

impl Key {
    pub(super) fn new(machine: &Machine, language: &str, project: &str) -> Result<Self> {
        let Some(language) = Language::named(language) else {
            let known = Language::KNOWN.map(Language::id).join(", ");
            return Err(ApiError::bad_request(format!(
                "the language `{}` is not supported: it is one of {known}",
                language.escape_debug()
            )));
        };
        if project.is_empty() || project.contains('\0') {
            return Err(ApiError::bad_request(
                "`pathToProject` has to name a folder",
            ));
        }
        Ok(Self {
            language,
            project: machine.absolute(project).components().collect(),
        })
    }
}

/// A document that a client names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) uri: String,
    path: PathBuf,
}

impl Document {
    /// Clients write `file://` and then a path as they know it, relative or not, nothing encoded.
    pub(super) fn new(machine: &Machine, uri: &str) -> Result<Self> {
        let path = uri.strip_prefix("file://").unwrap_or(uri);
        if path.is_empty() || path.contains('\0') {
            return Err(ApiError::bad_request(
                "`uri` has to be `file://` and the path of a document",
            ));
        }
        let path: PathBuf = machine.absolute(path).components().collect();
        Ok(Self {
            uri: address(&path),
            path,
        })
    }
}

fn address(path: &std::path::Path) -> String {
    let path = path.to_string_lossy();
    format!("file://{}", utf8_percent_encode(&path, PATH))
}

/// All language servers of a sandbox.
#[derive(Debug, Default)]
pub(in crate::toolbox) struct Servers {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

impl Servers {
    /// Starts a server; one that runs is left as it is.
    pub(super) async fn start(&self, machine: &Arc<Machine>, key: Key) -> Result<()> {
        let slot = {
            let mut slots = lock(&self.slots);
            if slots.len() >= SERVERS_MAX && !slots.contains_key(&key) {
                return Err(ApiError::new(
                    ErrorCode::TooManyRequests,
                    format!("{SERVERS_MAX} language servers run already: stop one"),
                ));
            }
            let slot = slots.entry(key.clone());
            Arc::clone(slot.or_insert_with(|| Arc::new(Slot::new(key.clone()))))
        };
        // Asked for by a client, so earlier crashes are forgiven.
        slot.crashes.store(0, Ordering::Relaxed);
        let started = slot.connection(machine).await;
        if started.is_err() {
            lock(&self.slots).remove(&key);
        }
        started.map(drop)
    }

    pub(super) async fn stop(&self, key: &Key) -> Result<()> {
        let slot = lock(&self.slots).remove(key).ok_or_else(not_started)?;
        let connection = lock(&slot.current).take();
        if let Some(connection) = connection {
            connection.end().await;
        }
        Ok(())
    }

    pub(super) fn slot(&self, key: &Key) -> Result<Arc<Slot>> {
        lock(&self.slots).get(key).cloned().ok_or_else(not_started)
    }

    /// How many processes only wait for questions.
    pub(in crate::toolbox) fn waiting(&self) -> u64 {
        let slots = lock(&self.slots);
        let is_running = |slot: &&Arc<Slot>| {
            let current = lock(&slot.current);
            current
                .as_ref()
                .is_some_and(|connection| !connection.is_over())
        };
        slots
            .values()
            .filter(is_running)
            .fold(0, |count, _| count + 1)
    }

    /// Forgets them all, which ends them.
    pub(in crate::toolbox) fn clear(&self) {
        lock(&self.slots).clear();
    }
}

fn not_started() -> ApiError {
    ApiError::new(
        ErrorCode::LspServerNotInitialized,
        "the language server is not started: start it first",
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) async fn document_symbols(connection: &Connection, uri: &str) -> Result<Vec<LspSymbol>> {
    let parameters = json!({ "textDocument": { "uri": uri } });
    let answer = connection
        .ask("textDocument/documentSymbol", parameters)
        .await?;
    Ok(answers::symbols(&answer, uri))
}

/// One language server, through its crashes.
#[derive(Debug)]
pub(super) struct Slot {
    key: Key,
    /// One starts it; the others wait.
    gate: Semaphore,
    current: Mutex<Option<Arc<Connection>>>,
    /// What is open in it, and has to be again after a crash.
    documents: Mutex<BTreeMap<String, Document>>,
    crashes: AtomicU32,
    /// Whether the server looks for symbols in the whole project; not every one does.
    knows_workspace: AtomicBool,
}

impl Slot {
    fn new(key: Key) -> Self {
        Self {
            key,
            gate: Semaphore::new(1),
            current: Mutex::default(),
            documents: Mutex::default(),
            crashes: AtomicU32::new(0),
            knows_workspace: AtomicBool::new(false),
        }
    }

    /// The running server, started again if it crashed.
    pub(super) async fn connection(&self, machine: &Arc<Machine>) -> Result<Arc<Connection>> {
        let _permit =
            self.gate.acquire().await.map_err(|error| {
                ApiError::internal("the language server is being stopped", error)
            })?;
        let before = lock(&self.current).clone();
        if let Some(connection) = before {
            if !connection.is_over() {
                return Ok(connection);
            }
            if self.crashes.fetch_add(1, Ordering::Relaxed) >= CRASHES_MAX {
                return Err(ApiError::new(
                    ErrorCode::InternalServerError,
                    format!(
                        "the language server crashed {CRASHES_MAX} times: {}",
                        connection.complaints()
                    ),
                ));
            }
        }
        let connection = Arc::new(Connection::new(self.launch(machine).await?));
        self.introduce(&connection).await?;
        let documents: Vec<_> = lock(&self.documents).values().cloned().collect();
        for document in documents {
            // One that is gone meanwhile is no reason to have no server.
            drop(self.show(machine, &connection, &document).await);
        }
        *lock(&self.current) = Some(Arc::clone(&connection));
        Ok(connection)
    }

    async fn launch(&self, machine: &Arc<Machine>) -> Result<Running> {
        let mut env = machine.environment([]);
        for (name, value) in &mut env {
            if name == "PATH" {
                let path = value.to_string_lossy();
                *value = search_path(&self.key.project, &machine.account.home, &path).into();
            }
        }
        for program in self.key.language.programs() {
            let spec = CommandSpec {
                argv: program.iter().map(Into::into).collect(),
                env: env.clone(),
                cwd: self.key.project.clone(),
                input: Input::Piped,
                output: Output::Separate,
                disconnect: OnDisconnect::Kill,
            };
            match machine.start(spec).await {
                Ok(running) => return Ok(running),
                Err(EngineError::CommandNotFound { .. }) => {}
                Err(error) => {
                    return Err(ApiError::bad_request(format!(
                        "the language server could not be started: {}",
                        chain(&error)
                    ))
                    .with_cause(error));
                }
            }
        }
        let (language, advice) = (self.key.language.id(), self.key.language.advice());
        Err(ApiError::bad_request(format!(
            "there is no language server for {language} in this sandbox: {advice}, then start it again"
        )))
    }

    async fn introduce(&self, connection: &Connection) -> Result<()> {
        let project = address(&self.key.project);
        let name = self.key.project.file_name().unwrap_or_default();
        let parameters = json!({
            // It ends with its streams; our process number means nothing inside.
            "processId": Value::Null,
            "clientInfo": { "name": "holm" },
            "rootUri": project,
            "rootPath": self.key.project.to_string_lossy(),
            "workspaceFolders": [{ "uri": project, "name": name.to_string_lossy() }],
            "capabilities": {
                "textDocument": {
                    "synchronization": {},
                    "completion": { "completionItem": { "snippetSupport": false }, "contextSupport": true },
                    "documentSymbol": { "hierarchicalDocumentSymbolSupport": false },
                },
                "workspace": { "symbol": {}, "workspaceFolders": true, "configuration": true },
            },
        });
        let answer = connection.ask("initialize", parameters).await?;
        let knows = !matches!(
            answer["capabilities"]["workspaceSymbolProvider"],
            Value::Null | Value::Bool(false)
        );
        self.knows_workspace.store(knows, Ordering::Relaxed);
        connection.tell("initialized", json!({})).await
    }

    /// Symbols of the project by a part of their names; of the open documents, if the server does not look further.
    pub(super) async fn workspace_symbols(
        &self,
        machine: &Arc<Machine>,
        query: &str,
    ) -> Result<Vec<LspSymbol>> {
        let connection = self.connection(machine).await?;
        if self.knows_workspace.load(Ordering::Relaxed) {
            let parameters = json!({ "query": query });
            let answer = connection.ask("workspace/symbol", parameters).await?;
            return Ok(answers::symbols(&answer, ""));
        }
        let open: Vec<_> = lock(&self.documents).keys().cloned().collect();
        let wanted = query.to_lowercase();
        let mut found = Vec::new();
        for uri in open {
            let symbols = document_symbols(&connection, &uri).await?;
            let is_wanted = |symbol: &LspSymbol| symbol.name.to_lowercase().contains(&wanted);
            found.extend(symbols.into_iter().filter(is_wanted));
        }
        Ok(found)
    }

    /// Opens a document, or shows its content anew.
    pub(super) async fn open(&self, machine: &Arc<Machine>, document: Document) -> Result<()> {
        let connection = self.connection(machine).await?;
        let is_open = {
            let mut documents = lock(&self.documents);
            if documents.len() >= DOCUMENTS_MAX && !documents.contains_key(&document.uri) {
                return Err(ApiError::new(
                    ErrorCode::TooManyRequests,
                    format!("{DOCUMENTS_MAX} documents are open: close one"),
                ));
            }
            documents.remove(&document.uri).is_some()
        };
        if is_open {
            let parameters = json!({ "textDocument": { "uri": document.uri } });
            connection.tell("textDocument/didClose", parameters).await?;
        }
        self.show(machine, &connection, &document).await?;
        lock(&self.documents).insert(document.uri.clone(), document);
        Ok(())
    }

    async fn show(
        &self,
        machine: &Arc<Machine>,
        connection: &Connection,
        document: &Document,
    ) -> Result<()> {
        let path = document.path.clone();
        let text = machine
            .blocking(move |machine| {
                let files = machine
                    .files()
                    .and_then(|files| files.read(&path, DOCUMENT_BYTES_MAX));
                files.map_err(|error| ApiError::bad_request(chain(&error)).with_cause(error))
            })
            .await?;
        let parameters = json!({ "textDocument": {
            "uri": document.uri,
            "languageId": self.key.language.id(),
            "version": 1,
            "text": String::from_utf8_lossy(&text),
        } });
        connection.tell("textDocument/didOpen", parameters).await
    }

    pub(super) async fn close(&self, machine: &Arc<Machine>, document: &Document) -> Result<()> {
        let connection = self.connection(machine).await?;
        lock(&self.documents).remove(&document.uri);
        let parameters = json!({ "textDocument": { "uri": document.uri } });
        connection.tell("textDocument/didClose", parameters).await
    }
}
