//! The name of one run.
//!
//! **Invariant:** a [`RunId`] is always eight lowercase hexadecimal digits, so it is safe as a path component, as a part
//! of a branch name and on a command line. This crate draws no random numbers; the caller brings one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::SandboxError;

const DIGITS: usize = 8;

/// Eight lowercase hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(u32);

impl RunId {
    /// The id for a number that the caller drew at random.
    #[must_use]
    pub fn from_random(number: u32) -> Self {
        Self(number)
    }

    /// The directory name of this run's worktree.
    #[must_use]
    pub fn worktree_name(self) -> String {
        format!("harness-{self}")
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}", self.0)
    }
}

impl FromStr for RunId {
    type Err = SandboxError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || SandboxError::Invalid {
            what: format!("invalid run id `{text}`"),
            hint: "a run id is eight lowercase hexadecimal digits, such as `0a1b2c3d`".to_owned(),
        };
        // `from_str_radix` alone would take `+` and capitals, and two spellings of one id are two directories.
        let strict = text.len() == DIGITS
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if !strict {
            return Err(invalid());
        }
        u32::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| invalid())
    }
}

impl TryFrom<String> for RunId {
    type Error = SandboxError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_padded() {
        assert_eq!(RunId::from_random(0x2a).to_string(), "0000002a");
        assert_eq!(
            RunId::from_random(u32::MAX).worktree_name(),
            "harness-ffffffff"
        );
    }

    #[test]
    fn only_the_canonical_spelling_is_read() {
        assert_eq!(
            "0a1b2c3d".parse::<RunId>().unwrap(),
            RunId::from_random(0x0a1b_2c3d)
        );
        for text in [
            "",
            "0a1b2c3",
            "0a1b2c3d4",
            "0A1B2C3D",
            "+a1b2c3d",
            "0a1b2c3g",
            "../../..",
            "0a1b2cé",
        ] {
            let error = text.parse::<RunId>().unwrap_err();
            assert_eq!(error.to_string(), format!("invalid run id `{text}`"));
        }
    }

    #[test]
    fn a_stored_id_is_checked_when_it_is_read() {
        use serde::de::IntoDeserializer;
        use serde::de::value::{Error, StrDeserializer};

        let read = |text: &'static str| {
            let deserializer: StrDeserializer<'_, Error> = text.into_deserializer();
            RunId::deserialize(deserializer)
        };
        assert_eq!(read("0000002a").unwrap(), RunId::from_random(0x2a));
        assert_eq!(
            read("../../..").unwrap_err().to_string(),
            "invalid run id `../../..`"
        );
    }

    proptest::proptest! {
        #[test]
        fn display_and_parse_agree(number: u32) {
            let id = RunId::from_random(number);
            proptest::prop_assert_eq!(id.to_string().parse::<RunId>().unwrap(), id);
        }
    }
}
