//! A store and the model, side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use holm_thread_log::{
    Command, Decision, Document, DocumentKey, DocumentQuery, MemoryStore, Offset, Order, Outcome,
    Page, ReadFrom, Seen, StreamId, StreamName, StreamState, StreamStore, Timestamp,
};

use super::steps::{Sketch, Step};
use super::{CountMessages, CrashAt, Pairing, Subject};

#[derive(Debug)]
pub(crate) struct Harness<S> {
    runtime: tokio::runtime::Runtime,
    subject: S,
    model: MemoryStore,
    pairing: Pairing,
    now: Timestamp,
    /// Offsets that were seen, as the model has them.
    seen: Vec<Offset>,
    /// How many requests were acknowledged as appended, for streams that are no forks.
    acknowledged: BTreeMap<StreamId, u64>,
}

impl<S: Subject> Harness<S> {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let subject = runtime.block_on(async { S::start(Arc::new(CountMessages)) });
        Self {
            runtime,
            subject,
            model: MemoryStore::new(Arc::new(CountMessages)),
            pairing: Pairing::default(),
            now: Timestamp(0),
            seen: Vec::new(),
            acknowledged: BTreeMap::new(),
        }
    }

    pub(crate) fn step(mut self, step: Step) -> Self {
        match step {
            Step::Send(sketches) => self.send(&sketches),
            Step::Crash(at, sketch) => return self.crash(at, &sketch),
            Step::Reopen => return self.reopen(),
            Step::Wait { milliseconds } => self.now.0 += milliseconds,
            Step::Sweep => self.sweep(),
        }
        self
    }

    fn send(&mut self, sketches: &[Sketch]) {
        let seen = self.seen.clone();
        let theirs: Vec<Offset> = seen.iter().map(|at| self.pairing.offset(*at)).collect();
        let now = self.now;
        let store = self.subject.store();
        let sent = sketches
            .iter()
            .map(|sketch| store.apply(sketch.command(&theirs), now));
        let answers = self.runtime.block_on(join_all(sent));
        for (sketch, answer) in sketches.iter().zip(answers) {
            self.expect(sketch.command(&seen), answer.unwrap());
        }
    }

    /// The model says what the answer has to be.
    fn expect(&mut self, command: Command, answer: Decision) {
        let expected = self
            .runtime
            .block_on(self.model.apply(command.clone(), self.now))
            .unwrap();
        self.note(&expected);
        let expected = self.pairing.decision(expected, &answer);
        assert_eq!(answer, expected, "{command:?}");
    }

    fn note(&mut self, decision: &Decision) {
        match decision {
            Ok(Outcome::Created(stream)) => {
                self.seen.push(stream.tail());
                let is_fork = stream.origin.is_some();
                if !is_fork {
                    self.acknowledged.insert(stream.id, stream.tail_position);
                }
            }
            Ok(Outcome::Appended(appended)) => {
                self.seen.push(appended.tail);
                if let Some(count) = self.acknowledged.get_mut(&appended.tail.writer()) {
                    *count += 1;
                }
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn crash(mut self, at: CrashAt, sketch: &Sketch) -> Self {
        let seen = self.seen.clone();
        let theirs: Vec<Offset> = seen.iter().map(|at| self.pairing.offset(*at)).collect();
        self.subject.crash_next(at);
        let sent = self
            .subject
            .store()
            .apply(sketch.command(&theirs), self.now);
        match self.runtime.block_on(sent) {
            // It changed nothing, so nothing was committed.
            Ok(answer) => self.expect(sketch.command(&seen), answer),
            Err(holm_thread_log::StoreError::Stopped) => match at {
                CrashAt::BeforeCommit => {}
                CrashAt::BetweenCommitAndWake | CrashAt::BetweenWakeAndAnswer => {
                    self.happened(sketch.command(&seen));
                }
            },
            Err(other) => panic!("{other:?}"),
        }
        self = self.reopen();
        self.assert_same();
        // As a client does that has not heard of its command.
        self.send(std::slice::from_ref(sketch));
        self
    }

    /// Nobody was told, and it is there.
    fn happened(&mut self, command: Command) {
        let name = match &command {
            Command::Create(create) => Some(create.name.clone()),
            Command::Append(_)
            | Command::Delete { .. }
            | Command::Touch { .. }
            | Command::Expire { .. }
            | Command::Write { .. } => None,
        };
        let decision = self
            .runtime
            .block_on(self.model.apply(command, self.now))
            .unwrap();
        self.note(&decision);
        if let (Ok(Outcome::Created(stream)), Some(name)) = (decision, name) {
            // Its id is found by its name, at a time at which its own is not over.
            let head = self.subject.store().head(&name, Timestamp(i64::MIN));
            let found = self.runtime.block_on(head).unwrap().unwrap();
            self.pairing.pair(stream.id, found.id);
        }
    }

    fn reopen(self) -> Self {
        let Self {
            runtime, subject, ..
        } = self;
        let subject = runtime.block_on(async { subject.reopen() });
        Self {
            runtime,
            subject,
            ..self
        }
    }

    fn sweep(&mut self) {
        let overdue = self.overdue();
        for name in overdue {
            let command = Command::Expire { name };
            let sketch = Sketch { command, at: None };
            self.send(&[sketch]);
        }
    }

    fn overdue(&self) -> Vec<StreamName> {
        self.both(async |store| store.overdue(self.now, 100).await.unwrap())
    }

    /// Asks both, and says what they agree on.
    fn both<T: PartialEq + std::fmt::Debug>(&self, ask: impl AsyncFn(&dyn StreamStore) -> T) -> T {
        let model = self.runtime.block_on(ask(&self.model));
        let store = self.runtime.block_on(ask(self.subject.store()));
        assert_eq!(store, model);
        store
    }

    /// Everything that can be read.
    pub(crate) fn assert_same(&self) {
        self.overdue();
        let model = self.list(&self.model);
        let expected: Vec<_> = model.iter().map(|one| self.pairing.stream(one)).collect();
        assert_eq!(self.list(self.subject.store()), expected);
        for prefix in ["t/", "t/b", "zz"] {
            let names = |streams: Vec<StreamState>| -> Vec<_> {
                streams.into_iter().map(|one| one.name).collect()
            };
            self.both(async |store| names(store.list(prefix, None, 2, self.now).await.unwrap()));
        }
        for name in ["a", "b", "t/a", "t/b", "t/c"] {
            self.assert_same_entries(&name.parse().unwrap());
        }
        for stream in model {
            if let Some(count) = self.acknowledged.get(&stream.id) {
                assert_eq!(stream.tail_position, *count, "{stream:?}");
            }
        }
        self.assert_same_documents();
    }

    fn list(&self, store: &dyn StreamStore) -> Vec<StreamState> {
        self.runtime
            .block_on(store.list("", None, 100, self.now))
            .unwrap()
    }

    fn assert_same_entries(&self, name: &StreamName) {
        let mut from = vec![ReadFrom::Start, ReadFrom::Now];
        from.extend(self.seen.iter().rev().take(3).map(|at| ReadFrom::At(*at)));
        for from in from {
            let mut next = from;
            loop {
                let page = self.read(&self.model, name, next);
                let theirs = match next {
                    ReadFrom::At(at) => ReadFrom::At(self.pairing.offset(at)),
                    ReadFrom::Start | ReadFrom::Now => next,
                };
                let read = self.read(self.subject.store(), name, theirs);
                let expected = page.clone().map(|page| self.pairing.page(page));
                assert_eq!(read, expected, "{name} from {from:?}");
                match page {
                    Ok(page) if !page.entries.is_empty() => next = ReadFrom::At(page.next),
                    Ok(_) | Err(_) => break,
                }
            }
        }
    }

    fn read(&self, store: &dyn StreamStore, name: &StreamName, from: ReadFrom) -> Seen<Page> {
        self.runtime
            .block_on(store.read(name, from, 16, self.now))
            .unwrap()
    }

    fn assert_same_documents(&self) {
        let queries = [
            (vec![], Order::Ascending, None),
            (vec!["x"], Order::Descending, None),
            (vec!["x", "y"], Order::Ascending, Some("m")),
            (vec!["parity:odd"], Order::Descending, Some("c")),
        ];
        for (terms, order, after) in queries {
            for collection in ["notes", "rows"] {
                let query = DocumentQuery {
                    collection: collection.to_owned(),
                    terms: terms.iter().map(|term| (*term).to_owned()).collect(),
                    order,
                    after: after.map(str::to_owned),
                    limit: 2,
                };
                let found: Vec<(DocumentKey, Document)> =
                    self.both(async |store| store.documents(&query).await.unwrap());
                for (key, _) in found {
                    self.both(async |store| store.document(&key).await.unwrap());
                }
            }
        }
    }
}
