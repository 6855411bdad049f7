//! An environment for one test: folders of its own, a git identity, and the real binary.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::process::{Pid, Signal};

/// Long enough for a loaded machine, and never waited for in full by a test that passes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Folders that end with the test.
pub(crate) struct TestEnvironment {
    root: tempfile::TempDir,
    variables: Vec<(OsString, OsString)>,
}

impl TestEnvironment {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["home", "tmp"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        // In the home folder: Holm hands no `GIT_*` variable on.
        fs::write(
            root.path().join("home/.gitconfig"),
            "[user]\nname = Test\nemail = test@example.org\n[init]\ndefaultBranch = main\n",
        )
        .unwrap();
        let at = |name: &str| root.path().join(name).into_os_string();
        let variables = vec![
            ("HOLM_DATA_DIR".into(), at("data")),
            ("HOME".into(), at("home")),
            ("TMPDIR".into(), at("tmp")),
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("LANG".into(), "C.UTF-8".into()),
        ];
        Self { root, variables }
    }

    /// Adds or replaces a variable of the caller's environment.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Takes a variable out of the caller's environment.
    #[must_use]
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// A program in the test's folder and environment, without input.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.variables.iter().cloned())
            .current_dir(self.root.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn holm<I>(&self, arguments: I) -> Command
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        // Where tests run from an archive, the path at build time means nothing.
        let program = std::env::var_os("NEXTEST_BIN_EXE_holm")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_holm").into());
        let mut command = self.program(program);
        command.args(arguments);
        command
    }

    pub(crate) fn run<I>(&self, arguments: I) -> Output
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        self.finish(self.holm(arguments).spawn().unwrap())
    }

    pub(crate) fn run_with_input<I>(&self, arguments: I, input: &[u8]) -> Output
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let mut child = self.holm(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Written beside the reading, so that neither pipe can fill up.
        std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input).unwrap());
            self.finish(child)
        })
    }

    /// Waits for the end, and collects what has not been read yet.
    pub(crate) fn finish(&self, child: Child) -> Output {
        let output = child.wait_with_output().unwrap();
        Output {
            status: output.status,
            stdout: output.stdout,
            stderr: output.stderr,
            root: self.root.path().to_string_lossy().into_owned(),
        }
    }

    /// What git says in a folder of the test.
    #[track_caller]
    pub(crate) fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let mut command = self.program("git");
        let output = command
            .args(arguments)
            .current_dir(self.path(folder))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A repository with one commit that holds the file `README`.
    pub(crate) fn repository(&self, name: &str) {
        fs::create_dir(self.path(name)).unwrap();
        self.git(name, &["init", "--quiet"]);
        fs::write(self.path(name).join("README"), "hello\n").unwrap();
        self.git(name, &["add", "."]);
        self.git(name, &["commit", "--quiet", "--message", "first"]);
    }

    /// Nothing of any sandbox is left: no folder, no worktree, no mount.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert_eq!(names_in(&self.path("data/boxes")), [""; 0]);
        assert_eq!(names_in(&self.path("tmp")), [""; 0]);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let root = self.root.path().to_str().unwrap();
        assert!(!mounts.contains(root), "still mounted below {root}");
    }
}

impl Drop for TestEnvironment {
    /// A test that fails leaves sandboxes that stay; their boxes must not outlive it.
    fn drop(&mut self) {
        crate::server::end_boxes(self);
        for id in names_in(&self.path("data/boxes")) {
            let record = self.path("data/boxes").join(id).join("record.json");
            let record = fs::read(record).unwrap_or_default();
            let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
            let init = record["init"]["pid"].as_i64();
            let init = init.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
            if let Some(init) = init.filter(|init| is_box(*init)) {
                let _gone = rustix::process::kill_process(init, Signal::KILL);
            }
        }
    }
}

/// A number may have been given to another process since it was written down.
fn is_box(pid: Pid) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    line.is_ok_and(|line| line.starts_with(b"holm: box"))
}

pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// What a command said, and how it ended. Shown whole, with what differs from run to run replaced.
#[must_use]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    root: String,
}

impl Output {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// What it wrote to standard output, for a command that must have succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.code(), Some(0), "{self}");
        self.text()
    }

    /// Standard output as text, without the last line break.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim_end().to_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::os::unix::process::ExitStatusExt as _;
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => writeln!(formatter, "exit code: {code}")?,
            (None, signal) => writeln!(formatter, "signal: {signal:?}")?,
        }
        for (name, bytes) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !bytes.is_empty() {
                let text = String::from_utf8_lossy(bytes);
                writeln!(
                    formatter,
                    "----- {name}\n{}",
                    stable(&text, &self.root).trim_end()
                )?;
            }
        }
        Ok(())
    }
}

/// Replaces the test's folder, ids, commits and times.
pub(crate) fn stable(text: &str, root: &str) -> String {
    let text = text.replace(root, "[ROOT]");
    let lines: Vec<String> = text
        .lines()
        .map(|line| stable_line(line.trim_end()))
        .collect();
    lines.join("\n")
}

fn stable_line(line: &str) -> String {
    let mut stable = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_word = |character: char| character.is_ascii_alphanumeric();
        let end = rest
            .find(|character| is_word(character) != is_word(first))
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let is_hex = word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        match word.len() {
            8 if is_hex => stable.push_str("[ID]"),
            40 if is_hex => stable.push_str("[COMMIT]"),
            _ => stable.push_str(word),
        }
        rest = after;
    }
    for key in ["\"duration_ms\":", "\"created_unix_seconds\":"] {
        stable = without_number_after(&stable, key);
    }
    stable
}

fn without_number_after(text: &str, key: &str) -> String {
    match text.split_once(key) {
        Some((before, after)) => {
            let after = after.trim_start_matches(|character: char| character.is_ascii_digit());
            format!("{before}{key}[N]{after}")
        }
        None => text.to_owned(),
    }
}

/// A process of a command that is still running.
pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Reads standard output up to and including `end`.
#[track_caller]
pub(crate) fn read_until(child: &mut Child, end: &str) -> String {
    let stdout = child.stdout.as_mut().unwrap();
    read_stream_until(stdout, end)
}

#[track_caller]
pub(crate) fn read_stream_until(stream: &mut impl std::io::Read, end: &str) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end.as_bytes()) {
        let count = stream.read(&mut byte).unwrap();
        assert_eq!(count, 1, "ended at: {}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads and throws away, and says how much it was.
pub(crate) fn drain(stream: &mut impl std::io::Read, bytes_max: u64) -> u64 {
    std::io::copy(&mut stream.take(bytes_max), &mut std::io::sink()).unwrap()
}

/// Waits for a state, not for time.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        pause(Duration::from_millis(10));
    }
}

/// Lets time pass, for tests in which time is what differs.
pub(crate) fn pause(duration: Duration) {
    let pause = Timespec::try_from(duration).unwrap();
    rustix::event::poll(&mut [], Some(&pause)).unwrap();
}

/// A word that no other process on the machine has on its command line.
pub(crate) fn token() -> String {
    format!("holm-token-{}", holm_sandbox_linux::random_hex())
}

/// How many processes of the machine, in boxes or not, have the token on their command line.
pub(crate) fn processes_with(token: &str) -> usize {
    let own = std::process::id().to_string();
    names_in(Path::new("/proc"))
        .into_iter()
        .filter(|name| name.parse::<u32>().is_ok() && *name != own)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(token.len())
                .any(|part| part == token.as_bytes())
        })
        .count()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A terminal: the side that a program gets, and the side that a person sits at.
pub(crate) fn terminal() -> (fs::File, fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = fs::File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    (theirs, ours.into())
}
