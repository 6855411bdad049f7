//! Deleting: at once without forks, and when the last fork is gone otherwise.

use super::{Draft, Found, Step};
use crate::command::{Outcome, Refusal};
use crate::facts::Known;
use crate::name::StreamName;
use crate::state::{Existence, StreamState};

impl Draft<'_> {
    pub(super) fn delete(&mut self, name: &StreamName) -> Step<Outcome> {
        match self.find(name)? {
            Found::Missing => Err(Refusal::NotFound.into()),
            Found::Gone => Err(Refusal::Gone.into()),
            Found::Live(stream) => {
                self.bury(*stream)?;
                Ok(Outcome::Deleted)
            }
        }
    }

    /// Takes a stream away from clients, and out of the database if no fork reads it.
    pub(super) fn bury(&mut self, mut stream: StreamState) -> Known<()> {
        self.wake(&stream);
        if let Some(row) = self.rules.row(&stream.name) {
            self.changes.documents.insert(row, None);
        }
        if stream.forks > 0 {
            stream.existence = Existence::Deleted;
            self.put(stream);
            return Ok(());
        }
        // A source that was kept for this fork alone goes with it, and so on up.
        loop {
            self.changes.streams.remove(&stream.id);
            self.changes.removed.insert(stream.id, stream.name.clone());
            let Some(origin) = &stream.origin else {
                return Ok(());
            };
            let mut source = self.stream(origin.source)?;
            source.forks = source.forks.saturating_sub(1);
            let is_kept = source.forks > 0 || source.existence == Existence::Live;
            if is_kept {
                self.put(source);
                return Ok(());
            }
            stream = source;
        }
    }
}
