//! Puts the values of secrets in the place of their placeholders in the head of one request.
//!
//! Looked at are the values of headers, `Basic` credentials inside their base64, and the query of
//! the URL. Not looked at are the path, the body and what follows an upgrade: a body can be endless
//! and is never held back. Headers that frame the message are left alone, and so are requests whose
//! answer is the request (`TRACE`): they would show the value to the box.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use thiserror::Error;

use crate::host::Host;
use crate::policy::Reason;
use crate::secret::{Passage, Scheme, SecretRule};

const FRAMING: [HeaderName; 7] = [
    CONNECTION,
    CONTENT_LENGTH,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// `TRACK` is an old server's word for it.
const ECHOING: [&str; 2] = ["TRACE", "TRACK"];

#[derive(Debug, Error)]
pub(crate) enum SubstituteError {
    #[error(transparent)]
    Refused(Reason),
    /// Says nothing about what came out, which has the value in it.
    #[error("the request with the secret `{placeholder}` in it is not a valid request")]
    Invalid { placeholder: String },
}

/// Replaces in `parts`, whose URI is in origin form, what may go to `host`.
pub(crate) fn substitute(
    rules: &[SecretRule],
    scheme: Scheme,
    host: &Host,
    parts: &mut Parts,
) -> Result<(), SubstituteError> {
    if ECHOING.contains(&parts.method.as_str()) {
        return Ok(());
    }
    for rule in rules {
        match rule.passage(scheme, host) {
            Passage::No => {}
            Passage::Yes => apply(rule, parts)?,
            Passage::OnlyEncrypted => {
                if occurs(rule.placeholder(), parts) {
                    return Err(SubstituteError::Refused(Reason::ClearTextSecret {
                        placeholder: rule.placeholder().to_owned(),
                        host: host.to_string(),
                    }));
                }
            }
        }
    }
    Ok(())
}

fn occurs(placeholder: &str, parts: &Parts) -> bool {
    let in_query = parts
        .uri
        .query()
        .is_some_and(|query| query.contains(placeholder));
    let in_header = |value: &HeaderValue| {
        find(value.as_bytes(), placeholder.as_bytes()).is_some()
            || decode_basic(value)
                .is_some_and(|(_, plain)| find(&plain, placeholder.as_bytes()).is_some())
    };
    in_query || parts.headers.values().any(in_header)
}

fn apply(rule: &SecretRule, parts: &mut Parts) -> Result<(), SubstituteError> {
    let invalid = || SubstituteError::Invalid {
        placeholder: rule.placeholder().to_owned(),
    };
    let placeholder = rule.placeholder().as_bytes();
    let value = rule.value().expose().as_bytes();
    for (name, header) in &mut parts.headers {
        if FRAMING.contains(name) {
            continue;
        }
        let replaced = match decode_basic(header) {
            Some((scheme, plain)) => replace(&plain, placeholder, value)
                .map(|plain| format!("{scheme} {}", STANDARD.encode(plain)).into_bytes()),
            None => replace(header.as_bytes(), placeholder, value),
        };
        if let Some(bytes) = replaced {
            *header = HeaderValue::from_bytes(&bytes).map_err(|_| invalid())?;
            header.set_sensitive(true);
        }
    }
    let Some(query) = parts.uri.query() else {
        return Ok(());
    };
    if !query.contains(rule.placeholder()) {
        return Ok(());
    }
    let encoded = percent_encode(value);
    let query = query.replace(rule.placeholder(), &encoded);
    let target = format!("{}?{query}", parts.uri.path());
    let target: PathAndQuery = target.parse().map_err(|_| invalid())?;
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    uri.path_and_query = Some(target);
    parts.uri = hyper::Uri::from_parts(uri).map_err(|_| invalid())?;
    Ok(())
}

/// The scheme as it was written, and the credentials.
fn decode_basic(value: &HeaderValue) -> Option<(String, Vec<u8>)> {
    let text = value.to_str().ok()?;
    let (scheme, encoded) = text.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = STANDARD.decode(encoded.trim()).ok()?;
    Some((scheme.to_owned(), plain))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// `None` when there is nothing to replace.
fn replace(text: &[u8], placeholder: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text;
    let mut replaced = Vec::new();
    let mut is_changed = false;
    while let Some(position) = find(rest, placeholder) {
        let (before, found) = rest.split_at(position);
        replaced.extend_from_slice(before);
        replaced.extend_from_slice(value);
        rest = found.get(placeholder.len()..).unwrap_or_default();
        is_changed = true;
    }
    replaced.extend_from_slice(rest);
    is_changed.then_some(replaced)
}

fn percent_encode(value: &[u8]) -> String {
    let mut encoded = String::with_capacity(value.len());
    for &byte in value {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;
    use crate::secret::Hidden;

    const PLACEHOLDER: &str = "dtn_secret_abc";

    fn rules(host: &str) -> Vec<SecretRule> {
        vec![SecretRule::new(PLACEHOLDER, Hidden::new("s k&/ü"), [host]).unwrap()]
    }

    fn run(
        rules: &[SecretRule],
        scheme: Scheme,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<Parts, SubstituteError> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let host = Host::parse("api.example.com").unwrap();
        substitute(rules, scheme, &host, &mut parts)?;
        Ok(parts)
    }

    #[test]
    fn headers_query_and_basic_credentials_are_replaced() {
        let basic = format!("bAsic {}", STANDARD.encode(format!("me:{PLACEHOLDER}")));
        let parts = run(
            &rules("api.example.com"),
            Scheme::Https,
            "/dtn_secret_abc?a=dtn_secret_abc&b=dtn_secret_abcd",
            &[
                ("x-api-key", "dtn_secret_abc dtn_secret_abc"),
                ("authorization", &basic),
                ("content-length", "dtn_secret_abc"),
            ],
        )
        .unwrap();
        assert_eq!(
            parts.uri.to_string(),
            "/dtn_secret_abc?a=s%20k%26%2F%C3%BC&b=s%20k%26%2F%C3%BCd"
        );
        assert_eq!(
            parts.headers["x-api-key"].as_bytes(),
            "s k&/ü s k&/ü".as_bytes()
        );
        let expected = format!("bAsic {}", STANDARD.encode("me:s k&/ü"));
        assert_eq!(parts.headers["authorization"], expected);
        assert_eq!(parts.headers["content-length"], "dtn_secret_abc");
        assert!(!format!("{:?}", parts.headers["x-api-key"]).contains("s k"));
    }

    #[test]
    fn a_request_that_is_sent_back_holds_no_value() {
        for method in ["TRACE", "TRACK"] {
            let request = Request::builder().method(method).uri("/?a=dtn_secret_abc");
            let request = request.header("x-api-key", PLACEHOLDER).body(()).unwrap();
            let (mut parts, ()) = request.into_parts();
            let host = Host::parse("api.example.com").unwrap();
            substitute(&rules("api.example.com"), Scheme::Https, &host, &mut parts).unwrap();
            assert_eq!(parts.headers["x-api-key"], PLACEHOLDER);
            assert_eq!(parts.uri, "/?a=dtn_secret_abc");
        }
    }

    #[test]
    fn another_host_gets_the_placeholder() {
        let headers = [("x-api-key", PLACEHOLDER)];
        let parts = run(
            &rules("other.example.com"),
            Scheme::Https,
            "/?a=dtn_secret_abc",
            &headers,
        );
        let parts = parts.unwrap();
        assert_eq!(parts.headers["x-api-key"], PLACEHOLDER);
        assert_eq!(parts.uri, "/?a=dtn_secret_abc");
    }

    #[test]
    fn clear_text_is_refused_unless_the_rule_says_so() {
        let basic = format!("Basic {}", STANDARD.encode(format!("me:{PLACEHOLDER}")));
        let https = rules("api.example.com");
        let places: [(&str, &[(&str, &str)]); 3] = [
            ("/", &[("x-api-key", PLACEHOLDER)]),
            ("/?a=dtn_secret_abc", &[]),
            ("/", &[("authorization", &basic)]),
        ];
        for (uri, headers) in places {
            let error = run(&https, Scheme::Http, uri, headers).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the secret `dtn_secret_abc` would travel in clear text; use https, or give the secret the host `http://api.example.com`"
            );
        }
        assert!(run(&https, Scheme::Http, "/", &[("a", "b")]).is_ok());
        let http = rules("http://api.example.com");
        let parts = run(&http, Scheme::Http, "/", &[("x-api-key", PLACEHOLDER)]).unwrap();
        assert_eq!(parts.headers["x-api-key"].as_bytes(), "s k&/ü".as_bytes());
    }
}
