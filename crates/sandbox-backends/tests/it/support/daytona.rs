//! Sandboxes at Daytona for tests: a server of this machine, and a stand-in for GitHub that they can reach.
//!
//! With `HOLM_CONFORMANCE_DAYTONA_URL` and `DAYTONA_API_KEY` the tests use the server there instead, for example the
//! cloud. Its sandboxes have to reach this machine, at `HOLM_CONFORMANCE_ADDRESS` if that is not its own address.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Instant;

use async_trait::async_trait;
use holm_daytona_client::{Client, ListQuery};
use holm_sandbox::{Sandbox, Secret, TeardownReport};
use holm_sandbox_backends::daytona::{
    DaytonaOptions, DaytonaSandbox, GitHub, LABEL_RUN, Labels, SandboxOptions,
    create_daytona_sandbox,
};
use holm_testkit::conformance::{Backend, BranchesBegin};
use holm_testkit::{GitServer, Push, Served, TestRepository};
use holm_testserver::TestServer;
use tempfile::TempDir;

use super::PATIENCE;
use super::recorder::Recorder;

/// The repository that a test's sandbox is made from.
pub(crate) const REPO: &str = "acme/widgets";

/// A server, a stand-in for GitHub, and a run of one's own.
#[derive(Debug)]
pub(crate) struct DaytonaBackend {
    /// `None` where another server is used.
    server: Option<TestServer>,
    pub(crate) git: GitServer,
    pub(crate) options: DaytonaOptions,
    /// Where work comes home to.
    _bundles: TempDir,
    /// Served as long as this is.
    repositories: Mutex<Vec<TestRepository>>,
    run: String,
}

/// A server has a runtime of its own, which cannot be used on a thread of another.
fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

impl DaytonaBackend {
    pub(crate) fn new() -> Self {
        let git = match std::env::var("HOLM_CONFORMANCE_ADDRESS") {
            Ok(address) => GitServer::at(address.parse::<IpAddr>().unwrap()),
            Err(_) => GitServer::new(),
        };
        let bundles = tempfile::tempdir().unwrap();
        let run = holm_sandbox_linux::random_hex();
        let mut options = DaytonaOptions {
            labels: Labels {
                run: Some(run.clone()),
                ..Labels::default()
            },
            github: GitHub {
                git_base: git.url(),
                api_base: git.url(),
            },
            bundles: Some(bundles.path().to_path_buf()),
            ..DaytonaOptions::default()
        };
        let mut server = None;
        match std::env::var("HOLM_CONFORMANCE_DAYTONA_URL") {
            Ok(url) => {
                options.api_url = Some(url);
                options.api_key = std::env::var("DAYTONA_API_KEY").ok().map(Secret::new);
            }
            Err(_) => {
                let started = aside(TestServer::start);
                options.api_url = Some(started.api_url());
                options.api_key = Some(started.api_key().into());
                // Addresses of a private network are closed unless they are named.
                options.network_allow_list = Some(format!("{}/32", git.address().ip()));
                server = Some(started);
            }
        }
        Self {
            server,
            git,
            options,
            _bundles: bundles,
            repositories: Mutex::default(),
            run,
        }
    }

    /// The same, with a look at all that is sent to the server.
    pub(crate) fn recorded() -> (Self, Recorder) {
        let mut backend = Self::new();
        let url = backend.options.api_url.clone().unwrap();
        let server = url.trim_start_matches("http://").trim_end_matches("/api");
        let recorder = Recorder::in_front_of(server.to_owned());
        backend.options.api_url = Some(format!("http://{}/api", recorder.address()));
        (backend, recorder)
    }

    /// Serves a repository, or where it comes from, as [`REPO`].
    pub(crate) fn serve(&self, repository: &TestRepository, token: Option<&str>) {
        let origin = repository.try_git(["remote", "get-url", "origin"]);
        let origin = String::from_utf8_lossy(&origin.stdout).trim().to_owned();
        let (path, push) = match origin.as_str() {
            "" => (repository.path().to_path_buf(), Push::Allowed),
            path if std::path::Path::new(path).exists() => (path.into(), Push::Allowed),
            // A remote that cannot be pushed to.
            _ => (repository.path().to_path_buf(), Push::Refused),
        };
        self.repositories.lock().unwrap().push(repository.clone());
        let token = token.map(str::to_owned);
        self.git.serve(REPO, Served { path, token, push });
    }

    pub(crate) fn sandbox_options(&self, branch: &str) -> SandboxOptions {
        SandboxOptions {
            repo: Some(REPO.to_owned()),
            branch: branch.to_owned(),
            operation_timeout: None,
            daytona: self.options.clone(),
            github_token: None,
        }
    }

    pub(crate) async fn create(&self, branch: &str) -> DaytonaSandbox {
        let options = self.sandbox_options(branch);
        create_daytona_sandbox(options).await.unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.options.client().unwrap()
    }

    /// The sandboxes of this test that exist.
    pub(crate) async fn existing(&self) -> Vec<String> {
        let query = ListQuery {
            labels: [(LABEL_RUN.to_owned(), self.run.clone())].into(),
            ..ListQuery::default()
        };
        let client = self.client();
        let listed = client.list(query).all(100).await.unwrap();
        listed.into_iter().map(|sandbox| sandbox.id).collect()
    }

    pub(crate) async fn wait_until_nothing_exists(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = self.existing().await;
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "still there: {left:?}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

impl Drop for DaytonaBackend {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            aside(move || drop(server));
        }
    }
}

#[async_trait]
impl Backend for DaytonaBackend {
    async fn repository_sandbox(
        &self,
        repository: &TestRepository,
        branch: &str,
    ) -> Box<dyn Sandbox> {
        self.serve(repository, None);
        Box::new(self.create(branch).await)
    }

    fn bring_home(&self, repository: &TestRepository, report: &TeardownReport) {
        for kept in &report.branches {
            let names = format!("+refs/heads/{0}:refs/heads/{0}", kept.name);
            match &kept.bundle {
                Some(bundle) => repository.git(["fetch", bundle.to_str().unwrap(), &names]),
                // It was pushed.
                None => repository.git(["fetch", "origin", &names]),
            };
        }
    }

    fn race_rounds(&self) -> u32 {
        // Each is three requests.
        40
    }

    fn branches_begin(&self) -> BranchesBegin {
        BranchesBegin::InTheSandbox
    }

    fn assert_nothing_is_left(&self) {
        aside(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(self.wait_until_nothing_exists());
        });
    }
}
