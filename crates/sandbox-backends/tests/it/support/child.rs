//! Another process of the same user, so that it can be killed: this test binary, started again.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child as Process, ChildStderr, Command, Stdio};

const SCENE_VARIABLE: &str = "HOLM_TEST_SCENE";
const FOLDER_VARIABLE: &str = "HOLM_TEST_FOLDER";
const REPOSITORY_VARIABLE: &str = "HOLM_TEST_REPOSITORY";

/// A second process, killed at the end of the test.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    said: BufReader<ChildStderr>,
}

/// What this child was started for: the scene, the host's folder and the repository.
pub(crate) fn child_scene() -> (String, std::path::PathBuf, std::path::PathBuf) {
    let folder = std::env::var_os(FOLDER_VARIABLE).unwrap();
    let repository = std::env::var_os(REPOSITORY_VARIABLE).unwrap();
    (
        std::env::var(SCENE_VARIABLE).unwrap(),
        folder.into(),
        repository.into(),
    )
}

/// Says something to the test that started this child.
pub(crate) fn told(line: &str) {
    eprintln!("told: {line}");
}

impl Child {
    /// Starts `test` of this binary again as a child.
    pub(crate) fn start(test: &str, scene: &str, folder: &Path, repository: &Path) -> Self {
        let command = Command::new(std::env::current_exe().unwrap());
        Self::start_with(command, test, scene, folder, repository)
    }

    /// The same on a host that allows no user namespaces, or `None` if that cannot be arranged here.
    pub(crate) fn start_without_namespaces(
        test: &str,
        scene: &str,
        folder: &Path,
        repository: &Path,
    ) -> Option<Self> {
        let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
        let wrapper = |arguments: &[&str]| {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "sh", "-c", forbid, "sh"]);
            command.args(arguments);
            command
        };
        let works = wrapper(&["true"])
            .output()
            .is_ok_and(|output| output.status.success());
        works.then(|| {
            let own = std::env::current_exe().unwrap();
            let command = wrapper(&[own.to_str().unwrap()]);
            Self::start_with(command, test, scene, folder, repository)
        })
    }

    fn start_with(
        mut command: Command,
        test: &str,
        scene: &str,
        folder: &Path,
        repository: &Path,
    ) -> Self {
        let mut process = command
            .args([
                test,
                "--exact",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(SCENE_VARIABLE, scene)
            .env(FOLDER_VARIABLE, folder)
            .env(REPOSITORY_VARIABLE, repository)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap());
        Self { process, said }
    }

    /// The next thing that it says.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let count = self.said.read_line(&mut line).unwrap();
            assert!(count > 0, "the child ended without a word: {all}");
            if let Some(told) = line.strip_prefix("told: ") {
                return told.trim_end().to_owned();
            }
            all.push_str(&line);
        }
    }

    /// Kills it without warning.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends it a signal.
    pub(crate) fn send(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end, whatever that is.
    pub(crate) fn ended(mut self) -> std::process::ExitStatus {
        self.process.wait().unwrap()
    }

    /// Waits for its end, which must be a good one.
    #[track_caller]
    pub(crate) fn wait(mut self) {
        assert!(self.process.wait().unwrap().success());
    }
}
