//! Links to what a command serves.

use std::sync::mpsc::channel;

use holm_sandbox::{Exec, Interrupt};

use futures_util::FutureExt as _;
use holm_daytona_client::wire::sandbox::CreateSandbox;
use holm_daytona_client::{Client, Settings, Toolbox};
use holm_sandbox_backends::daytona_provider::{PortWatch, Preview};
use holm_testserver::TestServer;

use super::{DEADLINE, with_provider};

#[test]
fn seed_002_preview_link_is_offered_when_a_command_serves_a_port() {
    with_provider(async |provider| {
        let (stop, receiver) = channel();
        let mut links = Vec::new();
        let exec = Exec::new(["python3", "-m", "http.server", "8123"]).interrupts(receiver);
        let mut served = |preview: Preview| {
            assert!(!format!("{preview:?}").contains("http"));
            links.push((preview.port, preview.link.expose().to_owned()));
            stop.send(Interrupt::Kill).unwrap();
        };
        let outcome = provider.exec_watched(exec, &mut served).await.unwrap();
        assert_eq!(outcome.signal, Some(9), "{outcome:?}");
        assert_eq!(links.len(), 1);
        let (port, link) = &links[0];
        assert_eq!(*port, 8123);
        assert!(link.starts_with("http://8123-"), "{link}");
    });
}

#[test]
fn ports_of_any_sandbox_can_be_watched_and_work_waits_for_no_look() {
    let server = TestServer::start();
    let client = Client::new(Settings::new(server.api_url(), server.api_key())).unwrap();
    server.block_on(async {
        let sandbox = client
            .create_started(CreateSandbox::default(), DEADLINE)
            .await
            .unwrap();
        let toolbox = client.toolbox(&sandbox).await.unwrap();
        let serve = async |port: u16| {
            let (sessions, name) = (toolbox.sessions(), port.to_string());
            sessions.create(&name).await.unwrap();
            let command = format!("python3 -m http.server {port}");
            let echo = holm_daytona_client::InputEcho::Suppressed;
            sessions.spawn(&name, &command, echo).await.unwrap();
            while !toolbox.ports().await.unwrap().contains(&port) {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        serve(8124).await;
        let (told, mut ports) = tokio::sync::mpsc::channel(8);
        let mut tell = |preview: Preview| told.try_send(preview.port).unwrap();
        let work = async {
            serve(8125).await;
            assert_eq!(ports.recv().await, Some(8125), "8124 is nothing new");
        };
        let watch = PortWatch::shared(toolbox.clone());
        watch.during(work, &mut tell).await;
        // In one that is fresh, all is.
        assert_eq!(ports_told(&toolbox, 2).await, [8124, 8125]);
        // Work that is done at once is not held up by a server that does not answer.
        let watch = PortWatch::fresh(toolbox.clone());
        assert_eq!(
            watch.during(async { 3 }, &mut |_| {}).now_or_never(),
            Some(3)
        );
    });
}

/// Watches until that many ports were told.
async fn ports_told(toolbox: &Toolbox, count: usize) -> Vec<u16> {
    let (told, mut ports) = tokio::sync::mpsc::channel(8);
    let mut tell = |preview: Preview| told.try_send(preview.port).unwrap();
    let mut seen = Vec::new();
    let work = async {
        while seen.len() < count {
            seen.extend(ports.recv().await);
        }
    };
    let watch = PortWatch::fresh(toolbox.clone());
    watch.during(work, &mut tell).await;
    seen.sort_unstable();
    seen
}
