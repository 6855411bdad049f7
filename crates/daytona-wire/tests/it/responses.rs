//! Answers have every key that the strict Python SDK 0.226.1 requires, with the types that it accepts.

use holm_daytona_wire::config::DaytonaConfiguration;
use holm_daytona_wire::files::{FileInfo, UploadFilesResponse};
use holm_daytona_wire::interpreter::{InterpreterContext, InterpreterEnd, InterpreterEvent};
use holm_daytona_wire::organization::Organization;
use holm_daytona_wire::pty::{PtyControl, PtyExit, PtySessionInfo};
use holm_daytona_wire::sandbox::{ListSandboxesResponse, Sandbox, SandboxListItem, SandboxState};
use holm_daytona_wire::session::SessionExecuteResponse;
use holm_daytona_wire::snapshot::Snapshot;
use holm_daytona_wire::volume::Volume;
use serde::Serialize;
use serde_json::{Value, json};

#[track_caller]
fn requires<T: Serialize + Default>(keys: &str) {
    let emptiest = serde_json::to_value(T::default()).unwrap();
    for key in keys.split_whitespace() {
        assert!(emptiest.get(key).is_some(), "{key} is not in {emptiest}");
    }
}

#[test]
fn required_keys_are_always_there() {
    requires::<Sandbox>(
        "id organizationId name user env labels public networkBlockAll kvm target cpu gpu memory \
         disk toolboxProxyUrl errorReason",
    );
    requires::<SandboxListItem>(
        "id organizationId name user labels public networkBlockAll target cpu gpu memory disk \
         toolboxProxyUrl errorReason",
    );
    requires::<ListSandboxesResponse>("items nextCursor");
    requires::<Snapshot>(
        "id general name state size entrypoint cpu gpu mem disk errorReason createdAt updatedAt \
         lastUsedAt sourceSandboxId",
    );
    requires::<Volume>("id name organizationId state createdAt updatedAt lastUsedAt errorReason");
    requires::<FileInfo>("name size mode modTime modifiedAt isDir owner group permissions");
    requires::<PtySessionInfo>("id cwd envs cols rows createdAt active lazyStart");
    requires::<InterpreterContext>("id cwd language createdAt active");
    requires::<DaytonaConfiguration>(
        "version oidc linkedAccountsEnabled announcements proxyTemplateUrl proxyToolboxUrl \
         defaultSnapshot dashboardUrl maxAutoArchiveInterval maintananceMode environment",
    );
    requires::<Organization>(
        "id name createdBy personal createdAt updatedAt suspended suspendedAt suspensionReason \
         suspendedUntil suspensionCleanupGracePeriodHours maxCpuPerSandbox maxMemoryPerSandbox \
         maxDiskPerSandbox secretQuota maxSecretsPerSandbox snapshotDeactivationTimeoutMinutes \
         defaultQueueTimeout sandboxLimitedNetworkEgress previewWarningEnabled ssoEnabled \
         scimEnabled authenticatedRateLimit sandboxCreateRateLimit sandboxLifecycleRateLimit \
         experimentalConfig otelConfig authenticatedRateLimitTtlSeconds \
         sandboxCreateRateLimitTtlSeconds sandboxLifecycleRateLimitTtlSeconds",
    );
}

#[test]
fn integers_are_integers_and_maps_are_objects() {
    let sandbox = Sandbox {
        cpu: 2,
        ..Sandbox::default()
    };
    let text = serde_json::to_string(&sandbox).unwrap();
    assert!(text.contains("\"cpu\":2,"), "{text}");
    assert!(text.contains("\"labels\":{}"), "{text}");
    assert!(text.contains("\"env\":{}"), "{text}");
    // Optional texts are left out: a strict client accepts no null where the documents have none.
    assert!(!text.contains("\"snapshot\""), "{text}");
}

#[test]
fn words_of_other_versions_survive() {
    let body = json!({"state": "hibernating", "id": "a"});
    let sandbox: Sandbox = serde_json::from_value(body).unwrap();
    let state = sandbox.state.clone().unwrap();
    assert_eq!(state, SandboxState::Unknown("hibernating".to_owned()));
    assert_eq!(
        serde_json::to_value(&sandbox).unwrap()["state"],
        "hibernating"
    );
    for known in SandboxState::KNOWN {
        assert_eq!(SandboxState::from(known.as_str()), *known);
    }
}

#[test]
fn an_answer_of_execution_says_only_what_is_known() {
    let running = SessionExecuteResponse {
        cmd_id: "c".to_owned(),
        ..SessionExecuteResponse::default()
    };
    assert_eq!(written(&running), json!({"cmdId": "c"}));
}

#[test]
fn frames_are_as_the_sdks_saw_them() {
    assert_eq!(
        written(&PtyControl::connected()),
        json!({"type": "control", "status": "connected"})
    );
    assert_eq!(
        written(&PtyControl::error("no such folder")),
        json!({"type": "control", "status": "error", "error": "no such folder"})
    );
    let exit = PtyExit {
        exit_code: 137,
        exit_reason: None,
    };
    assert_eq!(written(&exit), json!({"exitCode": 137}));
    assert_eq!(
        written(&PtyControl::exited(&exit)),
        json!({"type": "control", "status": "exited", "exitCode": 137})
    );
    let stdout = InterpreterEvent::Stdout {
        text: "2".to_owned(),
    };
    assert_eq!(written(&stdout), json!({"type": "stdout", "text": "2"}));
    let end = InterpreterEvent::Control {
        text: InterpreterEnd::Completed,
    };
    assert_eq!(
        written(&end),
        json!({"type": "control", "text": "completed"})
    );
    let later: InterpreterEvent =
        serde_json::from_value(json!({"type": "display", "data": 1})).unwrap();
    assert_eq!(later, InterpreterEvent::Unknown);
}

#[test]
fn an_upload_without_errors_has_no_errors() {
    assert_eq!(
        written(&UploadFilesResponse::default()),
        json!({"files": []})
    );
}

fn written<T: Serialize>(body: &T) -> Value {
    serde_json::to_value(body).unwrap()
}
