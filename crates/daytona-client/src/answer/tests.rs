//! What callers are told when a server says no, in whichever way.

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect()
}

fn told(status: u16, body: &str) -> ApiError {
    let key = Secret::new("dtn_0123456789");
    let error = refusal("test", status, &HeaderMap::new(), body.as_bytes(), &key);
    error.api().unwrap().clone()
}

#[test]
fn both_envelopes_are_read() {
    let api = told(
        404,
        r#"{"path":"/api/sandbox/a","statusCode":404,"error":"Not Found","message":"Sandbox a not found","code":"NOT_FOUND","source":"DAYTONA_API"}"#,
    );
    assert_eq!(api.message, "Sandbox a not found");
    assert_eq!(api.origin, Some(ErrorSource::Api));
    assert_eq!(api.code, Some(ErrorCode::NotFound));
    let daemon = told(
        409,
        r#"{"statusCode":409,"message":"exists","code":"GIT_BRANCH_EXISTS","source":"DAYTONA_DAEMON"}"#,
    );
    assert_eq!(daemon.code, Some(ErrorCode::GitBranchExists));
    assert_eq!(daemon.origin, Some(ErrorSource::Daemon));
}

#[test]
fn anything_else_is_read_as_far_as_it_goes() {
    for (body, message) in [
        (r#"{"error":"Unauthorized"}"#, "Unauthorized"),
        (r#"{"message":["a bad","b bad"]}"#, "a bad; b bad"),
        (r#"{"errors":["no space"],"files":[]}"#, "no space"),
        ("plain words\n", "plain words"),
        ("<html>502</html>", "Bad Gateway"),
        ("", "Bad Gateway"),
        ("[1]", "[1]"),
        (r#"{"message":7}"#, "Bad Gateway"),
    ] {
        assert_eq!(told(502, body).message, message, "{body}");
    }
}

#[test]
fn a_message_is_short_and_never_holds_the_key() {
    let told = told(400, &format!("Bearer dtn_0123456789 {}", "ü".repeat(5_000)));
    assert!(told.message.starts_with("Bearer [hidden] "));
    assert_eq!(told.message.chars().count(), MESSAGE_CHARACTERS_MAX + 1);
}

#[test]
fn a_redirect_is_no_answer() {
    let key = Secret::new("k");
    let error = refusal("test", 302, &HeaderMap::new(), b"", &key);
    assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
}

#[test]
fn the_longest_wait_that_is_asked_counts() {
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    for (pairs, seconds) in [
        (&[] as &[_], None),
        (&[("retry-after", "3")], Some(3)),
        (
            &[("Retry-After", "3"), ("Retry-After-sandbox-create", "9")],
            Some(9),
        ),
        (&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], None),
        (&[("retry-after", "99999999")], Some(3600)),
        (
            &[
                ("X-RateLimit-Remaining-authenticated", "0"),
                ("X-RateLimit-Reset-authenticated", "12"),
                ("X-RateLimit-Remaining-anonymous", "5"),
                ("X-RateLimit-Reset-anonymous", "50"),
            ],
            Some(12),
        ),
        (
            &[
                ("X-RateLimit-Remaining", "0"),
                ("X-RateLimit-Reset", "1800000004"),
            ],
            Some(4),
        ),
    ] {
        assert_eq!(
            retry_after(&headers(pairs), now),
            seconds.map(Duration::from_secs),
            "{pairs:?}"
        );
    }
}
