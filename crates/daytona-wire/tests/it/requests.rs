//! Bodies that the Python SDK 0.226.1 and the TypeScript SDK 0.218.0 sent, taken from recorded traffic.

use std::fmt::Debug;

use holm_daytona_wire::files::{FilesDownloadRequest, ReplaceRequest};
use holm_daytona_wire::git::{
    GitAddRequest, GitBranchRequest, GitCheckoutRequest, GitCloneRequest, GitCommitRequest,
    GitConfigureUserRequest, GitInitRequest, GitPullRequest, GitPushRequest, GitScope,
    GitSetConfigRequest,
};
use holm_daytona_wire::interpreter::{CreateContextRequest, InterpreterRequest};
use holm_daytona_wire::lsp::{LspCompletionParams, LspDocumentRequest, LspServerRequest};
use holm_daytona_wire::process::{CodeRunRequest, ExecuteRequest};
use holm_daytona_wire::pty::PtyResizeRequest;
use holm_daytona_wire::sandbox::{
    CreateSandbox, CreateSandboxSnapshot, ForkSandbox, LANGUAGE_LABEL, ResizeSandbox,
    SandboxLabels, UpdateLastActivity, UpdateNetworkSettings,
};
use holm_daytona_wire::secret::{CreateSecret, UpdateSecret};
use holm_daytona_wire::session::{CreateSessionRequest, SessionExecuteRequest, SessionSendInput};
use holm_daytona_wire::snapshot::CreateSnapshot;
use holm_daytona_wire::system::UpdateEnvRequest;
use holm_daytona_wire::volume::CreateVolume;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads a body; all that it says must still be there when it is written again.
fn read<T: DeserializeOwned + Serialize + Debug>(body: Value) -> T {
    let request: T = serde_json::from_value(body.clone()).unwrap();
    let written = serde_json::to_value(&request).unwrap();
    for (key, value) in body.as_object().unwrap() {
        assert_eq!(written.get(key), Some(value), "{key} of {request:?}");
    }
    request
}

#[test]
fn sandboxes() {
    let plain: CreateSandbox =
        read(json!({"env": {}, "labels": {"code-toolbox-language": "python"}, "volumes": []}));
    assert_eq!(plain.labels[LANGUAGE_LABEL], "python");
    assert_eq!(plain.auto_stop_interval, None);
    let full: CreateSandbox = read(json!({
        "name": "nm", "snapshot": "daytona-medium", "user": "daytona", "env": {"A": "1"},
        "labels": {"l": "v", "code-toolbox-language": "typescript"}, "public": true,
        "networkBlockAll": false, "networkAllowList": "10.0.0.0/8", "autoStopInterval": 30,
        "autoArchiveInterval": 60, "autoDeleteInterval": 0, "volumes": [],
    }));
    assert_eq!(full.auto_delete_interval, Some(0));
    assert_eq!(full.network_block_all, Some(false));
    let image: CreateSandbox = read(json!({
        "buildInfo": {"dockerfileContent": "FROM debian:12\n"}, "env": {},
        "labels": {"code-toolbox-language": "python"}, "cpu": 2, "memory": 4, "disk": 8,
    }));
    assert_eq!(
        image.build_info.unwrap().dockerfile_content,
        "FROM debian:12\n"
    );
    let secret: CreateSandbox = read(json!({
        "secrets": [{"ANTHROPIC_API_KEY": "anthropic"}],
        "volumes": [{"volumeId": "v", "mountPath": "/data", "subpath": "a"}],
    }));
    assert_eq!(secret.secrets[0]["ANTHROPIC_API_KEY"], "anthropic");
    assert_eq!(secret.volumes[0].mount_path, "/data");
}

#[test]
fn changes_of_a_sandbox() {
    read::<SandboxLabels>(json!({"labels": {"x": "y"}}));
    read::<UpdateLastActivity>(json!({}));
    read::<ResizeSandbox>(json!({"cpu": 2, "memory": 2}));
    read::<ForkSandbox>(json!({"name": "fk"}));
    read::<CreateSandboxSnapshot>(json!({"name": "from-sb", "includeMemory": false}));
    let network: UpdateNetworkSettings = read(json!({"networkBlockAll": true}));
    assert_eq!(network.network_allow_list, None);
}

#[test]
fn snapshots_volumes_secrets() {
    let built: CreateSnapshot = read(json!({
        "name": "sn1", "cpu": 1, "memory": 1, "disk": 3,
        "buildInfo": {"dockerfileContent": "FROM python:3.12.10-slim-bookworm\nRUN apt-get update\n"},
    }));
    assert_eq!(built.image_name, None);
    // The TypeScript SDK sends an empty list of contexts, which is none.
    let contexts =
        json!({"name": "a", "buildInfo": {"contextHashes": [], "dockerfileContent": "FROM a\n"}});
    let built: CreateSnapshot = serde_json::from_value(contexts).unwrap();
    assert_eq!(built.build_info.unwrap().context_hashes, [""; 0]);
    read::<CreateSnapshot>(json!({"name": "sn2", "imageName": "debian:12"}));
    read::<CreateVolume>(json!({"name": "v1"}));
    let secret: CreateSecret = read(json!({"name": "s", "value": "hush"}));
    assert_eq!(secret.value.expose(), "hush");
    assert!(!format!("{secret:?}").contains("hush"));
    let update: UpdateSecret = read(json!({"hosts": []}));
    assert_eq!(update.hosts, Some(Vec::new()));
}

