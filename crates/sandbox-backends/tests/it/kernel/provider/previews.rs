//! Links to what a command serves.

use std::sync::mpsc::channel;

use holm_sandbox::{Exec, Interrupt};

use holm_daytona_client::wire::sandbox::CreateSandbox;
use holm_daytona_client::{Client, Settings};
use holm_sandbox_backends::daytona_provider::PortWatch;
use holm_testserver::TestServer;

use super::{DEADLINE, with_provider};

#[test]
fn seed_002_preview_link_is_offered_when_a_command_serves_a_port() {
    with_provider(async |provider| {
        let (stop, receiver) = channel();
        let mut links = Vec::new();
        let exec = Exec::new(["python3", "-m", "http.server", "8123"]).interrupts(receiver);
        let mut served = |preview: holm_sandbox_backends::daytona_provider::Preview| {
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
fn ports_of_any_sandbox_can_be_watched() {
    let server = TestServer::start();
    let client = Client::new(Settings::new(server.api_url(), server.api_key())).unwrap();
    server.block_on(async {
        let sandbox = client
            .create_started(CreateSandbox::default(), DEADLINE)
            .await
            .unwrap();
        let toolbox = client.toolbox(&sandbox).await.unwrap();
        let mut ports = Vec::new();
        let mut watch = PortWatch::begin(toolbox.clone()).await;
        let sessions = toolbox.sessions();
        let serving = async {
            sessions.create("s").await.unwrap();
            let echo = holm_daytona_client::InputEcho::Suppressed;
            sessions
                .spawn("s", "python3 -m http.server 8124", echo)
                .await
                .unwrap();
            while !toolbox.ports().await.unwrap().contains(&8124) {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        watch
            .during(serving, &mut |preview| ports.push(preview.port))
            .await;
        assert_eq!(ports, [8124]);
    });
}
