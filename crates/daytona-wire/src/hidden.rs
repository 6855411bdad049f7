//! Text that must not reach a log.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A key, a token or a password. It travels as plain text and does not show itself in `Debug`.
///
/// It has no `Display`, so that no format string prints it; whoever needs the text asks with [`Hidden::expose`].
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_inner(self) -> String {
        self.0
    }
}

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Hidden {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hidden(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_says_nothing_and_json_says_all() {
        let key = Hidden::new("dtn_0123");
        assert_eq!(format!("{key:?}"), "Hidden(…)");
        assert_eq!(serde_json::to_string(&key).unwrap(), "\"dtn_0123\"");
        assert_eq!(serde_json::from_str::<Hidden>("\"dtn_0123\"").unwrap(), key);
    }
}
