//! What kind of bytes a stream holds.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A media type, kept as the client wrote it and compared without its parameters.
#[derive(Debug, Clone)]
pub struct ContentType(Arc<str>);

const LENGTH_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no content type: write it as `type/subtype`")]
pub struct ContentTypeError(String);

impl ContentType {
    /// What a stream holds whose creator did not say.
    pub fn octet_stream() -> Self {
        Self("application/octet-stream".into())
    }

    pub fn json() -> Self {
        Self("application/json".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Type and subtype, without parameters.
    fn essence(&self) -> &str {
        self.0.split(';').next().unwrap_or_default().trim()
    }

    /// Whether entries are JSON values, with boundaries that are kept.
    pub fn is_json(&self) -> bool {
        self.essence().eq_ignore_ascii_case("application/json")
    }

    /// Whether server-sent events carry it as it is; all else goes as base64.
    pub fn is_text(&self) -> bool {
        let essence = self.essence();
        self.is_json()
            || essence
                .get(..5)
                .is_some_and(|start| start.eq_ignore_ascii_case("text/"))
    }
}

/// `Text/Plain; charset=utf-8` is the same type as `text/plain`.
impl PartialEq for ContentType {
    fn eq(&self, other: &Self) -> bool {
        self.essence().eq_ignore_ascii_case(other.essence())
    }
}

impl Eq for ContentType {}

impl fmt::Display for ContentType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for ContentType {
    type Err = ContentTypeError;

    fn from_str(text: &str) -> Result<Self, ContentTypeError> {
        let text = text.trim();
        let made = Self(text.into());
        let is_token = |part: &str| {
            let is_token_byte =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            !part.is_empty() && part.bytes().all(is_token_byte)
        };
        let is_good = made
            .essence()
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
        // It goes back out as a header.
        let is_printable = text
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if is_good && is_printable && text.len() <= LENGTH_MAX {
            Ok(made)
        } else {
            Err(ContentTypeError(text.chars().take(LENGTH_MAX).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ContentType {
        text.parse().unwrap()
    }

    #[test]
    fn parameters_and_case_make_no_difference() {
        assert_eq!(parse("text/plain"), parse("Text/Plain; charset=utf-8"));
        assert_ne!(parse("text/plain"), parse("text/html"));
        assert_eq!(
            parse("application/JSON ; charset=utf-8").as_str(),
            "application/JSON ; charset=utf-8"
        );
    }

    #[test]
    fn what_is_json_and_what_is_text() {
        assert!(parse("application/json; charset=utf-8").is_json());
        assert!(!parse("application/json-seq").is_json());
        assert!(parse("TEXT/csv").is_text());
        assert!(!parse("application/x-protobuf").is_text());
    }

    #[test]
    fn what_is_no_type() {
        for wrong in [
            "",
            "json",
            "a/",
            "/b",
            "a b/c",
            "text/plain\r\nx: y",
            "text/\u{e9}",
        ] {
            assert!(wrong.parse::<ContentType>().is_err(), "{wrong:?}");
        }
    }
}
