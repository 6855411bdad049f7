//! Which stream of the model is which stream of the store.

use std::collections::BTreeMap;

use holm_thread_log::{
    Appended, Decision, Offset, Outcome, Page, Refusal, Segment, StreamId, StreamState,
};

#[derive(Debug, Default)]
pub(crate) struct Pairing {
    ids: BTreeMap<StreamId, StreamId>,
}

impl Pairing {
    /// Both made a stream just now. Later streams have higher ids.
    pub(crate) fn pair(&mut self, model: StreamId, store: StreamId) {
        if let Some((_, last)) = self.ids.last_key_value() {
            assert!(*last < store, "an id was used again: {store}");
        }
        self.ids.insert(model, store);
    }

    pub(crate) fn id(&self, model: StreamId) -> StreamId {
        *self.ids.get(&model).expect("a stream that was made")
    }

    pub(crate) fn offset(&self, model: Offset) -> Offset {
        if model == Offset::START {
            return model;
        }
        Offset::new(self.id(model.writer()), model.position())
    }

    pub(crate) fn stream(&self, model: &StreamState) -> StreamState {
        let mut stream = model.clone();
        stream.id = self.id(stream.id);
        if let Some(origin) = &mut stream.origin {
            origin.source = self.id(origin.source);
            origin.at = self.offset(origin.at);
        }
        stream.inherited = stream
            .inherited
            .into_iter()
            .map(|segment| Segment {
                writer: self.id(segment.writer),
                ..segment
            })
            .collect();
        stream
    }

    pub(crate) fn page(&self, model: Page) -> Page {
        let entries = model.entries.into_iter();
        Page {
            stream: self.stream(&model.stream),
            entries: entries
                .map(|mut entry| {
                    entry.next = self.offset(entry.next);
                    entry
                })
                .collect(),
            body: model.body,
            next: self.offset(model.next),
            freshness: model.freshness,
        }
    }

    /// What the store has to say when the model says this. A stream that was made is paired with the store's.
    pub(crate) fn decision(&mut self, model: Decision, store: &Decision) -> Decision {
        if let (Ok(Outcome::Created(model)), Ok(Outcome::Created(store))) = (&model, store) {
            self.pair(model.id, store.id);
        }
        let appended = |appended: Appended| Appended {
            tail: self.offset(appended.tail),
            ..appended
        };
        match model {
            Ok(Outcome::Created(stream)) => {
                Ok(Outcome::Created(Box::new(self.created(&stream, store))))
            }
            Ok(Outcome::Exists(stream)) => Ok(Outcome::Exists(Box::new(self.stream(&stream)))),
            Ok(Outcome::Appended(done)) => Ok(Outcome::Appended(appended(done))),
            Ok(Outcome::Duplicate(done)) => Ok(Outcome::Duplicate(appended(done))),
            Ok(Outcome::Closed(done)) => Ok(Outcome::Closed(appended(done))),
            Err(Refusal::Closed { tail }) => Err(Refusal::Closed {
                tail: self.offset(tail),
            }),
            same => same,
        }
    }

    fn created(&self, model: &StreamState, store: &Decision) -> StreamState {
        assert!(
            self.ids.contains_key(&model.id),
            "the model made a stream, and the store said {store:?}"
        );
        self.stream(model)
    }
}
