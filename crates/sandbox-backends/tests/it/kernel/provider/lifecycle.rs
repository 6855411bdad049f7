//! One sandbox: made once, ended once, whoever asks and whenever.

use std::time::Duration;

use holm_daytona_client::{Client, Settings, StopManner};
use holm_sandbox_backends::daytona_provider::{
    Provider, ProviderError, ShutdownReport, shutdown_all,
};
use holm_testserver::TestServer;

use super::{DEADLINE, config_of, file, read, told, with_provider};

#[test]
fn seed_002_singleton_two_tasks_at_once_get_one_sandbox() {
    let server = TestServer::start();
    server.block_on(async {
        let ask = || {
            let config = config_of(&server);
            tokio::spawn(async move { Provider::shared(config).unwrap().ready().await.unwrap() })
        };
        let (first, second, third) = (ask(), ask(), ask());
        let first = first.await.unwrap();
        assert_eq!(second.await.unwrap(), first);
        assert_eq!(third.await.unwrap(), first);

        let mut other = config_of(&server);
        other.auto_stop_minutes = 7;
        let other = Provider::shared(other).unwrap();
        assert_ne!(other.ready().await.unwrap(), first);
        assert_eq!(shutdown_all(DEADLINE).await.len(), 2);

        // A provider that was shut down is not given out again.
        let config = config_of(&server);
        let again = Provider::shared(config).unwrap();
        assert_ne!(again.ready().await.unwrap(), first);
        shutdown_all(DEADLINE).await;
    });
    assert_eq!(server.sandboxes(), Vec::<String>::new());
}

#[test]
fn seed_002_initialisation_sets_auto_stop_roots_and_workspace() {
    let server = TestServer::start();
    let client = Client::new(Settings::new(server.api_url(), server.api_key())).unwrap();
    for (minutes, expected) in [(30, Some(30)), (0, Some(0))] {
        let mut config = config_of(&server);
        config.auto_stop_minutes = minutes;
        server.block_on(async {
            let provider = Provider::new(config).unwrap();
            let id = provider.ready().await.unwrap();
            let sandbox = client.get(&id).await.unwrap();
            assert_eq!(sandbox.auto_stop_interval, expected);
            assert_eq!(sandbox.labels.get("holm.provider").unwrap(), "shared");
            assert_eq!(told(&provider, "pwd").await, "/home/daytona/workspace");
            provider.shutdown(DEADLINE).await;
        });
    }
}

#[test]
fn seed_002_initialisation_ends_at_its_timeout_and_leaves_nothing() {
    let server = TestServer::start();
    server.block_on(async {
        let mut config = config_of(&server);
        config.start_timeout = Duration::from_millis(1);
        let provider = Provider::new(config).unwrap();
        let error = provider.ready().await.unwrap_err();
        let ProviderError::Start { source } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(source.to_string(), "it was not ready within 1ms");
    });
    assert_eq!(server.sandboxes(), Vec::<String>::new());
}

#[test]
fn seed_002_cleanup_removes_the_sandbox_and_is_idempotent() {
    let server = TestServer::start();
    server.block_on(async {
        let provider = Provider::new(config_of(&server)).unwrap();
        let id = provider.ready().await.unwrap();
        let (first, second) =
            tokio::join!(provider.shutdown(DEADLINE), provider.shutdown(DEADLINE));
        assert_eq!(first, ShutdownReport::Deleted { sandbox: id });
        assert_eq!(second, first);
        let error = provider.ready().await.unwrap_err();
        assert!(matches!(error, ProviderError::Closed), "{error:?}");
        let unused = Provider::new(config_of(&server)).unwrap();
        assert_eq!(unused.shutdown(DEADLINE).await, ShutdownReport::NothingToDo);
    });
    assert_eq!(server.sandboxes(), Vec::<String>::new());
}

#[test]
fn seed_002_cleanup_ends_a_start_that_is_under_way() {
    let server = TestServer::start();
    server.block_on(async {
        let provider = Provider::new(config_of(&server)).unwrap();
        let starting = {
            let provider = provider.clone();
            tokio::spawn(async move { provider.ready().await })
        };
        tokio::task::yield_now().await;
        let report = provider.shutdown(DEADLINE).await;
        assert!(
            !matches!(report, ShutdownReport::LeftBehind { .. }),
            "{report:?}"
        );
        assert!(matches!(
            starting.await.unwrap(),
            Err(ProviderError::Closed)
        ));
    });
    assert_eq!(server.sandboxes(), Vec::<String>::new());
}

#[test]
fn a_caller_that_goes_away_stops_the_start_for_nobody() {
    with_provider(async |provider| {
        let gone = tokio::time::timeout(Duration::from_millis(1), provider.ready()).await;
        assert!(gone.is_err());
        provider.ready().await.unwrap();
    });
}

#[test]
fn a_sandbox_that_was_stopped_is_started_again_with_its_files() {
    let server = TestServer::start();
    let client = Client::new(Settings::new(server.api_url(), server.api_key())).unwrap();
    server.block_on(async {
        let provider = Provider::new(config_of(&server)).unwrap();
        provider.upload(&[file("kept.txt", "kept")]).await.unwrap();
        let id = provider.ready().await.unwrap();
        let stopped = client.stop_and_wait(&id, StopManner::Force, DEADLINE).await;
        assert!(stopped.unwrap().is_some());
        assert_eq!(told(&provider, "cat kept.txt").await, "kept");

        client
            .stop_and_wait(&id, StopManner::Force, DEADLINE)
            .await
            .unwrap();
        assert_eq!(read(&provider, "kept.txt").await, b"kept");

        client.delete(&id).await.unwrap();
        client.wait_until_gone(&id, DEADLINE).await.unwrap();
        let error = provider.upload(&[file("x", "x")]).await.unwrap_err();
        assert!(matches!(error, ProviderError::Gone { .. }), "{error:?}");
        // What is gone already is as good as deleted.
        let report = provider.shutdown(DEADLINE).await;
        assert_eq!(report, ShutdownReport::Deleted { sandbox: id });
    });
}
