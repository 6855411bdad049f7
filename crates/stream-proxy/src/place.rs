//! Which paths lead to streams: a decision over plain text.

use percent_encoding::percent_decode_str;

/// Where servers have their streams.
const ROOTS: [&str; 2] = ["/v1/stream/", "/api/stream/"];

/// Whether a path is below the streams, however a server may read it: decoded once or twice, with `\` as `/`, with
/// parameters cut off, with dots resolved or empty parts removed.
pub(crate) fn is_below_streams(path: &str) -> bool {
    let Some(name) = ROOTS.iter().find_map(|root| path.strip_prefix(root)) else {
        return false;
    };
    name.split('/').all(is_plain)
}

/// A part that is one part for everybody.
fn is_plain(part: &str) -> bool {
    let Ok(decoded) = percent_decode_str(part).decode_utf8() else {
        return false;
    };
    let is_ambiguous = |letter: char| {
        // A `%` that is left would be decoded by whoever decodes twice; it is also what a broken escape leaves.
        matches!(letter, '/' | '\\' | '%' | '?' | '#') || letter.is_control()
    };
    let without_parameters = decoded.split(';').next().unwrap_or_default();
    !matches!(without_parameters.trim(), "" | "." | "..") && !decoded.contains(is_ambiguous)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reached() {
        for path in [
            "/v1/stream/a",
            "/api/stream/holm-thread-1",
            "/v1/stream/a/b/c",
            "/v1/stream/..a/b..",
            "/v1/stream/__ds/subscriptions/x",
            "/v1/stream/a%3Ab%40c",
            "/v1/stream/a:b@c;d=e",
        ] {
            assert!(is_below_streams(path), "{path}");
        }
    }

    #[test]
    fn nothing_else_is() {
        for path in [
            "",
            "/",
            "*",
            "/api/sandbox",
            "/v1/stream",
            "/v1/stream/",
            "/v1/streams/a",
            "//v1/stream/a",
            "/v1//stream/a",
            "/V1/stream/a",
            "/x/../v1/stream/a",
            "/v1/stream/../../api/sandbox",
            "/v1/stream/a/../../../api/sandbox",
            "/v1/stream/a/..",
            "/v1/stream/.",
            "/v1/stream/a/./b",
            "/v1/stream/a//b",
            "/v1/stream//etc",
            "/v1/stream/a/",
            "/v1/stream/%2e%2e/api",
            "/v1/stream/%2E./api",
            "/v1/stream/.%2e/api",
            "/v1/stream/%252e%252e/api",
            "/v1/stream/a%2f..%2f..%2fapi",
            "/v1/stream/a%5c..%5capi",
            "/v1/stream/a\\..\\api",
            "/v1/stream/..;/api",
            "/v1/stream/..;x=y/api",
            "/v1/stream/%2e%2e;/api",
            "/v1/stream/..%20/api",
            "/v1/stream/%00",
            "/v1/stream/a%0d%0ab",
            "/v1/stream/a%",
            "/v1/stream/a%zz",
            "/v1/stream/%ff",
            "/v1/stream/%c0%ae%c0%ae/api",
            "/v1/stream/a%3fb",
            "/v1/stream/a%23b",
            "/v1%2fstream/a",
            "/%761/stream/a",
        ] {
            assert!(!is_below_streams(path), "{path}");
        }
    }
}
