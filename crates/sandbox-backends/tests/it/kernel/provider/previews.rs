//! Links to what a command serves.

use std::sync::mpsc::channel;

use holm_sandbox::{Exec, Interrupt};

use super::with_provider;

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
