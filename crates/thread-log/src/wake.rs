//! Who waits for which stream.
//!
//! A store tells the [`Hub`] which streams have changed, after the change is durable: in the process that committed it, and in others
//! by whatever the database has for that. What changed is read from the store; a wake-up carries nothing that could be wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, watch};

use crate::name::StreamName;

/// Changes that a slow reader of the feed may lag behind before it has to look at everything again.
const FEED_LENGTH: usize = 4096;

/// All that wait in this process.
#[derive(Debug, Clone)]
pub struct Hub {
    waiting: Arc<Mutex<HashMap<StreamName, watch::Sender<()>>>>,
    feed: broadcast::Sender<Fed>,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            waiting: Arc::default(),
            feed: broadcast::Sender::new(FEED_LENGTH),
        }
    }
}

impl Hub {
    pub fn new() -> Self {
        Self::default()
    }

    /// Says that these streams have changed.
    pub fn wake<'a>(&self, names: impl IntoIterator<Item = &'a StreamName>) {
        let waiting = self.lock();
        for name in names {
            if let Some(sender) = waiting.get(name) {
                sender.send_replace(());
            }
            if self.feed.receiver_count() > 0 {
                // Who listened a moment ago may be gone: no error.
                drop(self.feed.send(Fed::Changed(name.clone())));
            }
        }
    }

    /// Says that any stream may have changed: what told us of changes was away for a while.
    pub fn wake_all(&self) {
        let waiting = self.lock();
        for sender in waiting.values() {
            sender.send_replace(());
        }
        drop(self.feed.send(Fed::Missed));
    }

    pub fn watch(&self, name: &StreamName) -> Watch {
        let mut waiting = self.lock();
        let sender = waiting
            .entry(name.clone())
            .or_insert_with(|| watch::Sender::new(()));
        Watch {
            receiver: Some(sender.subscribe()),
            name: name.clone(),
            hub: self.clone(),
        }
    }

    pub fn feed(&self) -> Feed {
        Feed {
            receiver: self.feed.subscribe(),
        }
    }

    /// How many streams somebody waits for.
    pub fn watched_streams(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamName, watch::Sender<()>>> {
        // Nothing in here can be half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for one stream. Readers of the same stream share one wake-up.
#[derive(Debug)]
pub struct Watch {
    receiver: Option<watch::Receiver<()>>,
    name: StreamName,
    hub: Hub,
}

impl Watch {
    /// Returns when something has changed since the watch began or since the last return. Dropping the future loses no change.
    pub async fn changed(&mut self) {
        let is_awake = match &mut self.receiver {
            Some(receiver) => receiver.changed().await.is_ok(),
            None => false,
        };
        if !is_awake {
            // The hub keeps the sender for as long as there are watches.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut waiting = self.hub.lock();
        self.receiver = None;
        if waiting
            .get(&self.name)
            .is_some_and(|sender| sender.receiver_count() == 0)
        {
            waiting.remove(&self.name);
        }
    }
}

/// The names of streams as they change.
#[derive(Debug)]
pub struct Feed {
    receiver: broadcast::Receiver<Fed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fed {
    Changed(StreamName),
    /// Changes were missed: look at everything.
    Missed,
}

impl Feed {
    pub async fn next(&mut self) -> Fed {
        match self.receiver.recv().await {
            Ok(fed) => fed,
            Err(broadcast::error::RecvError::Lagged(_)) => Fed::Missed,
            // The store is gone, and with it all changes.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> StreamName {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_change_after_the_watch_began_is_not_missed() {
        let hub = Hub::new();
        let (mut first, mut second) = (hub.watch(&name("a")), hub.watch(&name("a")));
        hub.wake([&name("a"), &name("b")]);
        first.changed().await;
        second.changed().await;
    }

    #[tokio::test]
    async fn others_are_left_asleep() {
        let hub = Hub::new();
        let mut watch = hub.watch(&name("a"));
        hub.wake([&name("b")]);
        tokio::select! {
            biased;
            () = watch.changed() => panic!("woken by another stream"),
            () = std::future::ready(()) => {}
        }
        hub.wake_all();
        watch.changed().await;
    }

    #[test]
    fn nothing_is_kept_for_those_who_left() {
        let hub = Hub::new();
        let watches: Vec<Watch> = (0..3).map(|_| hub.watch(&name("a"))).collect();
        assert_eq!(hub.watched_streams(), 1);
        drop(watches);
        assert_eq!(hub.watched_streams(), 0);
    }

    #[tokio::test]
    async fn the_feed_says_when_it_missed_something() {
        let hub = Hub::new();
        let mut feed = hub.feed();
        hub.wake([&name("a")]);
        assert_eq!(feed.next().await, Fed::Changed(name("a")));
        for _ in 0..=FEED_LENGTH {
            hub.wake([&name("b")]);
        }
        assert_eq!(feed.next().await, Fed::Missed);
    }
}
