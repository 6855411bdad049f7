//! The model's histories, over SQLite.

use std::sync::{Arc, Mutex};

use holm_store::{Fault, FaultPoint, SqliteOptions, SqliteStreams};
use holm_thread_log::{Rules, StreamStore};
use proptest::test_runner::Config;
use proptest_state_machine::prop_state_machine;

use crate::model::{CrashAt, Histories, Subject};

#[derive(Debug)]
struct Sqlite {
    store: SqliteStreams,
    rules: Arc<dyn Rules>,
    crash: Arc<Mutex<Option<CrashAt>>>,
    folder: tempfile::TempDir,
}

impl Sqlite {
    fn open(folder: tempfile::TempDir, rules: Arc<dyn Rules>) -> Self {
        let crash: Arc<Mutex<Option<CrashAt>>> = Arc::default();
        let armed = Arc::clone(&crash);
        let options = SqliteOptions {
            rules: Arc::clone(&rules),
            // So little that entries move all the time.
            recent_bytes_max: 1_000,
            faults: Some(Arc::new(move |point| {
                let is_now = match *armed.lock().unwrap() {
                    None => false,
                    Some(CrashAt::BeforeCommit) => point == FaultPoint::Written,
                    Some(CrashAt::BetweenCommitAndWake) => point == FaultPoint::Committed,
                    Some(CrashAt::BetweenWakeAndAnswer) => point == FaultPoint::Woken,
                };
                if is_now { Fault::Crash } else { Fault::None }
            })),
            ..SqliteOptions::default()
        };
        let store = SqliteStreams::open(&folder.path().join("holm.db"), options).unwrap();
        Self {
            store,
            rules,
            crash,
            folder,
        }
    }
}

impl Subject for Sqlite {
    fn start(rules: Arc<dyn Rules>) -> Self {
        Self::open(tempfile::tempdir_in("/dev/shm").unwrap(), rules)
    }

    fn store(&self) -> &dyn StreamStore {
        &self.store
    }

    fn crash_next(&self, at: CrashAt) {
        *self.crash.lock().unwrap() = Some(at);
    }

    fn reopen(self) -> Self {
        let Self {
            store,
            rules,
            folder,
            ..
        } = self;
        drop(store);
        Self::open(folder, rules)
    }
}

prop_state_machine! {
    #![proptest_config(Config { cases: 48, ..Config::default() })]

    #[test]
    fn any_history_is_the_models(sequential 1..40 => Histories<Sqlite>);
}
