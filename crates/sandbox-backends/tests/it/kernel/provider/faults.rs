//! What callers get on bad days, and that no sandbox is left.

use std::path::Path;
use std::time::{Duration, Instant};

use holm_daytona_client::RetryPolicy;
use holm_sandbox_backends::daytona_provider::{
    Provider, ProviderConfig, ProviderError, ShutdownReport,
};
use holm_testserver::TestServer;

use super::faulty::{Fault, Proxy};
use super::{DEADLINE, config_at, file, read, told};

/// Does something with a provider behind a proxy.
fn with_faulty(test: impl AsyncFnOnce(&Provider, &Proxy)) {
    with_faulty_and(|_| {}, test);
}

fn with_faulty_and(
    change: impl FnOnce(&mut ProviderConfig),
    test: impl AsyncFnOnce(&Provider, &Proxy),
) {
    let server = TestServer::start();
    server.block_on(async {
        let proxy = Proxy::start(&server).await;
        let mut config = config_at(&proxy.api_url, server.api_key());
        config.settings.retry = RetryPolicy {
            attempts_max: 2,
            ..RetryPolicy::default()
        };
        change(&mut config);
        let provider = Provider::new(config).unwrap();
        test(&provider, &proxy).await;
        proxy.heal();
        provider.shutdown(DEADLINE).await;
    });
    assert_eq!(server.sandboxes(), Vec::<String>::new());
}

#[test]
fn seed_002_upload_falls_back_when_the_files_api_fails_or_lies() {
    for fault in [Fault::Refused(500), Fault::Refused(404), Fault::Swallowed] {
        with_faulty(async |provider, proxy| {
            provider.upload(&[file("there", "old")]).await.unwrap();
            proxy.fault("bulk-upload", fault);
            let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
            let files = [
                file("deep/bytes", all.clone()),
                file("empty", ""),
                file("there", "new"),
            ];
            provider.upload(&files).await.unwrap();
            assert_eq!(read(provider, "deep/bytes").await, all);
            assert_eq!(read(provider, "empty").await, b"");
            assert_eq!(
                told(provider, "cat there; ls -A . deep | grep holm || true").await,
                "new"
            );
        });
    }
}

#[test]
fn seed_002_download_falls_back_when_the_files_api_fails() {
    with_faulty(async |provider, proxy| {
        let all: Vec<u8> = (0..=255).collect();
        provider
            .upload(&[file("bytes", all.clone())])
            .await
            .unwrap();
        proxy.fault("bulk-download", Fault::Refused(500));
        assert_eq!(read(provider, "bytes").await, all);
        let error = provider.download(Path::new("missing")).await.unwrap_err();
        assert!(
            error.to_string().ends_with("does not exist in the sandbox"),
            "{error}"
        );
    });
}

#[test]
fn seed_002_network_failures_are_told_and_the_next_start_works() {
    with_faulty(async |provider, proxy| {
        proxy.fault("POST /api/sandbox", Fault::Refused(500));
        let error = provider.ready().await.unwrap_err();
        assert!(matches!(error, ProviderError::Start { .. }), "{error:?}");
        proxy.heal();
        provider.ready().await.unwrap();
    });
    let nobody = Provider::new(config_at("http://127.0.0.1:1/api", "some-key-of-mine")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let error = runtime.block_on(nobody.ready()).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("no connection to the server"), "{cause}");
}

#[test]
fn seed_002_a_workspace_that_the_api_does_not_make_is_made_by_a_command() {
    with_faulty(async |provider, proxy| {
        proxy.fault("files/folder", Fault::Refused(500));
        assert_eq!(told(provider, "pwd").await, "/home/daytona/workspace");
    });
}

#[test]
fn seed_002_a_create_whose_answer_is_lost_leaves_one_sandbox() {
    with_faulty(async |provider, proxy| {
        proxy.fault("POST /api/sandbox", Fault::AnswerLost);
        provider.ready().await.unwrap();
        assert_eq!(told(provider, "echo works").await, "works");
    });
}

#[test]
fn seed_002_a_start_that_hangs_ends_at_its_timeout() {
    let short = |config: &mut ProviderConfig| config.start_timeout = Duration::from_secs(2);
    with_faulty_and(short, async |provider, proxy| {
        proxy.fault("user-home-dir", Fault::Silence);
        let error = provider.ready().await.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "it was not ready within 2s");
    });
}

#[test]
fn seed_002_cleanup_waits_no_longer_than_its_deadline() {
    let server = TestServer::start();
    server.block_on(async {
        let proxy = Proxy::start(&server).await;
        let provider = Provider::new(config_at(&proxy.api_url, server.api_key())).unwrap();
        let id = provider.ready().await.unwrap();
        proxy.fault("DELETE /api/sandbox", Fault::Silence);
        let began = Instant::now();
        let report = provider.shutdown(Duration::from_millis(300)).await;
        assert!(began.elapsed() < Duration::from_secs(5));
        let ShutdownReport::LeftBehind { reason, .. } = report else {
            panic!("{report:?}");
        };
        assert_eq!(reason, "it was not deleted within 300ms");
        assert_eq!(server_has(&server).await, vec![id]);
    });
}

/// The ids of the server's sandboxes, from inside of its runtime.
async fn server_has(server: &TestServer) -> Vec<String> {
    let settings = holm_daytona_client::Settings::new(server.api_url(), server.api_key());
    let client = holm_daytona_client::Client::new(settings).unwrap();
    let mut listed = client.list(holm_daytona_client::ListQuery::default());
    let mut ids = Vec::new();
    while let Some(sandbox) = listed.next().await.unwrap() {
        ids.push(sandbox.id);
    }
    ids
}
