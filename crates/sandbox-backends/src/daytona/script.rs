//! The script that runs one command in a sandbox, as text. See `command.sh`.
//!
//! **Invariants:** argv, variables and folders are quoted words; the command is the leader of a session and has its id in
//! its environment, so that all that it starts can be found; what its own shell says is not in its outputs.

use std::ffi::OsStr;
use std::path::Path;

use holm_sandbox::{Exec, Result, Stdin, shell_quote};

use super::words::Words;

pub(super) const PRELUDE: &str = include_str!("prelude.sh");
const COMMAND: &str = include_str!("command.sh");
const HELPER: &str = include_str!("helper.sh");
const KILL: &str = include_str!("kill.sh");

/// Waits for whole chunks that were uploaded beside the script, and hands them on.
const FEED: &str = r#"exec 4<&0
mkdir -p -- "${holm_files%/*}"
mkfifo -- "$holm_files.pipe"
(while IFS= read -r holm_chunk && [ "$holm_chunk" != end ]; do
  cat -- "$holm_files.$holm_chunk" || break
  rm -f -- "$holm_files.$holm_chunk"
done) <&4 >"$holm_files.pipe" 3>&- 4<&- &
holm_feeder=$!
"#;

/// How long a script may be to stand in a command; longer ones are uploaded.
pub(super) const INLINE_BYTES_MAX: usize = 32 * 1024;

/// A script for one command.
#[derive(Debug)]
pub(super) struct CommandScript {
    pub(super) text: String,
    /// It holds a secret, so it must not stand in a command.
    pub(super) is_secret: bool,
}

/// `files` is where what belongs to the command is staged: a path that names of files are appended to.
pub(super) fn command(
    exec: &Exec,
    id: &str,
    root: &Path,
    cwd: &Path,
    files: &str,
) -> Result<CommandScript> {
    let mut words = Words::default();
    let argv: Result<Vec<String>> = exec.argv.iter().map(|word| words.word(word)).collect();
    let argv = argv?.join(" ");
    let root = words.word(root.as_os_str())?;
    let cwd = words.word(cwd.as_os_str())?;
    let mut variables = String::new();
    let mut search = "$PATH".to_owned();
    let secret = exec
        .secret_env
        .iter()
        .map(|(key, value)| (key, OsStr::new(value.expose())));
    let plain = exec.env.iter().map(|(key, value)| (key, value.as_os_str()));
    for (key, value) in plain.chain(secret) {
        let word = words.word(value)?;
        if key.as_str() == "PATH" {
            search.clone_from(&word);
        }
        variables.push_str(&format!(" {key}={word}"));
    }
    let files = shell_quote(&[files])?;
    let (before, input, after) = match &exec.stdin {
        Stdin::Closed => (String::new(), "/dev/null", ""),
        Stdin::Bytes(_) => (
            "exec 5<\"$holm_files.in\"; rm -f -- \"$holm_files.in\"\n".to_owned(),
            "&5 5<&-",
            "",
        ),
        Stdin::Reader(_) => (
            FEED.to_owned(),
            "\"$holm_files.pipe\" 4<&-",
            "kill \"$holm_feeder\"; rm -f -- \"$holm_files\".*\n",
        ),
    };
    let decoded = words.before();
    let around = without_comments(COMMAND);
    let own = format!(
        r#"{decoded}holm_id={id}; holm_root={root}; holm_cwd={cwd}; holm_files={files}; holm_path={search}
set -- {argv}
{around}
{before}(exec "$holm_environment"{variables} HOLM_EXEC="$holm_id" ${{holm_apart:+"$holm_apart"}} "$holm_shell" -c 'printf "\036holm:%s:pid:%s\n" "$0" "$$" >&2; exec "$@"' "$holm_id" "$@" <{input} 2>&3 3>&-)
holm_code=$?
{after}holm_left=alone
if grep -qsaz "^HOLM_EXEC=$holm_id\$" /proc/[0-9]*/environ; then holm_left=left; fi
holm_say "end:$holm_code:$holm_left"
"#
    );
    Ok(CommandScript {
        text: format!("{}\n{own}", without_comments(PRELUDE)),
        is_secret: !exec.secret_env.is_empty(),
    })
}

/// Comments are for whoever reads this crate, not for the process list of a sandbox.
fn without_comments(script: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with('#') && !line.trim().is_empty();
    script
        .lines()
        .filter(is_code)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A shell command that runs a file operation.
pub(super) fn helper(arguments: &[&str]) -> Result<String> {
    let script = without_comments(&format!("{PRELUDE}\n{HELPER}"));
    let mut argv = vec!["sh", "-c", &script, "holm"];
    argv.extend(arguments);
    shell_quote(&argv)
}

/// A shell command that ends all processes of a command.
pub(super) fn kill(id: &str) -> Result<String> {
    shell_quote(&["sh", "-c", &without_comments(KILL), "holm", id])
}

/// A shell command that interrupts a command as a terminal would.
pub(super) fn interrupt(pid: u32) -> Result<String> {
    // Without `--`, which not every shell's own `kill` knows.
    let script = "kill -INT \"-$1\" 2>/dev/null || kill -INT \"$1\" 2>/dev/null; :";
    shell_quote(&["sh", "-c", script, "holm", &pid.to_string()])
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
