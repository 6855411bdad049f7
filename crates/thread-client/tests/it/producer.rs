//! Producers and everything that is in their way.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use holm_sandbox::Secret;
use holm_thread_client::{
    BoxError, Client, Credentials, IfForgotten, Producer, ProducerError, ProducerOptions, Renewal,
    Settings, SpoolError, SpoolLimits, Stopped,
};
use holm_thread_log::StreamName;

use crate::faulty::{Fate, FaultyWay};
use crate::server::{Fault, TOKEN, TestServer, back_off};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn options(stream: &StreamName, spool: &Path) -> ProducerOptions {
    ProducerOptions {
        back_off: back_off(),
        limits: SpoolLimits {
            batch_entries_max: 7,
            ..SpoolLimits::default()
        },
        ..ProducerOptions::json(stream.clone(), spool)
    }
}

pub(crate) fn entries(numbers: impl IntoIterator<Item = u64>) -> Vec<Bytes> {
    let entry = |number: u64| Bytes::from(number.to_string());
    numbers.into_iter().map(entry).collect()
}

fn stopped(result: Result<(), ProducerError>) -> Stopped {
    match result {
        Err(ProducerError::Stopped(stopped)) => stopped,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_accepted_arrives_once_and_in_order() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    assert_eq!(producer.append(entries(0..3)).await.unwrap(), 3);
    assert_eq!(producer.append(entries(3..50)).await.unwrap(), 50);
    producer.flush(PATIENCE).await.unwrap();
    assert_eq!(server.numbers(&stream).await, Vec::from_iter(0..50));
    let progress = producer.progress();
    assert_eq!((progress.accepted, progress.acknowledged), (50, 50));
    assert_eq!(progress.pending_bytes, 0);
}

#[tokio::test]
async fn an_array_stays_one_entry() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    producer.append(vec![Bytes::from("[1,2]")]).await.unwrap();
    producer.flush(PATIENCE).await.unwrap();
    let page = server.client().read_page(&stream, "-1").await.unwrap();
    assert_eq!(page.messages, ["[1,2]"]);
}

#[tokio::test]
async fn an_outage_is_waited_out() {
    let mut server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    server.stop().await;
    producer.append(entries(0..20)).await.unwrap();
    let flushed = producer.flush(Duration::from_millis(200)).await;
    let Err(ProducerError::Unconfirmed { pending, trouble }) = flushed else {
        panic!("{flushed:?}");
    };
    assert_eq!(pending, 20);
    assert!(trouble.unwrap().contains("not reached"));
    server.resume().await;
    producer.flush(PATIENCE).await.unwrap();
    assert_eq!(server.numbers(&stream).await, Vec::from_iter(0..20));
    assert_eq!(producer.progress().trouble, None);
}

#[tokio::test]
async fn what_is_left_is_sent_by_the_next_life() {
    let mut server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    server.stop().await;
    for life in 0..3 {
        let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
        let producer = producer.unwrap();
        assert_eq!(producer.progress().accepted, life * 10);
        producer
            .append(entries(life * 10..life * 10 + 10))
            .await
            .unwrap();
        producer.close().await;
    }
    server.resume().await;
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    producer.flush(PATIENCE).await.unwrap();
    assert_eq!(server.numbers(&stream).await, Vec::from_iter(0..30));
}

/// The server did it, and the answer says otherwise or does not come: over and over, also across lives.
#[tokio::test]
async fn answers_that_get_lost_double_nothing() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    let mut next = 0;
    for _ in 0..6 {
        server.fail([
            Fault::DoneButStatus(502),
            Fault::Status(503, None),
            Fault::DoneButStatus(500),
        ]);
        let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
        let producer = producer.unwrap();
        producer.append(entries(next..next + 3)).await.unwrap();
        next += 3;
        // Some lives end in the middle of it.
        drop(producer.flush(Duration::from_millis(8)).await);
        producer.close().await;
    }
    server.behaviour.faults.lock().unwrap().clear();
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    producer.unwrap().flush(PATIENCE).await.unwrap();
    assert_eq!(server.numbers(&stream).await, Vec::from_iter(0..next));
}

/// The way to the server cuts requests and answers at all kinds of places.
#[tokio::test]
async fn a_way_that_cuts_loses_and_doubles_nothing() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    let way = FaultyWay::start(server.address, |number| match number % 6 {
        0 => Fate::CutAnswer(number * 3),
        1 => Fate::CutRequest(number * 5),
        2 => Fate::Slow(Duration::from_millis(20)),
        3 => Fate::Refused,
        4 => Fate::CutAnswer(150),
        // Carries a few batches, and cuts the answer to one of them.
        _ => Fate::CutAnswer(700),
    })
    .await;
    let client = server.client_at(way.address);
    let producer = Producer::open(client, options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    for first in (0..400).step_by(20) {
        producer.append(entries(first..first + 20)).await.unwrap();
    }
    producer.flush(PATIENCE).await.unwrap();
    assert_eq!(server.numbers(&stream).await, Vec::from_iter(0..400));
}