#[test]
fn processes() {
    let execute: ExecuteRequest =
        read(json!({"command": "echo hi", "timeout": 5, "cwd": "/tmp", "envs": {"A": "b"}}));
    assert_eq!(execute.timeout, Some(5));
    read::<CodeRunRequest>(
        json!({"code": "print(1)", "language": "python", "argv": ["a"], "timeout": 5}),
    );
    read::<CreateSessionRequest>(json!({"sessionId": "s1"}));
    read::<SessionSendInput>(json!({"data": "hello"}));
    read::<PtyResizeRequest>(json!({"cols": 80, "rows": 24}));
    read::<CreateContextRequest>(json!({}));
    read::<InterpreterRequest>(json!({"code": "print(2)", "timeout": 5}));
    read::<UpdateEnvRequest>(json!({"set": {"Z": "1"}}));
    let is_async = |body| read::<SessionExecuteRequest>(body).is_async();
    assert!(!is_async(json!({"command": "echo out; echo err >&2"})));
    assert!(!is_async(
        json!({"command": "true", "runAsync": false, "timeout": 5})
    ));
    assert!(is_async(json!({"command": "true", "runAsync": true})));
    assert!(is_async(json!({"command": "true", "async": true})));
}

#[test]
fn files() {
    read::<FilesDownloadRequest>(json!({"paths": ["d1/a.txt"]}));
    read::<ReplaceRequest>(json!({"files": ["d1/a.txt"], "newValue": "bye", "pattern": "hello"}));
}

#[test]
fn git() {
    let clone: GitCloneRequest = read(json!({
        "branch": "master", "password": "ghp_x", "path": "repo",
        "url": "https://example.com/octocat/Hello-World.git", "username": "git",
    }));
    assert!(!format!("{clone:?}").contains("ghp_x"));
    read::<GitCloneRequest>(
        json!({"url": "u", "path": "p", "commit_id": "c", "depth": 1, "insecure_skip_tls": true}),
    );
    read::<GitAddRequest>(json!({"files": ["."], "path": "repo"}));
    read::<GitBranchRequest>(json!({"name": "b1", "path": "repo"}));
    read::<GitCheckoutRequest>(json!({"branch": "b1", "path": "repo"}));
    let commit: GitCommitRequest = read(json!({
        "allow_empty": true, "author": "Au", "email": "a@b", "message": "msg", "path": "repo",
    }));
    assert_eq!(commit.allow_empty, Some(true));
    read::<GitPushRequest>(
        json!({"password": "tok", "path": "repo", "set_upstream": false, "username": "git"}),
    );
    read::<GitPullRequest>(json!({"password": "tok", "path": "repo", "username": "git"}));
    read::<GitInitRequest>(json!({"bare": false, "path": "r2"}));
    let config: GitSetConfigRequest =
        read(json!({"key": "user.name", "scope": "global", "value": "X"}));
    assert_eq!(config.scope, Some(GitScope::Global));
    read::<GitConfigureUserRequest>(json!({"email": "e@x", "name": "n", "scope": "global"}));
}

#[test]
fn language_servers() {
    read::<LspServerRequest>(json!({"languageId": "python", "pathToProject": "proj"}));
    read::<LspDocumentRequest>(
        json!({"languageId": "python", "pathToProject": "proj", "uri": "file://proj/a.py"}),
    );
    let completion: LspCompletionParams = read(json!({
        "languageId": "python", "pathToProject": "proj",
        "position": {"character": 2, "line": 1}, "uri": "file://proj/a.py",
    }));
    assert_eq!(completion.position.character, 2);
}

#[test]
fn null_is_missing_and_unknown_is_ignored() {
    let request: CreateSandbox = serde_json::from_value(json!({
        "env": null, "labels": null, "volumes": null, "name": null, "cpu": null, "buildInfo": null,
        "secrets": null, "madeLater": {"a": [1]},
    }))
    .unwrap();
    assert_eq!(request, CreateSandbox::default());
}

#[test]
fn what_has_the_wrong_type_is_refused() {
    for body in [
        json!({"cpu": -1}),
        json!({"cpu": 1.5}),
        json!({"cpu": "2"}),
        json!({"env": {"A": 1}}),
        json!({"labels": []}),
        json!({"name": 7}),
    ] {
        assert!(
            serde_json::from_value::<CreateSandbox>(body.clone()).is_err(),
            "{body}"
        );
    }
}
