//! API keys and the organisations that they belong to.
//!
//! A key is 32 random bytes in a readable coat. The store knows only its hash: whoever reads the database cannot use
//! it. A plain SHA-256 is enough for a secret that nobody can guess.

use holm_daytona_wire::Hidden;
use holm_sandbox_linux::IdRange;
use holm_store::{Store, StoreError};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::clock;
use crate::known_keys::KNOWN_FOR;
use crate::records::{ApiKeyRecord, OrganizationRecord};

/// What every key begins with, so that scanners find lost ones.
const PREFIX: &str = "holm_";
/// The organisation that the first key belongs to.
pub const DEFAULT_ORGANIZATION: &str = "default";
/// What the key is called that a server makes when there is none.
const FIRST_KEY: &str = "first";
/// What the key is called that the operator gave by the environment.
const GIVEN_KEY: &str = "environment";
/// A key that was brought along has to be as hard to guess as it looks.
const BROUGHT_LENGTH_MIN: usize = 16;

/// Keys of one organisation.
const KEYS_MAX: usize = 1_000;

/// Ranges of user ids: the first is for boxes that no server made.
const FIRST_RANGE: u16 = 1;
const LAST_RANGE: u16 = IdRange::INDEX_MAX;

/// Why a key was not made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("could not use the store")]
    Store {
        #[from]
        source: StoreError,
    },
    #[error("a key named `{name}` exists already")]
    NameTaken { name: String },
    #[error("the given key is shorter than {BROUGHT_LENGTH_MIN} characters, or holds spaces")]
    TooWeak,
    #[error("there are {LAST_RANGE} organisations already, and each needs a range of user ids")]
    TooManyOrganizations,
    #[error("the organisation has {KEYS_MAX} keys already")]
    TooManyKeys,
    #[error("there is no key named `{name}`")]
    Unknown { name: String },
}

impl KeyError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Store { source } => source.hint(),
            Self::NameTaken { .. } => Some("choose another name, or revoke that key first"),
            Self::TooWeak => Some("let `holm key create` make one: its keys cannot be guessed"),
            Self::TooManyOrganizations => Some("give the key to an organisation that exists"),
            Self::TooManyKeys => Some("revoke those that are not needed any more"),
            Self::Unknown { .. } => Some("`holm key list` shows those that exist"),
        }
    }
}

/// A key that was just made. Its text is shown once and is nowhere else.
#[derive(Debug)]
pub struct NewKey {
    pub text: Hidden,
    pub record: ApiKeyRecord,
}

/// Where the text of a new key comes from.
#[derive(Debug, Clone)]
pub enum KeyText {
    Random,
    /// Brought along by the operator, for unattended set-up.
    Given(Hidden),
}

/// The hash under which a key is stored, in hexadecimal.
pub(crate) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Without an allocation for each byte: every request with a key passes here.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    halves.map(digit).collect()
}

/// The id of a new organisation. It follows from the name: servers that share their streams have keys of their own, and what
/// one of them keeps for `team` has to be what the others find for it.
fn organization_id(name: &str) -> String {
    let digest = Sha256::digest(format!("holm organisation {name}"));
    let mut bytes = [0; 16];
    for (byte, digit) in bytes.iter_mut().zip(digest) {
        *byte = digit;
    }
    uuid::Builder::from_custom_bytes(bytes)
        .into_uuid()
        .to_string()
}

/// A random text of 256 bits, for keys and tokens.
pub(crate) fn random_token() -> String {
    (0..4).map(|_| holm_sandbox_linux::random_hex()).collect()
}

fn is_weak(text: &str) -> bool {
    text.len() < BROUGHT_LENGTH_MIN || text.chars().any(|letter| !letter.is_ascii_graphic())
}