#[tokio::test]
async fn a_second_producer_takes_over_and_the_first_one_is_told() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = async |folder: &Path| {
        let options = ProducerOptions {
            producer: Some("runner".parse().unwrap()),
            ..options(&stream, folder)
        };
        Producer::open(server.client(), options).await.unwrap()
    };
    let first = open(one.path()).await;
    first.append(entries(0..2)).await.unwrap();
    first.flush(PATIENCE).await.unwrap();
    let second = open(other.path()).await;
    second.append(entries(2..4)).await.unwrap();
    second.flush(PATIENCE).await.unwrap();
    first.append(entries(100..101)).await.unwrap();
    let fenced = stopped(first.flush(PATIENCE).await);
    assert!(matches!(fenced, Stopped::Fenced { .. }), "{fenced:?}");
    assert!(fenced.hint().unwrap().contains("one id"));
    // It takes nothing over any more.
    assert!(first.append(entries(101..102)).await.is_err());
    assert_eq!(server.numbers(&stream).await, Vec::from_iter(0..4));
    // What it has is not lost: it is in doubt, and stays in the spool.
    assert_eq!(first.progress().accepted - first.progress().acknowledged, 1);
}

/// A copy of a spool, such as from a backup, is found out instead of being swallowed as a repetition.
#[tokio::test]
async fn a_copied_spool_swallows_nothing() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = async |folder: &Path| {
        let opened = Producer::open(server.client(), options(&stream, folder)).await;
        opened.unwrap()
    };
    let first = open(one.path()).await;
    first.append(entries(0..1)).await.unwrap();
    first.flush(PATIENCE).await.unwrap();
    std::fs::copy(one.path().join("spool.log"), other.path().join("spool.log")).unwrap();
    let second = open(other.path()).await;
    second.append(entries(1..2)).await.unwrap();
    second.flush(PATIENCE).await.unwrap();
    first.append(entries(2..3)).await.unwrap();
    let fenced = stopped(first.flush(PATIENCE).await);
    assert!(matches!(fenced, Stopped::Fenced { .. }), "{fenced:?}");
    assert_eq!(server.numbers(&stream).await, [0, 1]);
}

#[tokio::test]
async fn a_closed_stream_stops_the_producer_and_repetitions_still_count() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    // Stored, and the answer is lost; then somebody closes the stream.
    server.fail([Fault::DoneButStatus(503), Fault::Status(503, Some(1))]);
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    producer.append(entries(0..1)).await.unwrap();
    while server.numbers(&stream).await.is_empty() {
        tokio::task::yield_now().await;
    }
    let client = server.client();
    while client.close_stream(&stream).await.is_err() {}
    producer.flush(PATIENCE).await.unwrap();
    producer.append(entries(1..2)).await.unwrap();
    let closed = stopped(producer.flush(PATIENCE).await);
    assert!(matches!(closed, Stopped::Closed), "{closed:?}");
    assert_eq!(server.numbers(&stream).await, [0]);
}

#[tokio::test]
async fn a_server_that_forgot_is_noticed() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    producer.append(entries(0..1)).await.unwrap();
    producer.flush(PATIENCE).await.unwrap();
    // As after a restore from yesterday.
    let other = TestServer::start().await;
    other.create("s").await;
    let way = FaultyWay::start(other.address, |_| Fate::Good).await;
    producer.close().await;
    let forgetful = |if_forgotten| ProducerOptions {
        if_forgotten,
        ..options(&stream, folder.path())
    };
    // In doubt on the first server, under number 0 of an epoch; then number 1 is asked of the second.
    let client = server.client();
    let producer = Producer::open(client, forgetful(IfForgotten::Stop))
        .await
        .unwrap();
    producer.append(entries(1..2)).await.unwrap();
    producer.flush(PATIENCE).await.unwrap();
    server.fail([Fault::Status(503, Some(60))]);
    producer.append(entries(2..3)).await.unwrap();
    while producer.progress().trouble.is_none() {
        tokio::task::yield_now().await;
    }
    producer.close().await;
    let client = server.client_at(way.address);
    let producer = Producer::open(client.clone(), forgetful(IfForgotten::Stop)).await;
    let producer = producer.unwrap();
    let forgotten = stopped(producer.flush(PATIENCE).await);
    assert!(
        matches!(
            forgotten,
            Stopped::Forgotten {
                expected: 0,
                next: 1
            }
        ),
        "{forgotten:?}"
    );
    producer.close().await;
    let producer = Producer::open(client, forgetful(IfForgotten::BeginAgain)).await;
    producer.unwrap().flush(PATIENCE).await.unwrap();
    assert_eq!(other.numbers(&stream).await, [2]);
}

