//! A sandbox from its making to its end.

use std::time::Duration;

use holm_daytona_client::wire::StringMap;
use holm_daytona_client::wire::error::{ErrorCode, ErrorSource};
use holm_daytona_client::wire::process::ExecuteRequest;
use holm_daytona_client::wire::sandbox::{CreateSandbox, SandboxState, UpdateNetworkSettings};
use holm_daytona_client::{Deletion, ListQuery, PreparedCreate, StopManner};
use holm_testserver::TestServer;

use super::{PATIENCE, client_of, started};

#[test]
fn a_sandbox_is_made_stopped_started_archived_and_deleted() {
    let server = TestServer::start();
    let client = client_of(&server);
    server.block_on(async {
        let made = started(&client).await;
        assert_eq!(made.state, Some(SandboxState::Started));
        let id = made.id.as_str();
        let stopped = client
            .stop_and_wait(id, StopManner::Graceful, PATIENCE)
            .await;
        let stopped = stopped.unwrap().unwrap();
        assert_eq!(stopped.state, Some(SandboxState::Stopped));
        client.archive(id).await.unwrap();
        client.wait_until_archived(id, PATIENCE).await.unwrap();
        let again = client.start_and_wait(id, PATIENCE).await.unwrap();
        assert_eq!(again.state, Some(SandboxState::Started));
        let toolbox = client.toolbox(&again).await.unwrap();
        assert_eq!(toolbox.home_dir().await.unwrap(), "/home/daytona");
        assert_eq!(client.delete(id).await.unwrap(), Deletion::Accepted);
        client.wait_until_gone(id, PATIENCE).await.unwrap();
        assert_eq!(client.delete(id).await.unwrap(), Deletion::AlreadyGone);
        assert_eq!(client.find(id).await.unwrap(), None);
    });
    assert_eq!(server.sandboxes(), [""; 0]);
}

#[test]
fn an_ephemeral_sandbox_is_gone_when_it_stops() {
    let server = TestServer::start();
    let client = client_of(&server);
    server.block_on(async {
        let request = CreateSandbox {
            auto_stop_interval: Some(30),
            auto_delete_interval: Some(0),
            ..CreateSandbox::default()
        };
        let made = client.create_started(request, PATIENCE).await.unwrap();
        let stopped = client.stop_and_wait(&made.id, StopManner::Force, PATIENCE);
        let last = stopped.await.unwrap();
        assert!(last.is_none_or(|last| last.state == Some(SandboxState::Destroyed)));
    });
    assert_eq!(server.sandboxes(), [""; 0]);
}

#[test]
fn settings_of_a_sandbox_are_changed() {
    let server = TestServer::start();
    let client = client_of(&server);
    server.block_on(async {
        let id = started(&client).await.id;
        let labels = StringMap::from([("holm.run".to_owned(), "7".to_owned())]);
        let kept = client.set_labels(&id, labels.clone()).await.unwrap();
        assert_eq!(kept, labels);
        client.set_auto_stop(&id, 7).await.unwrap();
        client.set_auto_archive(&id, 8).await.unwrap();
        client.set_auto_delete(&id, None).await.unwrap();
        client.refresh_activity(&id).await.unwrap();
        let network = UpdateNetworkSettings {
            network_block_all: Some(true),
            ..UpdateNetworkSettings::default()
        };
        client.set_network(&id, &network).await.unwrap();
        let seen = client.get(&id).await.unwrap();
        assert_eq!(seen.labels, labels);
        assert_eq!(seen.auto_stop_interval, Some(7));
        assert_eq!(seen.auto_archive_interval, Some(8));
        assert_eq!(seen.auto_delete_interval, Some(-1));
        assert!(seen.network_block_all);
        let link = client.preview_link(&id, 3000).await.unwrap();
        assert!(link.url.contains("3000"), "{}", link.url);
        let lasts = Duration::from_secs(60);
        let signed = client.signed_preview_link(&id, 3000, lasts).await.unwrap();
        assert!(signed.url.expose().contains(signed.token.expose()));
        client
            .expire_signed_preview_link(&id, &signed)
            .await
            .unwrap();
    });
}

