//! Seed 002's provider over a real `holm serve`, and over one that something is wrong with.

mod commands;
mod exits;
mod faults;
mod faulty;
mod files;
mod lifecycle;
mod patches;
mod previews;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use holm_sandbox::{Exec, ExecOutcome, FileUpload};
use holm_sandbox_backends::daytona_provider::{
    LocalRoot, Provider, ProviderConfig, ShutdownReport,
};
use holm_testserver::TestServer;

const DEADLINE: Duration = Duration::from_secs(20);

fn config_of(server: &TestServer) -> ProviderConfig {
    config_at(&server.api_url(), server.api_key())
}

fn config_at(api_url: &str, api_key: &str) -> ProviderConfig {
    let settings = holm_daytona_client::Settings::new(api_url, api_key);
    let mut config = ProviderConfig::new(settings);
    config.local_roots.push(LocalRoot {
        local: "/src/app".into(),
        remote: "".into(),
    });
    config
}

/// Does something with a provider, shuts it down, and sees that no sandbox is left.
fn with_provider(test: impl AsyncFnOnce(&Provider)) {
    let server = TestServer::start();
    server.block_on(async {
        let provider = Provider::new(config_of(&server)).unwrap();
        test(&provider).await;
        let report = provider.shutdown(DEADLINE).await;
        assert!(
            matches!(report, ShutdownReport::Deleted { .. }),
            "{report:?}"
        );
    });
    assert_eq!(server.sandboxes(), Vec::<String>::new());
}

async fn sh(provider: &Provider, script: &str) -> ExecOutcome {
    provider
        .exec(Exec::new(["sh", "-c", script]))
        .await
        .unwrap()
}

/// What a script prints, without the last newline.
async fn told(provider: &Provider, script: &str) -> String {
    let outcome = sh(provider, script).await;
    assert!(outcome.success(), "{outcome:?}");
    outcome.stdout_text().trim_end().to_owned()
}

fn file(path: &str, content: impl Into<Vec<u8>>) -> FileUpload {
    FileUpload {
        path: path.into(),
        content: content.into(),
    }
}

async fn read(provider: &Provider, path: &str) -> Vec<u8> {
    provider.download(Path::new(path)).await.unwrap()
}

fn argv<const N: usize>(words: [&str; N]) -> Exec {
    Exec::new(words.map(OsString::from))
}
