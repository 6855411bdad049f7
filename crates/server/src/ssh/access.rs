//! Tokens that let in by SSH, for a time.

use holm_store::{Store, StoreError};

use crate::clock::{self, Millis};
use crate::error::ApiError;
use crate::keys;
use crate::preview::tokens::check_count;
use crate::records::SshAccessRecord;

/// Makes a token for a sandbox.
pub(crate) fn issue(
    store: &Store,
    sandbox: &str,
    expires_at: Millis,
) -> Result<(String, SshAccessRecord), ApiError> {
    let token = keys::random_token();
    let record = SshAccessRecord {
        hash: keys::hash(&token),
        id: uuid::Uuid::new_v4().to_string(),
        sandbox: sandbox.to_owned(),
        created_at: clock::now(),
        expires_at,
    };
    store.write(|transaction| {
        let known: Vec<SshAccessRecord> = transaction.list(sandbox)?;
        check_count(known.len(), "tokens for SSH")?;
        transaction.put(&record)?;
        Ok::<(), ApiError>(())
    })?;
    Ok((token, record))
}

/// What a token opens, if it still does.
pub(crate) fn find(store: &Store, token: &str) -> Result<Option<SshAccessRecord>, StoreError> {
    let found: Option<SshAccessRecord> = store.get(&keys::hash(token))?;
    Ok(found.filter(|record| record.expires_at > clock::now()))
}

/// Forgets one token of a sandbox, or all of them.
pub(crate) fn revoke(store: &Store, sandbox: &str, token: Option<&str>) -> Result<(), StoreError> {
    let hash = token.map(keys::hash);
    store.write(|transaction| {
        for record in transaction.list::<SshAccessRecord>(sandbox)? {
            if hash.as_ref().is_none_or(|hash| *hash == record.hash) {
                transaction.delete::<SshAccessRecord>(&record.hash)?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_until_they_end() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("holm.db")).unwrap();
        let later = clock::now() + 60_000;
        let issue = |sandbox, until| super::issue(&store, sandbox, until).unwrap().0;
        let [one, two, other] = [issue("a", later), issue("a", later), issue("b", later)];
        let old = issue("a", clock::now() - 1);
        let is_open = |token: &str| find(&store, token).unwrap().is_some();
        assert!(is_open(&one) && is_open(&two) && is_open(&other) && !is_open(&old));
        // Another sandbox's token is not this one's to revoke.
        revoke(&store, "a", Some(&other)).unwrap();
        revoke(&store, "a", Some(&one)).unwrap();
        assert!(!is_open(&one) && is_open(&two) && is_open(&other));
        revoke(&store, "a", None).unwrap();
        assert!(!is_open(&two) && is_open(&other));
    }
}
