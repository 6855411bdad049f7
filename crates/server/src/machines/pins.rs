//! What is about to be used and not yet written down as used: layers, images and volumes by their names.
//!
//! **Invariant:** whoever removes one of them looks into the store while holding the lock of the pins. So it either sees
//! the pin, or what was written down before the pin was taken away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often each name is pinned.
type Counts = HashMap<String, usize>;

#[derive(Debug, Default)]
pub(crate) struct Pins(Mutex<Counts>);

/// Keeps names from being removed until it is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    pins: Arc<Pins>,
    names: Vec<String>,
}

/// The pins while nobody can add one.
#[derive(Debug)]
pub(crate) struct Held<'a>(MutexGuard<'a, Counts>);

impl Pins {
    pub(crate) fn pin(self: &Arc<Self>, names: impl IntoIterator<Item = String>) -> Pinned {
        let names: Vec<String> = names.into_iter().collect();
        let mut counts = self.lock();
        for name in &names {
            *counts.entry(name.clone()).or_default() += 1;
        }
        Pinned {
            pins: Arc::clone(self),
            names,
        }
    }

    pub(crate) fn hold(&self) -> Held<'_> {
        Held(self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held<'_> {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut counts = self.pins.lock();
        for name in &self.names {
            if let Some(count) = counts.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_when_its_last_pin_is_gone() {
        let pins = Arc::new(Pins::default());
        let first = pins.pin(["a".to_owned(), "b".to_owned()]);
        let second = pins.pin(["a".to_owned()]);
        assert!(pins.hold().has("a") && pins.hold().has("b"));
        drop(first);
        assert!(pins.hold().has("a") && !pins.hold().has("b"));
        drop(second);
        assert!(!pins.hold().has("a"));
    }
}
