//! Names of streams.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The part of the path that names a stream, decoded once. Parts are separated by `/`.
///
/// Only characters that stand for themselves in the path of a URL: a name has one spelling, in a URL, a log and a database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(Arc<str>);

/// As long as a URL stays comfortable.
pub const NAME_LENGTH_MAX: usize = 512;

/// Names below it belong to the protocol.
const RESERVED: &str = "__ds";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the name of a stream is empty")]
    Empty,
    #[error("the name of a stream has more than {NAME_LENGTH_MAX} bytes")]
    TooLong,
    #[error(
        "the name of a stream has the character {0:?}: use letters, digits and -._~!$&'()*+,;=:@ between slashes"
    )]
    Character(char),
    #[error("the name of a stream has an empty part, `.` or `..`")]
    Part,
    #[error("names that begin with `{RESERVED}` are the protocol's own")]
    Reserved,
}

impl StreamName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for StreamName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for StreamName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > NAME_LENGTH_MAX {
            return Err(NameError::TooLong);
        }
        if let Some(wrong) = text.chars().find(|character| !is_allowed(*character)) {
            return Err(NameError::Character(wrong));
        }
        let mut parts = text.split('/');
        if parts.clone().any(|part| matches!(part, "" | "." | "..")) {
            return Err(NameError::Part);
        }
        if parts.next() == Some(RESERVED) {
            return Err(NameError::Reserved);
        }
        Ok(Self(text.into()))
    }
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_taken() {
        for name in ["a", "holm-thread-1", "events/sync-17", "a.b/..c", "x@y:z"] {
            assert_eq!(
                name.parse::<StreamName>().map(|name| name.to_string()),
                Ok(name.to_owned())
            );
        }
    }

    #[test]
    fn names_that_are_refused() {
        let table = [
            ("", NameError::Empty),
            ("a/../b", NameError::Part),
            ("./a", NameError::Part),
            ("/a", NameError::Part),
            ("a/", NameError::Part),
            ("a//b", NameError::Part),
            ("a%2fb", NameError::Character('%')),
            ("a\\b", NameError::Character('\\')),
            ("a\0", NameError::Character('\0')),
            ("a\r\nb", NameError::Character('\r')),
            ("a?b", NameError::Character('?')),
            ("\u{e9}", NameError::Character('\u{e9}')),
            ("__ds", NameError::Reserved),
            ("__ds/jwks.json", NameError::Reserved),
        ];
        for (name, error) in table {
            assert_eq!(name.parse::<StreamName>(), Err(error), "{name:?}");
        }
        assert_eq!(
            "x".repeat(NAME_LENGTH_MAX + 1).parse::<StreamName>(),
            Err(NameError::TooLong)
        );
    }
}
