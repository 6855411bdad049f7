//! What callers of a sandbox at Daytona get when the way there or the server behaves badly; and that no sandbox is left.

mod commands;
mod ending;
mod files;
mod making;
mod sockets;

use std::time::Instant;

use holm_sandbox::{Exec, ExecOutcome, Sandbox as _, SandboxError, UncommittedWork};
use holm_sandbox_backends::daytona::{
    DaytonaOptions, DaytonaSandbox, GitHub, SandboxOptions, create_daytona_sandbox,
};
use holm_testkit::{GitServer, Push, Served, TestRepository};
use holm_testserver::{FaultyProxy, TestServer};

use crate::support::PATIENCE;
use crate::support::daytona::REPO;

/// A server behind a proxy that can misbehave.
struct Setting {
    proxy: FaultyProxy,
    /// Where to clone from, and what, for sandboxes with a repository.
    git: Option<(GitServer, TestRepository)>,
    bundles: tempfile::TempDir,
    server: TestServer,
}

impl Setting {
    fn new() -> Self {
        let server = TestServer::start();
        Self {
            proxy: server.faulty_proxy(),
            git: None,
            bundles: tempfile::tempdir().unwrap(),
            server,
        }
    }

    fn with_repository() -> Self {
        let git = GitServer::new();
        let repository = TestRepository::new();
        let served = Served {
            path: repository.path().to_path_buf(),
            token: None,
            push: Push::Allowed,
        };
        git.serve(REPO, served);
        Self {
            git: Some((git, repository)),
            ..Self::new()
        }
    }

    fn options(&self) -> SandboxOptions {
        let mut daytona = DaytonaOptions {
            api_url: Some(self.proxy.api_url()),
            api_key: Some(self.server.api_key().into()),
            bundles: Some(self.bundles.path().to_path_buf()),
            ..DaytonaOptions::default()
        };
        if let Some((git, _)) = &self.git {
            daytona.github = GitHub {
                git_base: git.url(),
                api_base: git.url(),
            };
            daytona.network_allow_list = Some(format!("{}/32", git.address().ip()));
        }
        SandboxOptions {
            repo: self.git.as_ref().map(|_| REPO.to_owned()),
            branch: "fix".to_owned(),
            operation_timeout: None,
            daytona,
            github_token: None,
        }
    }

    fn create(&self) -> Result<DaytonaSandbox, SandboxError> {
        self.server.block_on(create_daytona_sandbox(self.options()))
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.server.block_on(work)
    }

    /// Ends the faults, every one of which has struck.
    fn heal(&self) {
        let struck = self.proxy.heal();
        assert!(struck.iter().all(|times| *times > 0), "{struck:?}");
    }

    fn assert_no_sandbox_is_left(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = self.server.sandboxes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "still there: {left:?}");
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
    }

    /// The end of a test: everything is well again, and the sandbox goes.
    fn finish(&self, sandbox: &DaytonaSandbox) {
        self.heal();
        self.end(sandbox);
    }

    /// The sandbox goes, whatever happens on the way.
    fn end(&self, sandbox: &DaytonaSandbox) {
        let report = self.run(sandbox.teardown(UncommittedWork::Discard));
        assert_eq!(report.warnings, Vec::<String>::new());
        assert_eq!(report.leftovers, Vec::<std::path::PathBuf>::new());
        self.assert_no_sandbox_is_left();
    }
}

async fn sh(sandbox: &DaytonaSandbox, script: &str) -> Result<ExecOutcome, SandboxError> {
    let exec = Exec::new(["sh", "-c", script]).timeout(PATIENCE);
    sandbox.exec(exec).await
}

/// What a script prints, without the last newline.
async fn told(sandbox: &DaytonaSandbox, script: &str) -> String {
    let outcome = sh(sandbox, script).await.unwrap();
    assert!(outcome.success(), "{outcome:?}");
    outcome.stdout_text().trim_end().to_owned()
}

/// What a user sees: the error, each of its causes, and the hint.
fn shown(error: &SandboxError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!("\n{error}"));
        cause = error.source();
    }
    if let SandboxError::Backend {
        hint: Some(hint), ..
    } = error
    {
        text.push_str(&format!("\nhint: {hint}"));
    }
    text
}
