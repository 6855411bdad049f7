//! Signed names: a token in place of the sandbox's id opens one port for a time, to whoever has the address.

use std::sync::Arc;

use holm_daytona_wire::error::ErrorCode;
use holm_store::{Store, StoreError};

use crate::clock::{self, Millis};
use crate::error::ApiError;
use crate::keys;
use crate::records::{PreviewTokenRecord, SshAccessRecord};

/// Signed addresses of one sandbox at a time, and as many tokens for SSH.
const TOKENS_MAX: usize = 2_000;

/// Makes a token. It is part of a host name: short, and without capital letters.
pub(crate) fn issue(
    store: &Store,
    sandbox: &str,
    port: u16,
    expires_at: Millis,
) -> Result<String, ApiError> {
    let token = format!(
        "{}{}",
        holm_sandbox_linux::random_hex(),
        holm_sandbox_linux::random_hex()
    );
    let record = PreviewTokenRecord {
        hash: keys::hash(&token),
        id: uuid::Uuid::new_v4().to_string(),
        sandbox: sandbox.to_owned(),
        port,
        expires_at,
    };
    store.write(|transaction| {
        let known: Vec<PreviewTokenRecord> = transaction.list(sandbox)?;
        check_count(known.len(), "signed addresses")?;
        transaction.put(&record)?;
        Ok::<(), ApiError>(())
    })?;
    Ok(token)
}

/// Refuses one more door to a sandbox that has very many: each is a row in the database until it ends.
pub(crate) fn check_count(known: usize, what: &str) -> Result<(), ApiError> {
    if known < TOKENS_MAX {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::TooManyRequests,
        format!("the sandbox has {TOKENS_MAX} {what} already: revoke some, or let them expire"),
    ))
}

/// The door that a token opens, if it still does.
pub(crate) fn find(store: &Store, token: &str) -> Result<Option<PreviewTokenRecord>, StoreError> {
    let found: Option<PreviewTokenRecord> = store.get(&keys::hash(token))?;
    Ok(found.filter(|record| record.expires_at > clock::now()))
}

/// Forgets a token of one port of one sandbox. Says whether there was one.
pub(crate) fn expire(
    store: &Store,
    sandbox: &str,
    port: u16,
    token: &str,
) -> Result<bool, StoreError> {
    match find(store, token)? {
        Some(record) if record.sandbox == sandbox && record.port == port => {
            store.delete::<PreviewTokenRecord>(&record.hash)
        }
        Some(_) | None => Ok(false),
    }
}

/// Forgets tokens that open nothing any more, again and again.
pub(crate) async fn run_sweeps(store: Arc<Store>, tick: std::time::Duration) {
    let mut ticks = tokio::time::interval(tick);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let store = Arc::clone(&store);
        match tokio::task::spawn_blocking(move || sweep(&store, clock::now())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "expired tokens were not removed"),
            Err(error) => tracing::warn!(%error, "expired tokens were not removed"),
        }
    }
}

fn sweep(store: &Store, now: Millis) -> Result<(), StoreError> {
    let mut previews: Vec<PreviewTokenRecord> = store.all()?;
    let mut accesses: Vec<SshAccessRecord> = store.all()?;
    previews.retain(|record| record.expires_at <= now);
    accesses.retain(|record| record.expires_at <= now);
    if previews.is_empty() && accesses.is_empty() {
        return Ok(());
    }
    // At once: each transaction waits for the disk.
    store.write(|transaction| {
        for record in &previews {
            transaction.delete::<PreviewTokenRecord>(&record.hash)?;
        }
        for record in &accesses {
            transaction.delete::<SshAccessRecord>(&record.hash)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_end() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("holm.db")).unwrap();
        let later = clock::now() + 60_000;
        let token = issue(&store, "a", 80, later).unwrap();
        assert_eq!(find(&store, &token).unwrap().unwrap().port, 80);
        assert!(!expire(&store, "b", 80, &token).unwrap());
        assert!(!expire(&store, "a", 81, &token).unwrap());
        assert!(expire(&store, "a", 80, &token).unwrap());
        assert!(find(&store, &token).unwrap().is_none());

        let old = issue(&store, "a", 80, clock::now() - 1).unwrap();
        let new = issue(&store, "a", 80, later).unwrap();
        assert!(find(&store, &old).unwrap().is_none());
        sweep(&store, clock::now()).unwrap();
        let left = store.all::<PreviewTokenRecord>().unwrap();
        assert_eq!(left.len(), 1);
        assert!(find(&store, &new).unwrap().is_some());
    }
}
