//! Which streams a subscription is for: names with `*` for one part and `**` for any number of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::{NAME_LENGTH_MAX, StreamName};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no pattern: write parts of names between slashes, `*` for any one part, `**` for any number of them"
)]
pub struct PatternError(String);

/// A star that stands for itself.
const LITERAL_STAR: [&str; 2] = ["%2A", "%2a"];

impl Pattern {
    pub fn matches(&self, name: &StreamName) -> bool {
        let names: Vec<&str> = name.as_str().split('/').collect();
        // Whether the pattern so far matches the first `index` parts of the name; no backtracking, whatever the pattern.
        let mut matched = vec![false; names.len() + 1];
        if let Some(start) = matched.first_mut() {
            *start = true;
        }
        for part in self.0.split('/') {
            let mut next = vec![false; matched.len()];
            for (index, is_matched) in matched.iter().enumerate() {
                let before = index
                    .checked_sub(1)
                    .and_then(|before| Some((*matched.get(before)?, *names.get(before)?)));
                let is_now = match part {
                    "**" => {
                        *is_matched
                            || index
                                .checked_sub(1)
                                .and_then(|before| next.get(before).copied())
                                .unwrap_or(false)
                    }
                    "*" => before.is_some_and(|(is_matched, _)| is_matched),
                    literal => {
                        before.is_some_and(|(is_matched, name)| is_matched && same(literal, name))
                    }
                };
                if let Some(slot) = next.get_mut(index) {
                    *slot = is_now;
                }
            }
            matched = next;
        }
        matched.last().copied().unwrap_or(false)
    }

    /// What every name that matches begins with.
    pub fn literal_prefix(&self) -> String {
        let parts = self.0.split('/');
        let literal = parts.take_while(|part| !matches!(*part, "*" | "**"));
        let mut prefix = String::new();
        for part in literal {
            prefix.push_str(&unescape(part));
            prefix.push('/');
        }
        if prefix.len() > self.0.len() {
            prefix.pop();
        }
        prefix
    }
}

fn unescape(part: &str) -> String {
    LITERAL_STAR
        .iter()
        .fold(part.to_owned(), |text, escaped| text.replace(escaped, "*"))
}

fn same(literal: &str, name: &str) -> bool {
    literal == name || (literal.contains('%') && unescape(literal) == name)
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    /// Slashes at the ends are left out, as the protocol's own server does.
    fn from_str(text: &str) -> Result<Self, PatternError> {
        let trimmed = text.trim_matches('/');
        // A pattern is a name in which stars have a meaning.
        let is_good = unescape(trimmed).parse::<StreamName>().is_ok();
        if is_good && trimmed.len() <= NAME_LENGTH_MAX {
            Ok(Self(trimmed.to_owned()))
        } else {
            Err(PatternError(text.chars().take(NAME_LENGTH_MAX).collect()))
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let pattern: Pattern = pattern.parse().unwrap();
        pattern.matches(&name.parse().unwrap())
    }

    #[test]
    fn stars_stand_for_parts() {
        for (pattern, name) in [
            ("events/*", "events/a"),
            ("/events/*/", "events/a"),
            ("**", "a/b/c"),
            ("a/**", "a"),
            ("a/**/z", "a/z"),
            ("a/**/z", "a/b/c/z"),
            ("**/b/**", "a/b"),
            ("a/b", "a/b"),
            ("a/%2A", "a/*"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("events/*", "events"),
            ("events/*", "events/a/b"),
            ("a/**/z", "a/b"),
            ("*", "a/b"),
            ("a*", "ab"),
            ("a/%2A", "a/b"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = "**/a/".repeat(60) + "b";
        assert!(!matches(&pattern, &["a"; 200].join("/")));
    }

    #[test]
    fn what_matches_begins_so() {
        let prefix = |text: &str| text.parse::<Pattern>().unwrap().literal_prefix();
        assert_eq!(prefix("events/*"), "events/");
        assert_eq!(prefix("a/b/**"), "a/b/");
        assert_eq!(prefix("a/b"), "a/b");
        assert_eq!(prefix("**"), "");
    }

    #[test]
    fn what_is_no_pattern() {
        for wrong in ["", "/", "a//b", "../x", "__ds/**", "a b", "a%2fb"] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
    }
}
