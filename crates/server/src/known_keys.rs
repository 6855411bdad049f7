//! Keys that were looked up a moment ago.
//!
//! A request with a key would have to ask the database each time, whose pages every append makes stale. Whoever takes a key back waits
//! for as long as it may be known (see [`crate::keys::revoke`]), so that nobody is let in by it afterwards.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::Caller;

/// How long a key may be known after it was looked up.
pub(crate) const KNOWN_FOR: Duration = Duration::from_millis(500);

/// More than are in use at a time; then all are forgotten.
const COUNT_MAX: usize = 10_000;

/// Callers by the hashes of their keys.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys(Mutex<HashMap<String, (Caller, Instant)>>);

impl KnownKeys {
    pub(crate) fn get(&self, hash: &str) -> Option<Caller> {
        let known = self.lock();
        let (caller, until) = known.get(hash)?;
        (Instant::now() < *until).then(|| caller.clone())
    }

    /// `looked_up_at` is from before the look-up: what was changed since then is not known.
    pub(crate) fn insert(&self, hash: String, caller: Caller, looked_up_at: Instant) {
        let mut known = self.lock();
        if known.len() >= COUNT_MAX {
            known.clear();
        }
        known.insert(hash, (caller, looked_up_at + KNOWN_FOR));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Caller, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> Caller {
        Caller {
            organization: "one".to_owned(),
            key_name: "first".to_owned(),
        }
    }

    #[test]
    fn a_key_is_known_for_a_while_after_it_was_looked_up() {
        let known = KnownKeys::default();
        let now = Instant::now();
        assert!(known.get("a").is_none());
        known.insert("a".to_owned(), caller(), now);
        assert_eq!(known.get("a").unwrap().organization, "one");
        known.insert("a".to_owned(), caller(), now - KNOWN_FOR);
        assert!(known.get("a").is_none());
    }

    #[test]
    fn no_more_are_known_than_fit() {
        let known = KnownKeys::default();
        for number in 0..=COUNT_MAX {
            known.insert(number.to_string(), caller(), Instant::now());
        }
        assert!(known.lock().len() <= COUNT_MAX);
    }
}
