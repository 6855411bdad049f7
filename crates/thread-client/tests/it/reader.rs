//! Readers and everything that is in their way.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holm_thread_client::{
    Client, ClientError, CursorFile, Deadlines, Event, Live, Position, Reader, ReaderOptions,
    Settings,
};
use holm_thread_log::{Ending, StreamName};
use tokio::time::timeout;

use crate::faulty::{Fate, FaultyWay};
use crate::server::{Fault, TestServer, back_off};

const PATIENCE: Duration = Duration::from_secs(30);

fn reader(client: Client, stream: &StreamName, live: Live) -> Reader {
    let options = ReaderOptions {
        live,
        back_off: back_off(),
        ..ReaderOptions::new(stream.clone())
    };
    Reader::new(client, options)
}

/// The next entry, as a number.
async fn number(reader: &mut Reader) -> Option<u64> {
    loop {
        match timeout(PATIENCE, reader.next()).await.unwrap().unwrap() {
            Some(Event::Entry(entry)) => return Some(serde_json::from_slice(&entry.data).unwrap()),
            Some(Event::CaughtUp | Event::Interrupted { .. }) => {}
            None => return None,
        }
    }
}

async fn numbers(reader: &mut Reader, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        numbers.push(number(reader).await.unwrap());
    }
    numbers
}

/// Several entries with several messages each: more than one page.
async fn filled(server: &TestServer, name: &str) -> StreamName {
    let stream = server.create(name).await;
    for first in (0..120).step_by(4) {
        let body = format!("[{first},{},{},{}]", first + 1, first + 2, first + 3);
        server.append(&stream, body.leak()).await;
    }
    stream
}

#[tokio::test]
async fn all_is_read_page_by_page_and_then_followed_to_the_end() {
    for live in [Live::Events, Live::LongPoll] {
        let server = TestServer::start().await;
        let stream = filled(&server, "s").await;
        let mut reader = reader(server.client(), &stream, live);
        assert_eq!(numbers(&mut reader, 120).await, Vec::from_iter(0..120));
        let event = timeout(PATIENCE, reader.next()).await.unwrap().unwrap();
        assert_eq!(event, Some(Event::CaughtUp));
        // Quiet is not the end.
        let quiet = timeout(Duration::from_millis(100), reader.next()).await;
        assert!(quiet.is_err(), "{quiet:?}");
        assert_eq!(reader.ending(), Ending::Open);
        server.append(&stream, "[120,121]").await;
        assert_eq!(numbers(&mut reader, 2).await, [120, 121]);
        server.client().close_stream(&stream).await.unwrap();
        assert_eq!(number(&mut reader).await, None);
        assert_eq!(reader.ending(), Ending::Closed);
        assert_eq!(number(&mut reader).await, None);
    }
}

#[tokio::test]
async fn what_is_there_ends_where_nobody_waits() {
    let server = TestServer::start().await;
    let stream = filled(&server, "s").await;
    let mut reader = reader(server.client(), &stream, Live::No);
    assert_eq!(numbers(&mut reader, 120).await, Vec::from_iter(0..120));
    assert_eq!(number(&mut reader).await, None);
    assert_eq!(reader.ending(), Ending::Open);
}

#[tokio::test]
async fn only_what_is_new() {
    let server = TestServer::start().await;
    let stream = filled(&server, "s").await;
    let options = ReaderOptions {
        from: Position::now(),
        ..ReaderOptions::new(stream.clone())
    };
    let mut reader = Reader::new(server.client(), options);
    let event = timeout(PATIENCE, reader.next()).await.unwrap().unwrap();
    assert_eq!(event, Some(Event::CaughtUp));
    server.append(&stream, "7").await;
    assert_eq!(number(&mut reader).await, Some(7));
}

#[tokio::test]
async fn restarts_of_the_server_are_not_noticed() {
    for live in [Live::Events, Live::LongPoll] {
        let mut server = TestServer::start().await;
        let stream = server.create("s").await;
        let mut reader = reader(server.client(), &stream, live);
        let following = tokio::spawn(async move { numbers(&mut reader, 12).await });
        for round in 0..6 {
            let body = format!("[{},{}]", round * 2, round * 2 + 1);
            server.append(&stream, body.leak()).await;
            server.stop().await;
            tokio::time::sleep(Duration::from_millis(round * 10)).await;
            server.resume().await;
        }
        assert_eq!(following.await.unwrap(), Vec::from_iter(0..12));
    }
}

