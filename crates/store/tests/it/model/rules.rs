//! Rules that make something follow from entries.

use holm_thread_log::{
    Content, DocumentKey, DocumentWrite, Event, Expect, Judgement, Rules, Standing, StreamName,
    What,
};

/// Streams below `t/` have a row with the number of their messages; the writer `ended` may not write there.
#[derive(Debug)]
pub(crate) struct CountMessages;

impl Rules for CountMessages {
    fn row(&self, stream: &StreamName) -> Option<DocumentKey> {
        let id = stream.as_str().strip_prefix("t/")?;
        Some(DocumentKey {
            collection: "rows".to_owned(),
            id: id.to_owned(),
        })
    }

    fn judge(&self, event: &Event<'_>) -> Judgement {
        if event.writer == Some("ended") {
            return Judgement::Refuse {
                code: "ended",
                message: "the run has ended".to_owned(),
            };
        }
        let added = match event.what {
            What::Created(messages) | What::Appended(messages) => messages.len(),
            What::Heartbeat => 0,
        };
        let before: usize = event.row.map_or(0, |row| {
            std::str::from_utf8(&row.content.body)
                .unwrap()
                .parse()
                .unwrap()
        });
        let count = before + added;
        let parity = if count.is_multiple_of(2) {
            "parity:even"
        } else {
            "parity:odd"
        };
        let key = self.row(&event.stream.name).unwrap();
        Judgement::Accept {
            documents: vec![DocumentWrite {
                key,
                expect: Expect::Anything,
                content: Some(Content {
                    body: count.to_string().into(),
                    terms: vec!["kind:thread".to_owned(), parity.to_owned()],
                }),
            }],
            writer: Standing::Welcome,
        }
    }
}
