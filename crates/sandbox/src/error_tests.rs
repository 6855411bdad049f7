//! The text, kind and hint of errors.

use super::*;

#[test]
fn ac_24_the_env_key_error_is_worded_as_in_the_seed() {
    let error = SandboxError::InvalidEnvKey {
        key: "A=B".to_owned(),
    };
    assert_eq!(
        error.to_string(),
        "Invalid env key \"A=B\" — must match [A-Za-z_][A-Za-z0-9_]*"
    );
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let error = SandboxError::NotFound {
        path: PathBuf::from("a\n\x1b[2Jb"),
    };
    assert_eq!(
        error.to_string(),
        "`a\\n\\u{1b}[2Jb` does not exist in the sandbox"
    );
    let error = SandboxError::Git {
        doing: "add worktree".to_owned(),
        detail: "fatal: no\n\thint\x07".to_owned(),
        hint: None,
    };
    assert_eq!(
        error.to_string(),
        "could not add worktree: fatal: no\n\thint\\u{7}"
    );
}

#[test]
fn a_source_is_not_repeated_in_the_text() {
    let source = || io::Error::from_raw_os_error(13);
    let errors = [
        SandboxError::Io {
            doing: "open".to_owned(),
            path: PathBuf::from("/x"),
            source: source(),
        },
        SandboxError::CommandNotExecutable {
            program: "x".to_owned(),
            source: source(),
        },
        SandboxError::Backend {
            doing: "start".to_owned(),
            hint: None,
            source: Box::new(source()),
        },
    ];
    for error in errors {
        let cause = error.source().unwrap().to_string();
        assert!(!error.to_string().contains(&cause), "{error}");
    }
}

#[test]
fn the_exit_codes_of_shells_can_be_told_apart() {
    let missing = SandboxError::CommandNotFound {
        program: "nope".to_owned(),
    };
    assert_eq!(missing.kind(), ErrorKind::CommandNotFound);
    assert_eq!(missing.to_string(), "command `nope` was not found");
    let refused = SandboxError::CommandNotExecutable {
        program: "nope".to_owned(),
        source: io::Error::from_raw_os_error(13),
    };
    assert_eq!(refused.kind(), ErrorKind::CommandNotExecutable);
}

#[test]
fn hints_are_handed_on() {
    let error = SandboxError::Invalid {
        what: "x".to_owned(),
        hint: "do y".to_owned(),
    };
    assert_eq!(error.hint().as_deref(), Some("do y"));
    assert_eq!(SandboxError::TornDown.hint(), None);
    assert_eq!(
        SandboxError::TornDown.to_string(),
        "the sandbox was torn down"
    );
}
