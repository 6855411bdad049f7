//! Seed 002's exit handlers: real processes that end, or are asked to, while they have a sandbox.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use holm_sandbox_backends::daytona_provider::{Provider, clean_up_on_exit};
use holm_testserver::{Fault, TestServer};
use rustix::process::Signal;

use super::config_at;
use crate::support::{Child, child_scene, told};

const DEADLINE: Duration = Duration::from_secs(3);
/// Besides the deadline: for a loaded machine.
const SLACK: Duration = Duration::from_secs(20);

/// Not a test: the process that the tests below start. What it does is its scene.
#[test]
#[ignore = "it is the child of other tests"]
fn child() {
    let (scene, folder, _) = child_scene();
    let place = fs::read_to_string(folder.join("server")).unwrap();
    let (url, key) = place.split_once(' ').unwrap();
    let config = config_at(url, key);
    let guard = clean_up_on_exit(DEADLINE).unwrap();
    let runtime = match scene.as_str() {
        "one thread" => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap(),
        _ => tokio::runtime::Runtime::new().unwrap(),
    };
    match scene.as_str() {
        "stays" => runtime.block_on(async {
            told(&ready(&config).await);
            std::future::pending::<()>().await;
        }),
        // The guard goes while the runtime is entered, and nobody but this thread could drive it.
        "one thread" => runtime.block_on(async move {
            told(&ready(&config).await);
            drop(guard);
        }),
        "panics" => runtime.block_on(async {
            told(&ready(&config).await);
            panic!("as was asked for");
        }),
        // Of a start that nobody waits for, its runtime is dropped in the middle.
        "leaves early" => {
            runtime.block_on(async {
                let provider = Provider::shared(config).unwrap();
                let starting = provider.ready();
                drop(tokio::time::timeout(Duration::from_millis(1), starting).await);
            });
            told("left");
            runtime.shutdown_background();
        }
        scene => panic!("{scene}"),
    }
}

async fn ready(config: &holm_sandbox_backends::daytona_provider::ProviderConfig) -> String {
    let provider = Provider::shared(config.clone()).unwrap();
    provider.ready().await.unwrap()
}

/// A process for a scene, whose server is reached at this address.
fn start(server: &TestServer, url: &str, scene: &str) -> (Child, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("{url} {}", server.api_key());
    fs::write(folder.path().join("server"), place).unwrap();
    let test = "kernel::provider::exits::child";
    let child = Child::start(test, scene, folder.path(), folder.path());
    (child, folder)
}

#[test]
fn seed_002_cleanup_on_signals_deletes_the_sandbox_and_the_signal_ends_the_process() {
    let server = TestServer::start();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (mut child, _folder) = start(&server, &server.api_url(), "stays");
        let id = child.hear();
        assert_eq!(server.sandboxes(), [id]);
        child.send(signal);
        assert_eq!(child.ended().signal(), Some(signal.as_raw()));
        assert_eq!(server.sandboxes(), Vec::<String>::new());
    }
}

#[test]
fn seed_002_cleanup_on_exit_deletes_the_sandbox_however_the_process_ends() {
    let server = TestServer::start();
    for (scene, is_success) in [("one thread", true), ("panics", false)] {
        let (mut child, _folder) = start(&server, &server.api_url(), scene);
        child.hear();
        assert_eq!(child.ended().success(), is_success, "{scene}");
        assert_eq!(server.sandboxes(), Vec::<String>::new(), "{scene}");
    }
    let (mut child, _folder) = start(&server, &server.api_url(), "leaves early");
    assert_eq!(child.hear(), "left");
    assert!(child.ended().success());
    assert_eq!(server.sandboxes(), Vec::<String>::new());
}

#[test]
fn seed_002_cleanup_waits_no_longer_for_a_server_that_hangs() {
    let server = TestServer::start();
    let proxy = server.faulty_proxy();
    for signal in [Some(Signal::TERM), None] {
        let scene = signal.map_or("one thread", |_| "stays");
        let (mut child, _folder) = start(&server, &proxy.api_url(), scene);
        proxy.always("DELETE /api/sandbox", Fault::Silence);
        let id = child.hear();
        let began = Instant::now();
        if let Some(signal) = signal {
            child.send(signal);
        }
        let status = child.ended();
        assert!(began.elapsed() < DEADLINE + SLACK, "{:?}", began.elapsed());
        assert_eq!(status.signal(), signal.map(Signal::as_raw));
        // It was asked to, and the server's own clocks do the rest.
        assert!(
            !proxy
                .requests(&format!("DELETE /api/sandbox/{id}"))
                .is_empty()
        );
        assert!(server.sandboxes().contains(&id));
        proxy.heal();
    }
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let server = TestServer::start();
    let proxy = server.faulty_proxy();
    let (mut child, _folder) = start(&server, &proxy.api_url(), "stays");
    proxy.always("DELETE /api/sandbox", Fault::Silence);
    child.hear();
    child.send(Signal::INT);
    while proxy.requests("DELETE /api/sandbox").is_empty() {
        server.block_on(async { tokio::time::sleep(Duration::from_millis(10)).await });
    }
    let began = Instant::now();
    child.send(Signal::TERM);
    assert_eq!(child.ended().signal(), Some(Signal::TERM.as_raw()));
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
}
