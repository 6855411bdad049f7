//! Appending, and closing.
//!
//! The order of the checks is the protocol's: is it there (and the one that the writer was let in to), does its producer come too late or again, is it closed, does the type fit,
//! does the producer's number follow, does `Stream-Seq` rise.

use super::create::forget_repeated_keys;
use super::{Draft, Step, check_size, check_writer, entry_of, messages_of};
use crate::command::{Append, Appended, Message, Outcome, Refusal};
use crate::producer::{ProducerState, Verdict, judge};
use crate::rules::What;
use crate::state::{Ending, StreamState};

impl Draft<'_> {
    pub(super) fn append(&mut self, append: &Append) -> Step<Outcome> {
        let mut stream = self.live(&append.name)?;
        // First of all: who was let in to another stream hears nothing of this one.
        check_writer(&stream, append.writer.as_ref())?;
        stream.last_access = self.now;
        let verdict = self.verdict(&stream, append)?;
        if stream.ending == Ending::Closed {
            return self.append_to_closed(stream, append, verdict);
        }
        let messages = match &append.payload {
            Some(payload) => {
                if append
                    .content_type
                    .as_ref()
                    .is_none_or(|given| *given != stream.content_type)
                {
                    let expected = stream.content_type;
                    return Err(Refusal::ContentType { expected }.into());
                }
                let messages = messages_of(&stream.content_type, payload)?;
                if messages.iter().all(|message| message.data.is_empty()) {
                    return Err(Refusal::Empty.into());
                }
                messages
            }
            None if append.ending == Ending::Closed => Vec::new(),
            None => return Err(Refusal::Empty.into()),
        };
        let producer = match verdict {
            None => None,
            Some(Verdict::Accept(state)) => Some(state),
            Some(Verdict::Duplicate(state)) => return Ok(self.duplicate(stream, Some(state))),
            Some(Verdict::StaleEpoch { current }) => {
                return Err(Refusal::StaleEpoch { current }.into());
            }
            Some(Verdict::EpochMustStartAtZero) => return Err(Refusal::EpochMustStartAtZero.into()),
            Some(Verdict::Gap { expected, received }) => {
                return Err(Refusal::Gap { expected, received }.into());
            }
        };
        if let Some(seq) = &append.stream_seq {
            if let Some(last) = stream.last_stream_seq.as_ref().filter(|last| seq <= *last) {
                return Err(Refusal::StreamSeq { last: last.clone() }.into());
            }
            stream.last_stream_seq = Some(seq.clone());
        }
        let new = self.unseen(&stream, messages)?;
        self.store(stream, append, new, producer)
    }

    fn store(
        &mut self,
        mut stream: StreamState,
        append: &Append,
        new: Vec<Message>,
        producer: Option<ProducerState>,
    ) -> Step<Outcome> {
        stream.ending = append.ending;
        let told = new.clone();
        let is_added = match entry_of(new) {
            Some((data, keys)) => {
                self.add_entry(&mut stream, data, keys);
                true
            }
            None => false,
        };
        let is_changed = is_added || stream.ending == Ending::Closed;
        if is_changed {
            let writer = append.writer.as_ref();
            let standing = self.ask_rules(&stream, What::Appended(&told), writer)?;
            check_size(&stream, writer, standing)?;
            self.write(&append.documents)?;
            self.wake(&stream);
        }
        if let (Some(state), Some(claim)) = (producer, &append.producer) {
            self.changes
                .producers
                .insert((stream.id, claim.producer.clone()), state);
        }
        let appended = appended(&stream, producer);
        if is_added && stream.ending == Ending::Open {
            self.changes.grown.insert(stream.id);
        }
        self.put(stream);
        Ok(match (is_added, &append.payload) {
            (true, _) => Outcome::Appended(appended),
            (false, Some(_)) => Outcome::Duplicate(appended),
            (false, None) => Outcome::Closed(appended),
        })
    }

    /// What is known already is confirmed, a replaced writer hears that it was replaced, and all else is too late.
    fn append_to_closed(
        &mut self,
        stream: StreamState,
        append: &Append,
        verdict: Option<Verdict>,
    ) -> Step<Outcome> {
        match verdict {
            Some(Verdict::Duplicate(state)) => Ok(self.duplicate(stream, Some(state))),
            Some(Verdict::StaleEpoch { current }) => Err(Refusal::StaleEpoch { current }.into()),
            None if append.payload.is_none() && append.ending == Ending::Closed => {
                let appended = appended(&stream, None);
                self.put(stream);
                Ok(Outcome::Closed(appended))
            }
            None
            | Some(Verdict::Accept(_) | Verdict::EpochMustStartAtZero | Verdict::Gap { .. }) => {
                let tail = stream.tail();
                Err(Refusal::Closed { tail }.into())
            }
        }
    }

    fn verdict(&self, stream: &StreamState, append: &Append) -> Step<Option<Verdict>> {
        let Some(claim) = &append.producer else {
            return Ok(None);
        };
        let state = self.facts.producer(stream.id, &claim.producer)?;
        Ok(Some(judge(state, claim)))
    }

    fn duplicate(&mut self, stream: StreamState, producer: Option<ProducerState>) -> Outcome {
        let appended = appended(&stream, producer);
        self.put(stream);
        Outcome::Duplicate(appended)
    }

    /// The messages whose keys are new.
    fn unseen(&self, stream: &StreamState, mut messages: Vec<Message>) -> Step<Vec<Message>> {
        let keys: Vec<_> = messages
            .iter()
            .filter_map(|message| message.key.clone())
            .collect();
        if keys.is_empty() {
            return Ok(messages);
        }
        let asked: Vec<_> = keys.iter().collect();
        let seen = self.facts.seen_keys(stream.id, &asked)?;
        messages.retain(|message| message.key.as_ref().is_none_or(|key| !seen.contains(key)));
        forget_repeated_keys(&mut messages);
        Ok(messages)
    }
}

fn appended(stream: &StreamState, producer: Option<ProducerState>) -> Appended {
    Appended {
        tail: stream.tail(),
        ending: stream.ending,
        producer,
    }
}
