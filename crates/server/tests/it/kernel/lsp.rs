//! Language servers in a sandbox, with a small one of our own.

use serde_json::{Value, json};

use super::inside::Tools;

fn python() -> Value {
    json!({ "languageId": "python", "pathToProject": "proj" })
}

fn document(path: &str) -> Value {
    json!({ "languageId": "python", "pathToProject": "proj", "uri": format!("file://{path}") })
}

/// A sandbox with a project and a language server for it.
fn project() -> Tools {
    let tools = Tools::new();
    tools.write("proj/a.py", b"def alpha():\n    pass\n");
    tools.write(
        "proj/b.py",
        b"import a\n\ndef beta(): pass\ndef gamma(): pass\n",
    );
    tools.write(".local/bin/pylsp", include_bytes!("language_server.py"));
    let path = "/files/permissions?path=.local/bin/pylsp&mode=755";
    tools.post(path, json!({})).ok();
    tools
}

fn names(symbols: &Value) -> Vec<&str> {
    let symbols = symbols.as_array().unwrap().iter();
    symbols
        .map(|symbol| symbol["name"].as_str().unwrap())
        .collect()
}

const DOCUMENT_SYMBOLS: &str =
    "/lsp/document-symbols?languageId=python&pathToProject=proj&uri=file://proj/b.py";

fn workspace_symbols(query: &str) -> String {
    format!(
        "/lsp/workspacesymbols?query={query}&languageId=python&pathToProject=/home/daytona/proj/"
    )
}

#[test]
fn a_project_is_asked_about() {
    let tools = project();
    tools.post("/lsp/start", python()).ok();
    // Again, and under another name of the same folder: it runs.
    tools
        .post(
            "/lsp/start",
            json!({ "languageId": "python", "pathToProject": "~/proj" }),
        )
        .ok();
    // As the SDKs write it, and as it is meant.
    tools.post("/lsp/did-open", document("proj/b.py")).ok();
    tools
        .post("/lsp/did-open", document("/home/daytona/proj/a.py"))
        .ok();
    let symbols = tools.get(DOCUMENT_SYMBOLS).ok();
    assert_eq!(names(&symbols), ["beta", "gamma"]);
    assert_eq!(
        symbols[0],
        json!({ "name": "beta", "kind": 12, "location": { "uri": "file:///home/daytona/proj/b.py", "range": {
            "start": { "line": 2, "character": 4 }, "end": { "line": 2, "character": 8 },
        } } })
    );
    assert_eq!(
        names(&tools.get(&workspace_symbols("a")).ok()),
        ["alpha", "beta", "gamma"]
    );
    let mut question = document("proj/a.py");
    question["position"] = json!({ "line": 1, "character": 2 });
    let completions = tools.post("/lsp/completions", question).ok();
    assert_eq!(completions["isIncomplete"], false);
    assert_eq!(completions["items"][0]["label"], "proj:1:2");
    assert_eq!(completions["items"][0]["documentation"]["value"], "help");

    // Opened again, the document is as it is now.
    tools.write("proj/b.py", b"def delta(): pass\n");
    tools.post("/lsp/did-open", document("proj/b.py")).ok();
    assert_eq!(names(&tools.get(DOCUMENT_SYMBOLS).ok()), ["delta"]);
    tools.post("/lsp/did-close", document("proj/b.py")).ok();
    assert_eq!(tools.get(DOCUMENT_SYMBOLS).ok(), json!([]));

    tools.post("/lsp/stop", python()).ok();
    tools.get("/files/info?path=/tmp/said-goodbye").ok();
    assert_eq!(tools.run("pgrep -f pylsp || true"), "");
    let gone = tools.get(DOCUMENT_SYMBOLS);
    assert_eq!(gone.body["code"], "LSP_SERVER_NOT_INITIALIZED");
    gone.refused(400);
}

#[test]
fn a_server_that_crashed_is_started_again_with_its_documents() {
    let tools = project();
    tools.post("/lsp/start", python()).ok();
    tools.post("/lsp/did-open", document("proj/b.py")).ok();
    let crashed = tools.get(&workspace_symbols("CRASH"));
    assert!(crashed.refused(500).contains("the language server ended"));
    assert_eq!(names(&tools.get(DOCUMENT_SYMBOLS).ok()), ["beta", "gamma"]);
    // Nor does nonsense on its streams confuse us.
    tools.get(&workspace_symbols("GARBAGE")).refused(500);
    assert_eq!(names(&tools.get(DOCUMENT_SYMBOLS).ok()), ["beta", "gamma"]);
    for _ in 0..5 {
        tools.get(&workspace_symbols("CRASH")).refused(500);
    }
    let message = tools.get(DOCUMENT_SYMBOLS).refused(500);
    assert!(
        message.contains("crashed 5 times: crashed as it was told"),
        "{message}"
    );
    // Started by a client, it has another chance.
    tools.post("/lsp/start", python()).ok();
    assert_eq!(names(&tools.get(DOCUMENT_SYMBOLS).ok()), ["beta", "gamma"]);
}

/// `pylsp` is one that does not look through a project.
#[test]
fn a_server_that_looks_no_further_is_asked_about_what_is_open() {
    let tools = project();
    tools.write("/tmp/looks-no-further", b"");
    tools.post("/lsp/start", python()).ok();
    let found = tools.get(&workspace_symbols("ALPH"));
    assert_eq!(found.ok(), json!([]));
    tools.post("/lsp/did-open", document("proj/a.py")).ok();
    tools.post("/lsp/did-open", document("proj/b.py")).ok();
    assert_eq!(
        names(&tools.get(&workspace_symbols("ALPH")).ok()),
        ["alpha"]
    );
}

#[test]
fn what_cannot_be_served_says_what_to_do() {
    let tools = Tools::new();
    tools.write("proj/a.ts", b"const a = 1;");
    let typescript = json!({ "languageId": "typescript", "pathToProject": "proj" });
    let message = tools.post("/lsp/start", typescript.clone()).refused(400);
    assert!(message.contains("npm install -g typescript"), "{message}");
    tools.post("/lsp/stop", typescript).refused(400);
    let odd = json!({ "languageId": "cobol", "pathToProject": "proj" });
    assert!(
        tools
            .post("/lsp/start", odd)
            .refused(400)
            .contains("python, typescript, javascript")
    );
    let answer = tools.post("/lsp/did-open", document("proj/a.py"));
    assert_eq!(answer.body["code"], "LSP_SERVER_NOT_INITIALIZED");
    tools
        .post("/lsp/start", json!({ "languageId": "python" }))
        .refused(400);
    let nowhere = json!({ "languageId": "python", "pathToProject": "none" });
    tools.post("/lsp/start", nowhere).refused(400);
}
