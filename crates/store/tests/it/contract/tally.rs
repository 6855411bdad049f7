//! Rules for tests: a row that counts the messages of streams whose names begin with `tally/`.

use bytes::Bytes;
use holm_thread_log::{
    Content, DocumentKey, DocumentWrite, Event, Expect, Judgement, Rules, Standing, StreamName,
    What,
};

#[derive(Debug)]
pub(crate) struct Tally;

pub(crate) fn row_of(stream: &StreamName) -> Option<DocumentKey> {
    let id = stream.as_str().strip_prefix("tally/")?;
    Some(DocumentKey {
        collection: "tallies".to_owned(),
        id: id.to_owned(),
    })
}

impl Rules for Tally {
    fn row(&self, stream: &StreamName) -> Option<DocumentKey> {
        row_of(stream)
    }

    /// A writer called `stranger` is refused.
    fn judge(&self, event: &Event<'_>) -> Judgement {
        if event.writer == Some("stranger") {
            return Judgement::Refuse {
                code: "stranger",
                message: "strangers may not write".to_owned(),
            };
        }
        let count = match event.what {
            What::Created(messages) | What::Appended(messages) => messages.len(),
            What::Heartbeat => 0,
        };
        let before: usize = event.row.map_or(0, |row| {
            std::str::from_utf8(&row.content.body)
                .unwrap()
                .parse()
                .unwrap()
        });
        let after = before + count;
        let parity = if after.is_multiple_of(2) {
            "even"
        } else {
            "odd"
        };
        let write = DocumentWrite {
            key: row_of(&event.stream.name).unwrap(),
            expect: Expect::Anything,
            content: Some(Content {
                body: Bytes::from(after.to_string()),
                terms: vec!["all".to_owned(), parity.to_owned()],
            }),
        };
        Judgement::Accept {
            documents: vec![write],
            writer: Standing::Welcome,
        }
    }
}
