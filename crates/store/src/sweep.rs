//! Removing streams whose time is over, in any store.
//!
//! Nobody sees them any more: this only gives their space back.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use holm_thread_log::{Command, Expired, Outcome, Result, StoreError, StreamStore, Timestamp};

/// How many are removed together.
const TOGETHER: usize = 256;

/// Removes all whose time is over, and says how many.
pub async fn expire_overdue(store: &dyn StreamStore, now: Timestamp) -> Result<usize> {
    let mut total = 0;
    loop {
        let names = store.overdue(now, TOGETHER).await?.into_iter();
        let commands = names.map(|name| store.apply(Command::Expire { name }, now));
        let mut removed = 0;
        for decision in join_all(commands).await {
            // What was renewed meanwhile lives on.
            if let Ok(Outcome::Expired(Expired::Removed)) = decision? {
                removed += 1;
            }
        }
        if removed == 0 {
            return Ok(total);
        }
        total += removed;
    }
}

/// Does so again and again, until it is dropped. A round that fails is told, and left to the next one.
pub async fn sweep(
    store: Arc<dyn StreamStore>,
    clock: impl Fn() -> Timestamp,
    period: Duration,
    tell: impl Fn(&StoreError),
) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = expire_overdue(&*store, clock()).await {
            tell(&error);
        }
    }
}
