//! Names of streams in addresses.

use holm_thread_log::{NameError, StreamName};
use percent_encoding::percent_decode_str;

use super::error::{Result, StreamError};

/// Where streams are found. The second is an alias.
pub(super) const ROOTS: [&str; 2] = ["/v1/stream/", "/api/stream/"];

/// The first part of the paths that the protocol has for itself.
pub(super) const CONTROL: &str = "__ds";

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Stream(StreamName),
    /// Below `__ds/`, not decoded yet.
    Control(&'a str),
}

/// Reads the path of a request, which begins with one of the roots.
pub(super) fn target(path: &str) -> Result<Target<'_>> {
    let below = ROOTS.iter().find_map(|root| path.strip_prefix(root));
    let below = below.unwrap_or_default();
    let control = below.strip_prefix(CONTROL);
    if let Some(rest) = control.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Ok(Target::Control(rest.trim_start_matches('/')));
    }
    Ok(Target::Stream(decode(below)?.parse()?))
}

/// The root that a path lies below.
pub(super) fn root(path: &str) -> &'static str {
    let found = ROOTS.into_iter().find(|root| path.starts_with(root));
    found.unwrap_or(ROOTS[0])
}

/// Decodes a part of a path, once: what is still encoded then is no name.
pub(super) fn decode(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| StreamError::bad_request("name_invalid", "the address is not UTF-8"))
}

/// The stream that `Stream-Forked-From` names: by its path, its address, or its name alone.
pub(super) fn source(text: &str) -> Result<StreamName> {
    let path = match text.split_once("://") {
        // Only the path counts: a stream of another server cannot be forked, and is not found here.
        Some((_, rest)) => rest.find('/').map_or("", |start| &rest[start..]),
        None => text,
    };
    let below = ROOTS.iter().find_map(|root| path.strip_prefix(root));
    let name = decode(below.unwrap_or(path))?.parse();
    name.map_err(|error: NameError| {
        StreamError::bad_request("name_invalid", format!("`Stream-Forked-From`: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> StreamName {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_decoded_once() {
        for (path, expected) in [
            ("/v1/stream/a", "a"),
            ("/api/stream/a/b", "a/b"),
            ("/v1/stream/a%2Fb", "a/b"),
            ("/v1/stream/a%40b", "a@b"),
            ("/v1/stream/__dsx", "__dsx"),
        ] {
            assert_eq!(
                target(path).unwrap(),
                Target::Stream(name(expected)),
                "{path}"
            );
        }
    }

    #[test]
    fn tricks_are_refused() {
        for path in [
            "/v1/stream/",
            "/v1/stream/..",
            "/v1/stream/a/%2e%2e/b",
            "/v1/stream/a%00",
            "/v1/stream/a%252fb",
            "/v1/stream/%zz",
            "/v1/stream/%ff",
            "/v1/stream/a//b",
            "/v1/stream/%2fa",
            "/v1/stream/a%0d%0ab",
            "/v1/stream/%5f%5fds/jwks.json",
        ] {
            let refused = target(path).unwrap_err();
            assert_eq!(refused.code, "name_invalid", "{path}");
        }
    }

    #[test]
    fn control_paths_are_the_protocols() {
        assert_eq!(
            target("/v1/stream/__ds/jwks.json").unwrap(),
            Target::Control("jwks.json")
        );
        assert_eq!(target("/v1/stream/__ds").unwrap(), Target::Control(""));
    }

    #[test]
    fn a_source_is_named_by_path_address_or_name() {
        for text in [
            "/v1/stream/a/b",
            "/api/stream/a%2fb",
            "a/b",
            "http://h:1/v1/stream/a/b",
        ] {
            assert_eq!(source(text).unwrap(), name("a/b"), "{text}");
        }
        for wrong in ["", "/v1/stream/../x", "http://h", "/v1/stream/__ds/x"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
    }
}