/// Each connection is cut after some bytes: in headers, pages, events and between them.
#[tokio::test]
async fn a_way_that_cuts_anywhere_loses_and_doubles_nothing() {
    for live in [Live::Events, Live::LongPoll] {
        let server = TestServer::start().await;
        let stream = filled(&server, "s").await;
        let way = FaultyWay::start(server.address, |number| match number % 5 {
            0 => Fate::CutAnswer(number * 11),
            1 => Fate::CutAnswer(200 + number * 17 % 700),
            2 => Fate::Refused,
            3 => Fate::CutRequest(number * 3),
            _ => Fate::Good,
        })
        .await;
        let mut reader = reader(server.client_at(way.address), &stream, live);
        assert_eq!(numbers(&mut reader, 120).await, Vec::from_iter(0..120));
        for first in (120..160).step_by(2) {
            let body = format!("[{first},{}]", first + 1);
            server.append(&stream, body.leak()).await;
            assert_eq!(numbers(&mut reader, 2).await, [first, first + 1]);
        }
    }
}

#[tokio::test]
async fn events_that_do_not_get_through_are_polled_for() {
    let server = TestServer::start().await;
    let stream = filled(&server, "s").await;
    server
        .behaviour
        .without_events
        .store(true, Ordering::SeqCst);
    let mut reader = reader(server.client(), &stream, Live::Events);
    numbers(&mut reader, 120).await;
    let following = tokio::spawn(async move { number(&mut reader).await });
    server.append(&stream, "[120]").await;
    assert_eq!(following.await.unwrap(), Some(120));
    let seen = server.behaviour.seen.lock().unwrap().join("\n");
    assert!(seen.contains("live=long-poll"), "{seen}");
}

#[tokio::test]
async fn events_that_never_come_are_polled_for() {
    let server = TestServer::start().await;
    let stream = filled(&server, "s").await;
    server.behaviour.silent_events.store(true, Ordering::SeqCst);
    let url = format!("http://{}/api", server.address);
    let settings = Settings::new(url, crate::server::TOKEN).with_deadlines(Deadlines {
        // Longer than a long poll of this server lasts.
        silence: Duration::from_millis(600),
        ..Deadlines::default()
    });
    let mut reader = reader(Client::new(settings).unwrap(), &stream, Live::Events);
    numbers(&mut reader, 120).await;
    let following = tokio::spawn(async move { number(&mut reader).await });
    loop {
        let seen = server.behaviour.seen.lock().unwrap().join("\n");
        if seen.contains("live=long-poll") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.append(&stream, "[120]").await;
    assert_eq!(following.await.unwrap(), Some(120));
}

#[tokio::test]
async fn a_position_between_two_offsets_is_found_again() {
    let server = TestServer::start().await;
    let stream = filled(&server, "s").await;
    let folder = tempfile::tempdir().unwrap();
    let cursor = CursorFile::new(folder.path().join("cursor"), stream.clone());
    let mut seen = Vec::new();
    // A new process for each seven entries.
    while seen.len() < 119 {
        let from = cursor.load().unwrap().unwrap_or(Position::start());
        let options = ReaderOptions {
            from,
            ..ReaderOptions::new(stream.clone())
        };
        let mut reader = Reader::new(server.client(), options);
        seen.extend(numbers(&mut reader, 7).await);
        cursor.save(reader.position()).unwrap();
    }
    assert_eq!(seen, Vec::from_iter(0..119));
}

#[tokio::test]
async fn what_stands_is_told_and_what_passes_is_not() {
    let server = TestServer::start().await;
    let stream = filled(&server, "s").await;
    server.fail([
        Fault::Status(503, None),
        Fault::Status(429, None),
        Fault::Status(500, None),
    ]);
    let mut patient = reader(server.client(), &stream, Live::No);
    assert_eq!(numbers(&mut patient, 120).await.len(), 120);
    let missing = "missing".parse().unwrap();
    let mut lost = reader(server.client(), &missing, Live::Events);
    let error = lost.next().await.unwrap_err();
    assert_eq!(error.api().unwrap().status, 404);
}

#[tokio::test]
async fn patience_can_end() {
    let mut server = TestServer::start().await;
    let stream = server.create("s").await;
    server.stop().await;
    let options = ReaderOptions {
        patience: Some(Duration::from_millis(100)),
        back_off: back_off(),
        ..ReaderOptions::new(stream)
    };
    let mut reader = Reader::new(server.client(), options);
    let error = loop {
        match timeout(PATIENCE, reader.next()).await.unwrap() {
            Ok(event) => assert!(
                matches!(event, Some(Event::Interrupted { .. })),
                "{event:?}"
            ),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, ClientError::Unreachable { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_answer_without_end_is_refused() {
    let server = TestServer::start().await;
    let stream = server.create("s").await;
    let large = format!("\"{}\"", "x".repeat(100_000));
    server.append(&stream, large.leak()).await;
    let url = format!("http://{}/api", server.address);
    let mut settings = Settings::new(url, crate::server::TOKEN);
    settings.answer_bytes_max = 50_000;
    let client = Client::new(settings).unwrap();
    let mut reader = reader(client, &stream, Live::Events);
    let error = reader.next().await.unwrap_err();
    assert!(matches!(error, ClientError::TooLarge { .. }), "{error:?}");
}