/// Makes a key, and its organisation if that is new.
pub fn create(
    store: &Store,
    organization: &str,
    name: &str,
    text: KeyText,
) -> Result<NewKey, KeyError> {
    let text = match text {
        KeyText::Random => Hidden::new(format!("{PREFIX}{}", random_token())),
        KeyText::Given(text) if is_weak(text.expose()) => return Err(KeyError::TooWeak),
        KeyText::Given(text) => text,
    };
    let now = clock::now();
    store.write(|transaction| {
        let organizations: Vec<OrganizationRecord> = transaction.all()?;
        let known = organizations
            .iter()
            .find(|known| known.name == organization);
        let organization = match known {
            Some(known) => known.id.clone(),
            None => {
                let taken = organizations.iter().map(|known| known.id_range).max();
                let id_range = taken.map_or(FIRST_RANGE, |last| last + 1);
                if id_range > LAST_RANGE {
                    return Err(KeyError::TooManyOrganizations);
                }
                let record = OrganizationRecord {
                    id: organization_id(organization),
                    name: organization.to_owned(),
                    id_range,
                    created_at: now,
                };
                transaction.put(&record)?;
                record.id
            }
        };
        if transaction.list::<ApiKeyRecord>(&organization)?.len() >= KEYS_MAX {
            return Err(KeyError::TooManyKeys);
        }
        let record = ApiKeyRecord {
            hash: hash(text.expose()),
            organization,
            name: name.to_owned(),
            shown: shown(text.expose()),
            created_at: now,
        };
        match transaction.put(&record) {
            Ok(()) => Ok(NewKey { text, record }),
            Err(StoreError::NameTaken { name }) => Err(KeyError::NameTaken { name }),
            Err(source) => Err(source.into()),
        }
    })
}

/// Sees to it that somebody can use the server: by the given key, or else by one that is made when there is none
/// at all, and returned to be shown.
pub fn ensure(store: &Store, given: Option<Hidden>) -> Result<Option<NewKey>, KeyError> {
    let Some(text) = given else {
        return if store.all::<ApiKeyRecord>()?.is_empty() {
            create(store, DEFAULT_ORGANIZATION, FIRST_KEY, KeyText::Random).map(Some)
        } else {
            Ok(None)
        };
    };
    if is_weak(text.expose()) {
        return Err(KeyError::TooWeak);
    }
    if find(store, &hash(text.expose()))?.is_none() {
        // The operator has changed the key: the one before is not theirs any more.
        match remove(store, DEFAULT_ORGANIZATION, GIVEN_KEY) {
            Ok(_) | Err(KeyError::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
        create(store, DEFAULT_ORGANIZATION, GIVEN_KEY, KeyText::Given(text))?;
    }
    Ok(None)
}

/// Removes a key by its name. What it made stays. When this returns, no server of this store lets anybody in by it.
pub fn revoke(store: &Store, organization: &str, name: &str) -> Result<ApiKeyRecord, KeyError> {
    let key = remove(store, organization, name)?;
    wait_until_forgotten();
    Ok(key)
}

/// Servers know a key for a moment after they have looked it up.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes forget by the clock, and have no way to tell"
)]
pub(crate) fn wait_until_forgotten() {
    std::thread::sleep(KNOWN_FOR);
}

fn remove(store: &Store, organization: &str, name: &str) -> Result<ApiKeyRecord, KeyError> {
    let unknown = || KeyError::Unknown { name: name.into() };
    let organization = find_organization(store, organization)?.ok_or_else(unknown)?;
    let key: ApiKeyRecord = store
        .find_by_name(&organization.id, name)?
        .ok_or_else(unknown)?;
    store.delete::<ApiKeyRecord>(&key.hash)?;
    Ok(key)
}

pub fn find_organization(
    store: &Store,
    name: &str,
) -> Result<Option<OrganizationRecord>, StoreError> {
    store.find_by_name("", name)
}

/// The key that a client showed, if it is one, by its hash.
pub(crate) fn find(store: &Store, hash: &str) -> Result<Option<ApiKeyRecord>, StoreError> {
    let found: Option<ApiKeyRecord> = store.get(hash)?;
    // Found by its hash, which tells nothing about the key by how long the search took; compared again in
    // constant time so that no collation of the database decides.
    Ok(found.filter(|record| bool::from(record.hash.as_bytes().ct_eq(hash.as_bytes()))))
}

/// Whether two secrets are the same, without telling by time where they differ.
pub(crate) fn same_secret(ours: &str, theirs: &str) -> bool {
    ours.as_bytes().ct_eq(theirs.as_bytes()).into()
}

