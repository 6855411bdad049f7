//! From argv to a shell command, for the remote backends that take nothing else.
//!
//! **Invariant:** each argument is wrapped in single quotes, in which a POSIX shell reads every character as itself;
//! a single quote closes them, stands escaped and opens them again. This is the only way from argv to a shell string.

use crate::{Result, SandboxError};

/// A shell command that runs exactly this argv.
///
/// # Errors
///
/// [`SandboxError::EmptyArgv`] for no argument at all, [`SandboxError::NulByte`] for what no shell can be told.
pub fn shell_quote<S: AsRef<str>>(argv: &[S]) -> Result<String> {
    if argv.is_empty() {
        return Err(SandboxError::EmptyArgv);
    }
    let mut command = String::new();
    for argument in argv {
        let argument = argument.as_ref();
        if argument.contains('\0') {
            return Err(SandboxError::NulByte {
                what: "an argument",
            });
        }
        if !command.is_empty() {
            command.push(' ');
        }
        command.push('\'');
        command.push_str(&argument.replace('\'', r"'\''"));
        command.push('\'');
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ac_13_simple_arguments() {
        assert_eq!(shell_quote(&["echo", "hello"]).unwrap(), "'echo' 'hello'");
    }

    #[test]
    fn ac_13_single_quotes() {
        assert_eq!(shell_quote(&["echo", "it's"]).unwrap(), r"'echo' 'it'\''s'");
    }

    #[test]
    fn ac_13_double_quotes() {
        assert_eq!(
            shell_quote(&["echo", r#"say "hi""#]).unwrap(),
            r#"'echo' 'say "hi"'"#
        );
    }

    #[test]
    fn ac_13_spaces() {
        assert_eq!(
            shell_quote(&["git", "commit", "-m", "fix: the bug"]).unwrap(),
            "'git' 'commit' '-m' 'fix: the bug'"
        );
    }

    #[test]
    fn ac_13_backticks_and_dollar_signs() {
        assert_eq!(
            shell_quote(&["echo", "`whoami` $HOME"]).unwrap(),
            "'echo' '`whoami` $HOME'"
        );
    }

    #[test]
    fn ac_13_both_kinds_of_quotes() {
        assert_eq!(
            shell_quote(&["git", "commit", "-m", r#"it's a "test""#]).unwrap(),
            r#"'git' 'commit' '-m' 'it'\''s a "test"'"#
        );
    }

    #[test]
    fn ac_14_an_empty_argument_is_kept() {
        assert_eq!(shell_quote(&["echo", ""]).unwrap(), "'echo' ''");
    }

    #[test]
    fn an_empty_argv_is_refused() {
        assert_eq!(
            shell_quote::<&str>(&[]).unwrap_err().to_string(),
            "Empty argv"
        );
    }

    #[test]
    fn a_nul_is_refused() {
        let error = shell_quote(&["echo", "a\0b"]).unwrap_err();
        assert_eq!(error.to_string(), "an argument contains a NUL byte");
    }

    /// What a real shell makes of the arguments, each ended by a NUL.
    fn arguments_seen_by_sh(arguments: &[String]) -> Vec<u8> {
        // `printf` repeats its format for each argument.
        let mut argv = vec!["printf".to_owned(), r"%s\0".to_owned()];
        argv.extend_from_slice(arguments);
        let output = Command::new("sh")
            .arg("-c")
            .arg(shell_quote(&argv).unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// Anything but NUL, with the characters that mean something to a shell much more often than by chance.
    fn argument() -> impl Strategy<Value = String> {
        prop_oneof!["[^\0]{0,20}", "[-'\"`$\\\\ \n\t;&|<>(){}*?!#~=%a-c]{0,20}",]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_real_shell_reads_back_the_same_arguments(
            arguments in proptest::collection::vec(argument(), 1..5)
        ) {
            let expected: Vec<u8> =
                arguments.iter().flat_map(|argument| argument.bytes().chain([0])).collect();
            prop_assert_eq!(arguments_seen_by_sh(&arguments), expected);
        }
    }
}