#[tokio::test]
async fn a_stream_that_is_missing_is_told() {
    let server = TestServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let stream = "missing".parse().unwrap();
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    producer.append(entries(0..1)).await.unwrap();
    let Stopped::Refused(error) = stopped(producer.flush(PATIENCE).await) else {
        panic!("it has to be refused");
    };
    assert_eq!(error.status, 404);
}

#[tokio::test]
async fn a_busy_server_gets_the_time_that_it_asks_for() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    server.fail([Fault::Status(429, Some(1))]);
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    let before = std::time::Instant::now();
    producer.append(entries(0..1)).await.unwrap();
    producer.flush(PATIENCE).await.unwrap();
    assert!(before.elapsed() >= Duration::from_secs(1));
}

/// Tokens `token-0`, `token-1` and so on.
#[derive(Debug, Default)]
struct Counting {
    number: AtomicU64,
    /// How often getting a new one fails.
    failures: AtomicU64,
}

#[async_trait::async_trait]
impl Credentials for Counting {
    async fn token(&self) -> Result<Secret, BoxError> {
        let number = self.number.load(Ordering::SeqCst);
        Ok(Secret::from(format!("token-{number}")))
    }

    async fn renew(&self) -> Result<Renewal, BoxError> {
        let fails = |left: u64| left.checked_sub(1);
        let order = Ordering::SeqCst;
        if self.failures.fetch_update(order, order, fails).is_ok() {
            return Err("nobody is there".into());
        }
        self.number.fetch_add(1, order);
        Ok(Renewal::Renewed)
    }
}

#[tokio::test]
async fn an_expired_token_is_renewed() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    let credentials = Arc::new(Counting::default());
    credentials.failures.store(2, Ordering::SeqCst);
    let url = format!("http://{}/api", server.address);
    let settings = Settings::new(url, TOKEN).with_credentials(credentials);
    let client = Client::new(settings).unwrap();
    let producer = Producer::open(client, options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    producer.append(entries(0..1)).await.unwrap();
    producer.flush(PATIENCE).await.unwrap();
    *server.behaviour.token.lock().unwrap() = "token-1".to_owned();
    producer.append(entries(1..2)).await.unwrap();
    producer.flush(PATIENCE).await.unwrap();
    assert_eq!(server.numbers(&stream).await, [0, 1]);
}

#[tokio::test]
async fn a_key_that_is_wrong_is_told() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/api", server.address);
    let client = Client::new(Settings::new(url, "wrong")).unwrap();
    let producer = Producer::open(client, options(&stream, folder.path())).await;
    let producer = producer.unwrap();
    producer.append(entries(0..1)).await.unwrap();
    let refused = stopped(producer.flush(PATIENCE).await);
    assert!(
        refused.hint().unwrap().contains("key or token"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_spool_that_is_full_or_used_says_so() {
    let mut server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    server.stop().await;
    let mut options = options(&stream, folder.path());
    options.limits.pending_bytes_max = 60;
    let producer = Producer::open(server.client(), options.clone())
        .await
        .unwrap();
    producer.append(entries(0..4)).await.unwrap();
    let full = producer.append(entries(4..6)).await;
    let Err(ProducerError::Spool(error)) = full else {
        panic!("{full:?}");
    };
    assert!(matches!(*error, SpoolError::Full { .. }), "{error:?}");
    let second = Producer::open(server.client(), options).await;
    let Err(ProducerError::Spool(error)) = second else {
        panic!("it has to be refused");
    };
    assert!(matches!(*error, SpoolError::InUse { .. }), "{error:?}");
}

/// Many callers share the syncs, and each hears of its own entry when it is promised.
#[tokio::test]
async fn many_callers_at_once() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let folder = tempfile::tempdir().unwrap();
    let producer = Producer::open(server.client(), options(&stream, folder.path())).await;
    let producer = Arc::new(producer.unwrap());
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..200 {
        let producer = Arc::clone(&producer);
        callers.spawn(async move { producer.append(entries([number])).await.unwrap() });
    }
    let mut counts = callers.join_all().await;
    counts.sort_unstable();
    assert_eq!(counts, Vec::from_iter(1..=200));
    producer.flush(PATIENCE).await.unwrap();
    let mut stored = server.numbers(&stream).await;
    stored.sort_unstable();
    assert_eq!(stored, Vec::from_iter(0..200));
}