/// Enough of a key to tell it from others, not enough to use it.
fn shown(text: &str) -> String {
    let beginning: String = text.chars().take(PREFIX.len() + 3).collect();
    let end: String = text
        .chars()
        .skip(text.chars().count().saturating_sub(3))
        .collect();
    format!("{beginning}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(store: &Store, text: &str) -> Result<Option<ApiKeyRecord>, StoreError> {
        find(store, &hash(text))
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("holm.db")).unwrap();
        (folder, store)
    }

    #[test]
    fn a_key_is_known_by_its_text_and_stored_without_it() {
        let (folder, store) = store();
        let key = create(&store, DEFAULT_ORGANIZATION, "first", KeyText::Random).unwrap();
        let text = key.text.expose();
        assert!(text.starts_with("holm_") && text.len() > 40, "{text}");
        assert!(verify(&store, text).unwrap().is_some());
        assert!(verify(&store, &text[1..]).unwrap().is_none());
        assert!(!format!("{key:?}").contains(text));
        drop(store);
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let content = std::fs::read(entry.unwrap().path()).unwrap();
            let text = text.as_bytes();
            assert!(!content.windows(text.len()).any(|window| window == text));
        }
    }

    #[test]
    fn a_revoked_key_opens_nothing() {
        let (_folder, store) = store();
        let key = create(&store, "team", "ci", KeyText::Random).unwrap();
        let again = create(&store, "team", "ci", KeyText::Random).unwrap_err();
        assert_eq!(again.to_string(), "a key named `ci` exists already");
        revoke(&store, "team", "ci").unwrap();
        assert!(verify(&store, key.text.expose()).unwrap().is_none());
        let unknown = revoke(&store, "team", "ci").unwrap_err();
        assert_eq!(unknown.to_string(), "there is no key named `ci`");
    }

    #[test]
    fn organisations_get_ranges_of_their_own() {
        let (_folder, store) = store();
        for (organization, name) in [("a", "1"), ("b", "1"), ("a", "2")] {
            create(&store, organization, name, KeyText::Random).unwrap();
        }
        let mut ranges: Vec<(String, u16)> = store
            .all::<OrganizationRecord>()
            .unwrap()
            .into_iter()
            .map(|organization| (organization.name, organization.id_range))
            .collect();
        ranges.sort();
        assert_eq!(ranges, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }

    #[test]
    fn an_organisation_is_the_same_to_all_servers() {
        let id = |name: &str| {
            let (_folder, store) = store();
            let key = create(&store, name, "1", KeyText::Random).unwrap();
            key.record.organization
        };
        assert_eq!(id("team"), id("team"));
        assert_ne!(id("team"), id("teams"));
        // Streams are stored below it: it stays what it is.
        assert_eq!(id("default"), "af546d08-9e3a-82d3-87fd-14885b0874c7");
    }

    #[test]
    fn the_first_key_is_made_once() {
        let (_folder, store) = store();
        assert!(ensure(&store, None).unwrap().is_some());
        assert!(ensure(&store, None).unwrap().is_none());
    }

    #[test]
    fn a_given_key_replaces_the_one_given_before() {
        let (_folder, store) = store();
        let [old, new] = ["given-key-number-1", "given-key-number-2"];
        for text in [old, old, new] {
            assert!(ensure(&store, Some(Hidden::new(text))).unwrap().is_none());
        }
        assert!(verify(&store, old).unwrap().is_none());
        assert!(verify(&store, new).unwrap().is_some());
        assert!(matches!(
            ensure(&store, Some(Hidden::new("weak"))),
            Err(KeyError::TooWeak)
        ));
        assert!(verify(&store, new).unwrap().is_some());
    }

    #[test]
    fn a_weak_key_is_refused() {
        let (_folder, store) = store();
        for weak in ["short", "with a space in the middle", ""] {
            let given = KeyText::Given(Hidden::new(weak));
            let refused = create(&store, "a", "b", given).unwrap_err();
            assert!(matches!(refused, KeyError::TooWeak), "{refused:?}");
        }
    }
}
