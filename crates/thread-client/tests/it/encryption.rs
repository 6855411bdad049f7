//! Over TLS: with a root of one's own, and with somebody who is not the server.

use std::time::Duration;

use holm_sandbox::Secret;
use holm_testkit::TlsDoor;
use holm_thread_client::{
    Client, ClientError, Event, Live, Producer, ProducerOptions, Prospect, Reader, ReaderOptions,
    Settings,
};
use tokio::time::timeout;

use crate::server::{TOKEN, TestServer, back_off};

const PATIENCE: Duration = Duration::from_secs(30);

fn client(door: &TlsDoor, trusted_pem: &str) -> Client {
    let mut settings = Settings::new(format!("{}/api", door.origin()), Secret::from(TOKEN));
    settings.extra_roots_pem = Some(trusted_pem.to_owned());
    Client::new(settings).unwrap()
}

#[tokio::test]
async fn entries_are_appended_and_followed_over_tls() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let door = TlsDoor::before(server.address);
    let client = client(&door, &door.authority_pem);
    let spool = tempfile::tempdir().unwrap();
    let mut options = ProducerOptions::json(stream.clone(), spool.path().join("spool"));
    options.back_off = back_off();
    let producer = Producer::open(client.clone(), options).await.unwrap();
    for number in 0..20 {
        producer
            .append(vec![number.to_string().into()])
            .await
            .unwrap();
    }
    producer.flush(PATIENCE).await.unwrap();
    assert_eq!(server.numbers(&stream).await, Vec::from_iter(0..20));
    for live in [Live::Events, Live::LongPoll] {
        let options = ReaderOptions {
            live,
            back_off: back_off(),
            ..ReaderOptions::new(stream.clone())
        };
        let mut reader = Reader::new(client.clone(), options);
        let mut numbers: Vec<u64> = Vec::new();
        while numbers.len() < 20 {
            let event = timeout(PATIENCE, reader.next()).await.unwrap().unwrap();
            if let Some(Event::Entry(entry)) = event {
                numbers.push(serde_json::from_slice(&entry.data).unwrap());
            }
        }
        assert_eq!(numbers, Vec::from_iter(0..20));
    }
}

#[tokio::test]
async fn who_is_not_vouched_for_hears_nothing_and_is_named_as_the_reason() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let before = server.behaviour.seen.lock().unwrap().len();
    let door = TlsDoor::before(server.address);
    let other = TlsDoor::before(server.address);
    let client = client(&door, &other.authority_pem);
    let kind = "application/json".parse().unwrap();
    let error = client.append(&stream, &kind, "1".into()).await.unwrap_err();
    assert!(matches!(error, ClientError::Untrusted { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("SSL_CERT_FILE"), "{error:?}");
    // Certificates are renewed: a producer waits with what it has, and says why.
    assert_eq!(error.prospect(), Prospect::MayPass);
    let options = ReaderOptions {
        back_off: back_off(),
        ..ReaderOptions::new(stream)
    };
    let mut reader = Reader::new(client, options);
    let event = timeout(PATIENCE, reader.next()).await.unwrap().unwrap();
    let Some(Event::Interrupted { why }) = event else {
        panic!("{event:?}");
    };
    assert!(why.contains("certificate is not trusted"), "{why}");
    assert_eq!(server.behaviour.seen.lock().unwrap().len(), before);
}

#[tokio::test]
async fn roots_that_are_none_are_refused() {
    let mut settings = Settings::new("https://localhost/api", Secret::from(TOKEN));
    settings.extra_roots_pem = Some("hello".to_owned());
    let error = Client::new(settings).unwrap_err().to_string();
    assert!(error.contains("root certificates"), "{error}");
}
