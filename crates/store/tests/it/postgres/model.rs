//! The model's histories, over Postgres. A crash kills the server's tasks while its COMMIT is on its way.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use holm_store::{PostgresOptions, PostgresStreams};
use holm_testkit::PostgresServer;
use holm_thread_log::{Rules, StreamStore};
use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::{ReferenceStateMachine as _, StateMachineTest as _};
use tokio::runtime::{Builder, Runtime};

use super::client;
use super::proxy::{Fault, Moment, Proxy};
use crate::model::{AnySteps, CrashAt, Histories, Subject};

/// One server for all histories, each of which has a database of its own.
static SERVER: Mutex<Option<Server>> = Mutex::new(None);

#[derive(Debug, Clone)]
struct Server {
    url: String,
    socket: PathBuf,
    user: &'static str,
}

#[derive(Debug)]
struct Postgres {
    store: PostgresStreams,
    rules: Arc<dyn Rules>,
    proxy: Proxy,
    database: String,
    /// The proxy's, which outlives a crash.
    _machine: Runtime,
    /// Where the store's tasks live, until they are killed.
    process: Arc<Mutex<Option<Runtime>>>,
}

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// Waits for something on a runtime of its own: the caller is inside of another one.
fn wait<T: Send>(runtime: &Runtime, future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| runtime.block_on(future)).join().unwrap())
}

fn end(process: &Mutex<Option<Runtime>>) {
    if let Some(process) = process.lock().unwrap().take() {
        process.shutdown_background();
    }
}

impl Postgres {
    fn open(machine: Runtime, proxy: Proxy, database: String, rules: Arc<dyn Rules>) -> Self {
        let process = runtime();
        let url = proxy.url_of(&database);
        let connecting =
            PostgresStreams::connect(&url, Arc::clone(&rules), PostgresOptions::default());
        let store = wait(&process, connecting).unwrap();
        Self {
            store,
            rules,
            proxy,
            database,
            _machine: machine,
            process: Arc::new(Mutex::new(Some(process))),
        }
    }
}

impl Subject for Postgres {
    fn start(rules: Arc<dyn Rules>) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let server = SERVER.lock().unwrap().clone().unwrap();
        let database = format!("history_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let machine = runtime();
        let make = format!("CREATE DATABASE {database}");
        let preparing = async {
            client(&server.url)
                .await
                .batch_execute(&make)
                .await
                .unwrap();
            Proxy::before(server.socket, server.user).await
        };
        let proxy = wait(&machine, preparing);
        Self::open(machine, proxy, database, rules)
    }

    fn store(&self) -> &dyn StreamStore {
        &self.store
    }

    fn crash_next(&self, at: CrashAt) {
        let process = Arc::clone(&self.process);
        let moment = match at {
            CrashAt::BeforeCommit => Moment::BeforeCommit,
            // Whether somebody was woken makes no difference to a database.
            CrashAt::BetweenCommitAndWake | CrashAt::BetweenWakeAndAnswer => Moment::AfterCommit,
        };
        let kill = Arc::new(move || end(&process));
        self.proxy.break_next_commit(Fault::Kill(moment, kill));
    }

    fn reopen(self) -> Self {
        let Self {
            store,
            rules,
            proxy,
            database,
            _machine: machine,
            process,
        } = self;
        end(&process);
        drop(store);
        proxy.forget_faults();
        Self::open(machine, proxy, database, rules)
    }
}

#[test]
fn any_history_is_the_models() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    *SERVER.lock().unwrap() = Some(Server {
        url: server.url(),
        socket: server.socket(),
        user: server.user(),
    });
    let config = Config {
        cases: 6,
        failure_persistence: None,
        ..Config::default()
    };
    let histories = AnySteps::sequential_strategy(1..30);
    let run = TestRunner::new(config.clone()).run(&histories, |(state, steps, seen)| {
        Histories::<Postgres>::test_sequential(config.clone(), state, steps, seen);
        Ok(())
    });
    run.unwrap();
}
