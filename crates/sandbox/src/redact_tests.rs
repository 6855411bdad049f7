//! What is taken out, what is left, and in which order.

use proptest::prelude::*;

use super::*;

#[test]
fn the_name_decides() {
    let redactor = Redactor::from_env([
        ("GITHUB_TOKEN", "ghp_0123456789"),
        ("aws_secret_access_id", "AKIA0123456789"),
        ("Password1", "correct-horse"),
        ("KEYBOARD", "qwertz-layout"),
        ("CREDENTIALS_FILE", "/home/me/.cred"),
        ("HOME", "/home/somebody"),
    ]);
    assert_eq!(
        redactor.redact(
            "ghp_0123456789 AKIA0123456789 correct-horse qwertz-layout /home/me/.cred /home/somebody"
        ),
        "[REDACTED:GITHUB_TOKEN] [REDACTED:aws_secret_access_id] [REDACTED:Password1] \
         [REDACTED:KEYBOARD] [REDACTED:CREDENTIALS_FILE] /home/somebody"
    );
}

#[test]
fn short_values_of_the_environment_stay() {
    let redactor = Redactor::from_env([("TOKEN", "1234567"), ("KEY", ""), ("SECRET", "12345678")]);
    assert_eq!(
        redactor.redact("1234567 12345678"),
        "1234567 [REDACTED:SECRET]"
    );
}

#[test]
fn a_named_secret_is_taken_out_however_short() {
    let redactor = Redactor::default()
        .with_secret("PIN", &Secret::new("1234"))
        .with_secret("EMPTY", &Secret::new(""));
    assert_eq!(redactor.redact("pin 1234."), "pin [REDACTED:PIN].");
    assert_eq!(redactor.secret_bytes_max(), 4);
}

#[test]
fn the_longest_value_wins_and_is_gone_whole() {
    let redactor = Redactor::from_env([
        ("A_KEY", "password"),
        ("B_KEY", "password-and-more"),
        ("C_KEY", "sword-an"),
    ]);
    assert_eq!(
        redactor.redact("password-and-more password"),
        "[REDACTED:B_KEY] [REDACTED:A_KEY]"
    );
}

#[test]
fn what_was_put_in_is_not_looked_at_again() {
    let redactor = Redactor::from_env([("A_TOKEN", "some-value"), ("B_TOKEN", "REDACTED")])
        .with_secret("C", &Secret::new("A"));
    assert_eq!(redactor.redact("some-value"), "[REDACTED:A_TOKEN]");
}

#[test]
fn one_value_with_two_names_is_shown_under_the_first() {
    let redactor = Redactor::from_env([("B_TOKEN", "some-value"), ("A_TOKEN", "some-value")]);
    assert_eq!(redactor.redact("some-value"), "[REDACTED:A_TOKEN]");
}

#[test]
fn clean_text_is_not_copied() {
    let redactor = Redactor::from_env([("TOKEN", "some-value")]);
    assert!(matches!(
        redactor.redact("some-valu"),
        Cow::Borrowed("some-valu")
    ));
    assert!(matches!(
        Redactor::default().redact_bytes(b"x"),
        Cow::Borrowed(b"x")
    ));
}

#[test]
fn no_half_secret_is_left_at_the_cut() {
    let redactor = Redactor::from_env([("TOKEN", "some-value")]);
    assert_eq!(
        redactor.redact_then_truncate("ab some-value", 7),
        "ab [RED[truncated]"
    );
    assert_eq!(
        *redactor.redact_then_truncate_bytes(b"ab some-value", 7),
        *b"ab [RED[truncated]"
    );
    assert!(matches!(
        redactor.redact_then_truncate("ab", 7),
        Cow::Borrowed("ab")
    ));
}

#[cfg(unix)]
#[test]
fn a_value_that_is_no_text_is_found_and_leaves_text() {
    use std::os::unix::ffi::OsStringExt;

    let value = OsString::from_vec(b"\xa9\xa9\xa9\xa9\xc3\xa9\xa9\xc3".to_vec());
    let redactor = Redactor::from_env([(OsString::from("KEY"), value)]);
    assert_eq!(
        *redactor.redact_bytes(b"<\xa9\xa9\xa9\xa9\xc3\xa9\xa9\xc3>"),
        *b"<[REDACTED:KEY]>"
    );
    assert_eq!(redactor.redact("é"), "é");
}

#[test]
fn debug_shows_names_only() {
    let redactor = Redactor::from_env([("TOKEN", "some-value")]);
    assert_eq!(format!("{redactor:?}"), r#"Redactor(["TOKEN"])"#);
}

/// Secrets and text over so few letters that they overlap all the time.
fn crowded() -> impl Strategy<Value = (Vec<String>, String)> {
    (proptest::collection::vec("[ab]{1,5}", 0..4), "[abc]{0,40}")
}

fn redactor_of(secrets: &[String]) -> Redactor {
    secrets
        .iter()
        .enumerate()
        .fold(Redactor::default(), |redactor, (index, secret)| {
            redactor.with_secret(format!("{index}"), &Secret::new(secret.as_str()))
        })
}

proptest! {
    #[test]
    fn no_secret_survives((secrets, text) in crowded()) {
        let clean = redactor_of(&secrets).redact(&text).into_owned();
        // Markers hold neither `a` nor `b`, so all that is left of the text can be searched.
        for secret in &secrets {
            prop_assert!(!clean.contains(secret.as_str()), "{} in {}", secret, clean);
        }
    }

    #[test]
    fn the_order_of_the_secrets_does_not_matter((secrets, text) in crowded()) {
        let variables: Vec<(String, String)> = secrets
            .iter()
            .enumerate()
            .map(|(index, secret)| (format!("KEY{index}"), format!("{secret}{secret}aaaaaaaa")))
            .collect();
        let text = format!("{text}aaaaaaaa{text}");
        let forward = Redactor::from_env(variables.clone());
        let backward = Redactor::from_env(variables.into_iter().rev());
        prop_assert_eq!(forward.redact(&text), backward.redact(&text));
    }

    #[test]
    fn text_and_bytes_are_redacted_alike((secrets, text) in crowded(), bytes_max in 0_usize..50) {
        let redactor = redactor_of(&secrets);
        let clean = redactor.redact(&text);
        let bytes = redactor.redact_bytes(text.as_bytes());
        prop_assert_eq!(&*bytes, clean.as_bytes());
        let cut = redactor.redact_then_truncate(&text, bytes_max);
        prop_assert_eq!(&*cut, &*truncate(&clean, bytes_max));
    }
}
