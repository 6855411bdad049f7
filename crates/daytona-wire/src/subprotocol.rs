//! What clients say about themselves where they can set no headers: in the subprotocols of a WebSocket.
//!
//! A client offers tokens and gives up when the server selects none of them. The token with the environment of a
//! terminal may hold keys, so it is never selected, which would send it back.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::StringMap;

/// The client understands the control frame that tells the exit code of a terminal.
pub const EXIT_CONTROL: &str = "X-Daytona-Pty-Exit-Control";
const ENVS_PREFIX: &str = "X-Daytona-Pty-Envs~";
const VERSION_PREFIX: &str = "X-Daytona-SDK-Version~";

const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The tokens of a request, from its `Sec-WebSocket-Protocol` headers.
#[derive(Clone, Default)]
pub struct Subprotocols<'header> {
    tokens: Vec<&'header str>,
}

/// The token with the environment cannot be read. The message does not quote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvsError {
    NotBase64,
    NotObjectOfTexts,
}

impl<'header> Subprotocols<'header> {
    /// A request may have several headers, and each several tokens.
    pub fn parse(headers: impl IntoIterator<Item = &'header str>) -> Self {
        let tokens = headers
            .into_iter()
            .flat_map(|header| header.split(','))
            .map(str::trim)
            .filter(|token| !token.is_empty())
            .collect();
        Self { tokens }
    }

    /// The token to answer with: the exit control if the client offers it, else anything but the environment.
    pub fn select(&self) -> Option<&'header str> {
        if self.has_exit_control() {
            return Some(EXIT_CONTROL);
        }
        self.tokens
            .iter()
            .copied()
            .find(|token| !token.starts_with(ENVS_PREFIX))
    }

    pub fn has_exit_control(&self) -> bool {
        self.tokens.contains(&EXIT_CONTROL)
    }

    /// The version of the SDK, for those that cannot send it as a header.
    pub fn sdk_version(&self) -> Option<&'header str> {
        self.after(VERSION_PREFIX)
    }

    /// The environment for a new terminal; empty if the client sent none.
    pub fn envs(&self) -> Result<StringMap, EnvsError> {
        let Some(encoded) = self.after(ENVS_PREFIX) else {
            return Ok(StringMap::new());
        };
        let json = BASE64URL
            .decode(encoded)
            .map_err(|_malformed| EnvsError::NotBase64)?;
        serde_json::from_slice(&json).map_err(|_malformed| EnvsError::NotObjectOfTexts)
    }

    fn after(&self, prefix: &str) -> Option<&'header str> {
        self.tokens
            .iter()
            .find_map(|token| token.strip_prefix(prefix))
    }
}

/// The token that carries an environment.
pub fn envs_token(envs: &StringMap) -> String {
    let object: serde_json::Map<String, serde_json::Value> = envs
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().into()))
        .collect();
    let json = serde_json::Value::Object(object).to_string();
    format!("{ENVS_PREFIX}{}", BASE64URL.encode(json))
}

/// The token that carries the version of a client.
pub fn version_token(version: &str) -> String {
    format!("{VERSION_PREFIX}{version}")
}

impl fmt::Debug for Subprotocols<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.tokens.iter().map(|token| {
            if token.starts_with(ENVS_PREFIX) {
                "X-Daytona-Pty-Envs~…"
            } else {
                token
            }
        });
        formatter.debug_list().entries(shown).finish()
    }
}

impl fmt::Display for EnvsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotBase64 => "the environment in the subprotocol is not base64url",
            Self::NotObjectOfTexts => {
                "the environment in the subprotocol is not a JSON object of texts"
            }
        })
    }
}

impl std::error::Error for EnvsError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENVS: &str = "X-Daytona-Pty-Envs~eyJGT08iOiAiYmFyIn0";

    #[test]
    fn the_offers_of_both_sdks_are_understood() {
        for header in [
            format!("X-Daytona-Pty-Exit-Control, {ENVS}"),
            format!("{ENVS},X-Daytona-Pty-Exit-Control"),
        ] {
            let offered = Subprotocols::parse([header.as_str()]);
            assert_eq!(offered.select(), Some(EXIT_CONTROL));
            let expected = StringMap::from([("FOO".to_owned(), "bar".to_owned())]);
            assert_eq!(offered.envs(), Ok(expected));
        }
    }

    #[test]
    fn the_environment_is_never_sent_back_nor_shown() {
        let offered = Subprotocols::parse([ENVS]);
        assert_eq!(offered.select(), None);
        assert_eq!(format!("{offered:?}"), "[\"X-Daytona-Pty-Envs~…\"]");
    }

    #[test]
    fn a_browser_says_its_version() {
        let offered = Subprotocols::parse(["X-Daytona-SDK-Version~0.218.0"]);
        assert_eq!(offered.sdk_version(), Some("0.218.0"));
        assert_eq!(offered.select(), Some("X-Daytona-SDK-Version~0.218.0"));
        assert!(!offered.has_exit_control());
    }

    #[test]
    fn no_offer_is_no_answer() {
        assert_eq!(Subprotocols::parse([]).select(), None);
        assert_eq!(Subprotocols::parse([" , "]).select(), None);
        assert_eq!(Subprotocols::parse([]).envs(), Ok(StringMap::new()));
    }

    #[test]
    fn a_broken_environment_is_told() {
        let envs = |token| Subprotocols::parse([token]).envs();
        assert_eq!(envs("X-Daytona-Pty-Envs~!"), Err(EnvsError::NotBase64));
        let number = format!("{ENVS_PREFIX}{}", BASE64URL.encode("{\"A\":1}"));
        let offered = Subprotocols::parse([number.as_str()]);
        assert_eq!(offered.envs(), Err(EnvsError::NotObjectOfTexts));
    }

    proptest! {
        #[test]
        fn an_environment_comes_through(envs in prop::collection::btree_map(".*", ".*", 0..4)) {
            let token = envs_token(&envs);
            prop_assert_eq!(Subprotocols::parse([token.as_str()]).envs(), Ok(envs));
        }

        #[test]
        fn any_header_is_read(header in ".*") {
            let offered = Subprotocols::parse([header.as_str()]);
            prop_assert!(offered.select().is_none_or(|token| !token.starts_with(ENVS_PREFIX)));
            drop(offered.envs());
        }
    }
}
