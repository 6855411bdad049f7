//! Parameters of a query, where a name may come several times.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::error::{ApiError, Result};

/// The decoded pairs of a query, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pairs(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Pairs {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl Pairs {
    pub(crate) fn parse(query: &str) -> Self {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            percent_encoding::percent_decode_str(&text)
                .decode_utf8_lossy()
                .into_owned()
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decode(name), decode(value)))
                .collect(),
        )
    }

    /// The first value of a name; an empty one counts as missing.
    pub(crate) fn get<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// A value that has to be there.
    pub(crate) fn required<'a>(&'a self, name: &'a str) -> Result<&'a str> {
        self.get(name)
            .ok_or_else(|| ApiError::bad_request(format!("the parameter `{name}` is missing")))
    }

    /// All values of a name; one may also hold several, separated by commas.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// A number, or anything else that is written as text.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let parse = |value: &str| {
            value.parse().map_err(|_| {
                ApiError::bad_request(format!("`{value}` is no value for the parameter `{name}`"))
            })
        };
        self.get(name).map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_repeat_and_values_are_decoded() {
        let pairs =
            Pairs::parse("states=started&states=stopped&labels=%7B%22a%22%3A+1%7D&limit=5&empty=");
        assert_eq!(
            pairs.all("states").collect::<Vec<_>>(),
            ["started", "stopped"]
        );
        assert_eq!(pairs.get("labels"), Some("{\"a\": 1}"));
        assert_eq!(pairs.parsed::<u32>("limit").unwrap(), Some(5));
        assert_eq!(pairs.get("empty"), None);
        assert!(pairs.required("empty").is_err());
        assert!(Pairs::parse("limit=x").parsed::<u32>("limit").is_err());
        assert_eq!(Pairs::parse("").get("a"), None);
    }
}
