//! Chunks must not matter, and memory must stay bounded.

use proptest::prelude::*;

use super::*;
use crate::Secret;

fn redactor() -> Redactor {
    Redactor::from_env([
        ("TOKEN", "some-value"),
        ("LONG_TOKEN", "some-value-and-more"),
    ])
}

#[test]
fn ac_17_output_is_cut_at_the_cap() {
    let mut capture = Capture::new(5, Redactor::default());
    capture.push(b"hello");
    capture.push(b"");
    assert!(capture.kept.len() == 5 && capture.fit == Fit::All);
    capture.push(b" world");
    let captured = capture.finish();
    assert_eq!(
        captured,
        Captured {
            bytes: b"hello[truncated]".to_vec(),
            truncated: true
        }
    );
}

#[test]
fn output_of_exactly_the_cap_is_whole() {
    let mut capture = Capture::new(5, Redactor::default());
    capture.push(b"hello");
    assert_eq!(
        capture.finish(),
        Captured {
            bytes: b"hello".to_vec(),
            truncated: false
        }
    );
}

#[test]
fn a_secret_across_chunks_and_cap_leaves_nothing() {
    let mut capture = Capture::new(6, redactor());
    capture.push(b"ab some-");
    capture.push(b"value");
    assert_eq!(capture.finish().bytes, b"ab [RE[truncated]");
}

#[test]
fn a_shrunk_secret_makes_room_and_does_not_bare_the_next() {
    // The marker is shorter than the value, so more raw output fits than the cap has bytes.
    let secret = "x".repeat(100);
    let redactor = Redactor::default().with_secret("A", &Secret::new(secret.as_str()));
    let mut capture = Capture::new(30, redactor);
    capture.push(secret.as_bytes());
    capture.push(&secret.as_bytes()[..99]);
    capture.push(b"x and then some more");
    assert_eq!(
        capture.finish().bytes,
        b"[REDACTED:A][REDACTED:A] and t[truncated]"
    );
}

#[test]
fn memory_is_bounded_while_output_comes() {
    let mut capture = Capture::new(16, redactor());
    for _ in 0..1000 {
        capture.push(b"some-value-and-mor");
        assert!(
            capture.kept.len() + capture.stream.held.len() < 16 + redactor().secret_bytes_max()
        );
    }
}

#[test]
fn only_what_may_be_a_secret_is_held_back() {
    let mut stream = StreamRedactor::new(redactor());
    assert_eq!(stream.push(b"a line\n"), b"a line\n");
    assert_eq!(stream.push(b"so"), b"");
    assert_eq!(stream.push(b" what\nsome-value"), b"so what\n");
    // It could still become the longer one.
    assert_eq!(stream.push(b"-an"), b"");
    assert_eq!(stream.push(b"!"), b"[REDACTED:TOKEN]-an!");
    assert_eq!(stream.push(b"some-val"), b"");
    assert_eq!(stream.finish(), b"some-val");
}

#[test]
fn debug_does_not_show_what_is_held_back() {
    let mut stream = StreamRedactor::new(redactor());
    assert_eq!(stream.push(b"some-valu"), b"");
    assert_eq!(
        format!("{stream:?}"),
        r#"StreamRedactor { redactor: Redactor(["LONG_TOKEN", "TOKEN"]), held_bytes: 9 }"#
    );
}

/// Secrets, text of the same few letters, and where to cut it.
fn crowded() -> impl Strategy<Value = (Redactor, Vec<u8>, Vec<usize>)> {
    let secrets = proptest::collection::vec("[abé]{1,6}", 0..4);
    (
        secrets,
        "[abcé]{0,50}",
        proptest::collection::vec(0_usize..60, 0..8),
    )
        .prop_map(|(secrets, text, mut cuts)| {
            let redactor = secrets
                .iter()
                .fold(Redactor::default(), |redactor, secret| {
                    redactor.with_secret("N", &Secret::new(secret.as_str()))
                });
            let text = text.into_bytes();
            cuts.retain(|cut| *cut <= text.len());
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            (redactor, text, cuts)
        })
}

proptest! {
    #[test]
    fn a_stream_is_redacted_like_its_whole((redactor, text, cuts) in crowded()) {
        let mut stream = StreamRedactor::new(redactor.clone());
        let mut clean = Vec::new();
        for pair in cuts.windows(2) {
            clean.extend(stream.push(&text[pair[0]..pair[1]]));
            prop_assert!(stream.held.is_empty() || stream.held.len() < redactor.secret_bytes_max());
        }
        clean.extend(stream.finish());
        prop_assert_eq!(clean, redactor.redact_bytes(&text).into_owned());
    }

    #[test]
    fn a_capture_is_its_whole_redacted_then_truncated(
        (redactor, text, cuts) in crowded(),
        bytes_max in 0_usize..80,
    ) {
        let mut capture = Capture::new(bytes_max, redactor.clone());
        for pair in cuts.windows(2) {
            capture.push(&text[pair[0]..pair[1]]);
        }
        let captured = capture.finish();
        let expected = redactor.redact_then_truncate_bytes(&text, bytes_max);
        prop_assert_eq!(captured.truncated, redactor.redact_bytes(&text).len() > bytes_max);
        prop_assert_eq!(captured.bytes, expected.into_owned());
    }
}
