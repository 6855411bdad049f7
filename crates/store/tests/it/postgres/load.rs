//! Writers that write as fast as they are answered, and what must be true of what they wrote.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use holm_thread_log::{Offset, Outcome, ReadFrom, StreamStore};

use crate::contract::{NOW, append, create, name};

/// What writers were told: where each of their messages lies.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    by_stream: BTreeMap<String, BTreeMap<Offset, String>>,
}

/// Makes these streams.
pub(crate) async fn make(store: &dyn StreamStore, streams: &[&str]) {
    for stream in streams {
        let made = store
            .apply(holm_thread_log::Command::Create(create(stream)), NOW)
            .await
            .unwrap();
        assert!(matches!(made, Ok(Outcome::Created(_))), "{made:?}");
    }
}

/// One writer for each store and stream, all at once. Nothing may fail: writers have neither numbers nor keys, so that one that was
/// told of a failure could not know what to do.
pub(crate) async fn write(stores: &[&dyn StreamStore], streams: &[&str], count: usize) -> Answers {
    let writers = stores.iter().enumerate().flat_map(|(writer, store)| {
        streams.iter().map(move |stream| async move {
            let mut told = Vec::new();
            for number in 0..count {
                let body = format!("writer {writer} message {number}");
                let command = holm_thread_log::Command::Append(append(stream, &body));
                match store.apply(command, NOW).await {
                    Ok(Ok(Outcome::Appended(appended))) => told.push((appended.tail, body)),
                    other => panic!("not appended: {other:?}"),
                }
            }
            ((*stream).to_owned(), told)
        })
    });
    let mut answers = Answers::default();
    for (stream, told) in join_all(writers).await {
        let tails: Vec<Offset> = told.iter().map(|(tail, _)| *tail).collect();
        assert!(
            tails.is_sorted(),
            "a writer's messages are in the order in which it sent them"
        );
        let entries = answers.by_stream.entry(stream).or_default();
        for (tail, body) in told {
            let replaced = entries.insert(tail, body);
            assert_eq!(replaced, None, "two answers with one offset");
        }
    }
    answers
}

impl Answers {
    /// Everything that was acknowledged is there, once, where it was said to be; and nothing else.
    pub(crate) async fn check(self, store: &dyn StreamStore) {
        for (stream, expected) in self.by_stream {
            let page = store
                .read(&name(&stream), ReadFrom::Start, usize::MAX, NOW)
                .await
                .unwrap()
                .unwrap();
            let read: Vec<(Offset, String)> = page
                .entries
                .iter()
                .map(|entry| (entry.next, String::from_utf8(entry.data.to_vec()).unwrap()))
                .collect();
            let texts: BTreeSet<&String> = read.iter().map(|(_, text)| text).collect();
            assert_eq!(texts.len(), read.len(), "something is there twice");
            assert_eq!(read, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