#[test]
fn sandboxes_are_listed_by_pages_and_by_labels() {
    let server = TestServer::start();
    let client = client_of(&server);
    server.block_on(async {
        let mut made = Vec::new();
        for run in ["1", "2", "2"] {
            let request = CreateSandbox {
                labels: StringMap::from([("holm.run".to_owned(), run.to_owned())]),
                ..CreateSandbox::default()
            };
            made.push(client.create_started(request, PATIENCE).await.unwrap().id);
        }
        let query = ListQuery {
            page_size: Some(1),
            ..ListQuery::default()
        };
        let mut all: Vec<String> = Vec::new();
        let mut listed = client.list(query);
        while let Some(sandbox) = listed.next().await.unwrap() {
            all.push(sandbox.id);
        }
        all.sort_unstable();
        made.sort_unstable();
        assert_eq!(all, made);
        let query = ListQuery {
            labels: StringMap::from([("holm.run".to_owned(), "2".to_owned())]),
            ..ListQuery::default()
        };
        assert_eq!(client.list(query).all(10).await.unwrap().len(), 2);
    });
}

#[test]
fn what_was_prepared_is_found_again_and_made_once() {
    let server = TestServer::start();
    let client = client_of(&server);
    server.block_on(async {
        let prepared = PreparedCreate::new(CreateSandbox::default());
        let made = client.create_prepared(&prepared).await.unwrap();
        let found = client.find_prepared(&prepared).await.unwrap().unwrap();
        assert_eq!(found.id, made.id);
        // The same name under another request is a conflict, and not ours.
        let other = PreparedCreate::new(CreateSandbox {
            name: Some(prepared.name().to_owned()),
            ..CreateSandbox::default()
        });
        let error = client.create_prepared(&other).await.unwrap_err();
        assert!(error.is_conflict(), "{error:?}");
        assert_eq!(client.find_prepared(&other).await.unwrap(), None);
        client.discard_prepared(&prepared).await.unwrap();
        client.wait_until_gone(&made.id, PATIENCE).await.unwrap();
    });
}

#[test]
fn errors_are_told_apart() {
    let server = TestServer::start();
    let client = client_of(&server);
    server.block_on(async {
        let error = client.get("nobody").await.unwrap_err();
        assert!(error.is_not_found());
        let api = error.api().unwrap();
        assert_eq!(api.origin, Some(ErrorSource::Api));
        let unknown = CreateSandbox {
            snapshot: Some("no-such-snapshot".to_owned()),
            ..CreateSandbox::default()
        };
        let error = client.create(unknown).await.unwrap_err();
        assert_eq!(error.status(), Some(400));
        assert!(error.to_string().contains("no-such-snapshot"), "{error}");
        let sandbox = started(&client).await;
        let toolbox = client.toolbox(&sandbox).await.unwrap();
        let slow = ExecuteRequest {
            command: "sleep 60".to_owned(),
            timeout: Some(1),
            ..ExecuteRequest::default()
        };
        let error = toolbox.process().execute(&slow).await.unwrap_err();
        assert!(error.is_timeout());
        assert!(
            error.has_code(&ErrorCode::ProcessExecutionTimeout),
            "{error:?}"
        );
        let settings = holm_daytona_client::Settings::new(server.api_url(), "dtn_wrong");
        let stranger = holm_daytona_client::Client::new(settings).unwrap();
        let error = stranger.get(&sandbox.id).await.unwrap_err();
        assert!(error.is_unauthorized(), "{error:?}");
        let snapshots = client.snapshots(1, 10).await.unwrap();
        let first = snapshots
            .items
            .first()
            .map(|snapshot| snapshot.name.clone());
        if let Some(name) = first {
            assert_eq!(client.snapshot(&name).await.unwrap().name, name);
        }
    });
}
