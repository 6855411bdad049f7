//! Taking known secrets out of text.
//!
//! One pass from left to right: where several values match at the same place the longest wins, and what was put in is
//! never looked at again, so a marker cannot be redacted a second time. Where two values overlap in the text without
//! one holding the other, the first is taken out and the rest of the second stays.
//!
//! **Invariants:** redaction sees the whole text and runs before any truncation; the result depends only on the text,
//! not on how it was cut into chunks ([`StreamRedactor`](crate::StreamRedactor) uses the same pass); the values are
//! wiped from memory with the last clone.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::Secret;
use crate::truncate::{truncate, truncate_bytes};

/// Shorter values of the environment are words such as `true` or `admin`, which stand in any text.
pub const REDACTED_BYTES_MIN: usize = 8;

/// A variable is secret when its name holds one of these, in capitals or not.
const SECRET_NAME_PARTS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// The values to take out, and the names to put in. Cheap to clone.
#[derive(Clone)]
pub struct Redactor {
    rules: Arc<Rules>,
}

#[derive(Clone)]
struct Rules {
    /// Longest value first, so that the first match is the right one.
    longest_first: Vec<Rule>,
    /// Which bytes begin a value. Nearly all of a text is passed over by this table alone.
    begins: [bool; 256],
}

#[derive(Clone)]
struct Rule {
    name: String,
    value: Zeroizing<Vec<u8>>,
    marker: String,
}

/// Whether more text can follow what is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// What stands at the end may be the beginning of a secret, and is left unread.
    MayFollow,
    /// This is all.
    Nothing,
}

/// How far a scan came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    /// How many bytes were read; the others may be the beginning of a secret.
    pub(crate) read: usize,
    found: Found,
}

#[derive(Debug, Clone, Copy)]
enum Found {
    Nothing,
    Secrets,
}

impl Redactor {
    /// Takes the secret ones of these variables: the name holds `KEY`, `TOKEN`, `SECRET`, `PASSWORD` or `CREDENTIAL`,
    /// and the value has at least [`REDACTED_BYTES_MIN`] bytes.
    pub fn from_env<I, N, V>(variables: I) -> Self
    where
        I: IntoIterator<Item = (N, V)>,
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let rules: Vec<Rule> = variables
            .into_iter()
            .map(|(name, value)| {
                let name = name.into().to_string_lossy().into_owned();
                (name, Zeroizing::new(value.into().into_encoded_bytes()))
            })
            .filter(|(name, value)| is_secret_name(name) && value.len() >= REDACTED_BYTES_MIN)
            .map(|(name, value)| Rule::new(name, value))
            .collect();
        Self::from_rules(rules)
    }

    /// Adds a value that somebody called a secret. It is taken out however short it is, unless it is empty.
    #[must_use]
    pub fn with_secret(self, name: impl Into<String>, secret: &Secret) -> Self {
        if secret.is_empty() {
            return self;
        }
        let mut rules = Arc::unwrap_or_clone(self.rules).longest_first;
        let value = Zeroizing::new(secret.expose().as_bytes().to_vec());
        rules.push(Rule::new(name.into(), value));
        Self::from_rules(rules)
    }

    /// `text` without the secrets.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Only a value that is no UTF-8 itself can have split a character.
            Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        }
    }

    /// `bytes` without the secrets.
    #[must_use]
    pub fn redact_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut clean = Vec::new();
        match self.scan(bytes, Rest::Nothing, &mut clean).found {
            Found::Nothing => Cow::Borrowed(bytes),
            Found::Secrets => Cow::Owned(clean),
        }
    }

    /// The two in the only right order.
    #[must_use]
    pub fn redact_then_truncate<'a>(&self, text: &'a str, bytes_max: usize) -> Cow<'a, str> {
        match self.redact(text) {
            Cow::Borrowed(text) => truncate(text, bytes_max),
            Cow::Owned(text) => Cow::Owned(truncate(&text, bytes_max).into_owned()),
        }
    }

    /// The same for bytes.
    #[must_use]
    pub fn redact_then_truncate_bytes<'a>(
        &self,
        bytes: &'a [u8],
        bytes_max: usize,
    ) -> Cow<'a, [u8]> {
        match self.redact_bytes(bytes) {
            Cow::Borrowed(bytes) => truncate_bytes(bytes, bytes_max),
            Cow::Owned(bytes) => Cow::Owned(truncate_bytes(&bytes, bytes_max).into_owned()),
        }
    }

    /// The length of the longest value; 0 when there is none.
    #[must_use]
    pub fn secret_bytes_max(&self) -> usize {
        self.rules
            .longest_first
            .first()
            .map_or(0, |rule| rule.value.len())
    }

    /// Appends the clean form of `bytes` to `clean`. With [`Rest::Nothing`] all of them are read.
    pub(crate) fn scan(&self, bytes: &[u8], rest: Rest, clean: &mut Vec<u8>) -> Scan {
        let (mut at, mut found) = (0, Found::Nothing);
        clean.reserve(bytes.len());
        while at < bytes.len() {
            let plain = bytes[at..]
                .iter()
                .position(|byte| self.rules.begins[usize::from(*byte)]);
            let next = plain.map_or(bytes.len(), |length| at + length);
            clean.extend_from_slice(&bytes[at..next]);
            at = next;
            let ahead = &bytes[at..];
            let Some(first) = ahead.first() else {
                break;
            };
            if rest == Rest::MayFollow && self.may_grow_into_longer(ahead) {
                break;
            }
            if let Some(rule) = self.match_at(ahead) {
                clean.extend_from_slice(rule.marker.as_bytes());
                at += rule.value.len();
                found = Found::Secrets;
            } else {
                clean.push(*first);
                at += 1;
            }
        }
        Scan { read: at, found }
    }

    /// The longest value that stands at the start of `ahead`.
    fn match_at(&self, ahead: &[u8]) -> Option<&Rule> {
        self.rules
            .longest_first
            .iter()
            .find(|rule| ahead.starts_with(&rule.value))
    }

    /// Whether some value could be completed by later text and would then win over what stands here now.
    ///
    /// Such a value begins with the whole of `ahead`, so it is longer than anything that matches in it.
    fn may_grow_into_longer(&self, ahead: &[u8]) -> bool {
        self.rules
            .longest_first
            .iter()
            .take_while(|rule| rule.value.len() > ahead.len())
            .any(|rule| rule.value.starts_with(ahead))
    }

    fn from_rules(mut rules: Vec<Rule>) -> Self {
        rules.sort_by(|a, b| {
            b.value
                .len()
                .cmp(&a.value.len())
                .then_with(|| a.value.cmp(&b.value))
                .then_with(|| a.name.cmp(&b.name))
        });
        // One value under two names is shown under the first.
        rules.dedup_by(|later, first| later.value == first.value);
        let mut begins = [false; 256];
        for first in rules.iter().filter_map(|rule| rule.value.first()) {
            begins[usize::from(*first)] = true;
        }
        Self {
            rules: Arc::new(Rules {
                longest_first: rules,
                begins,
            }),
        }
    }
}

impl Default for Redactor {
    /// Takes nothing out.
    fn default() -> Self {
        Self::from_rules(Vec::new())
    }
}

impl Rule {
    fn new(name: String, value: Zeroizing<Vec<u8>>) -> Self {
        let marker = format!("[REDACTED:{name}]");
        Self {
            name,
            value,
            marker,
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .rules
            .longest_first
            .iter()
            .map(|rule| rule.name.as_str())
            .collect();
        formatter.debug_tuple("Redactor").field(&names).finish()
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
