//! Snapshots on their way: images that are pulled or built in the background, with a log that can be followed.
//!
//! ```text
//! pending ──▶ pulling | building ──▶ active
//!                     └────────────▶ error | build_failed
//! ```
//!
//! **Invariant:** a snapshot is `active` in the store only after its image has its name on the disk. A server that is
//! killed meanwhile begins the build again at its next start.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holm_daytona_wire::snapshot::SnapshotState;
use holm_images::{
    BuildOptions, Cancel, ImagesError, ImportedImage, Progress, RegistryOptions, Watch,
};
use holm_store::{Store, StoreError};
use tokio::sync::watch;

use crate::clock;
use crate::error::chain;
use crate::machines::Making;
use crate::records::{Foundation, SnapshotRecord};

/// A pull or a build that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// Pulls and builds that go on at the same time.
const BUILDS_AT_ONCE_MAX: usize = 4;
/// How often a build that waits for its turn looks whether it is still wanted.
const CANCEL_PAUSE: Duration = Duration::from_millis(200);
/// How long the end of the server waits for builds to notice.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Whether a build goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    Done,
}

/// Whether a snapshot still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    Here,
    Gone,
}

#[derive(Debug)]
struct Build {
    cancel: Arc<Cancel>,
    stage: watch::Receiver<Stage>,
}

/// The builds of a server.
#[derive(Debug)]
pub(crate) struct Builds {
    store: Arc<Store>,
    making: Arc<Making>,
    running: Mutex<HashMap<String, Build>>,
    /// The server ends: what is not finished is begun again by the next one.
    is_closing: AtomicBool,
    turns: Turns,
}

/// Lets a few builds go on at once; the others wait.
#[derive(Debug, Default)]
struct Turns {
    taken: Mutex<usize>,
    given_back: Condvar,
}

#[derive(Debug)]
struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits for a turn; one that is cancelled meanwhile goes ahead, and ends by that.
    fn wait(&self, cancel: &Cancel) -> Turn<'_> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken >= BUILDS_AT_ONCE_MAX && !cancel.is_cancelled() {
            let waited = self.given_back.wait_timeout(taken, CANCEL_PAUSE);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken += 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken -= 1;
        self.0.given_back.notify_one();
    }
}

impl Builds {
    pub(crate) fn new(store: Arc<Store>, making: Arc<Making>) -> Arc<Self> {
        Arc::new(Self {
            store,
            making,
            running: Mutex::default(),
            is_closing: AtomicBool::new(false),
            turns: Turns::default(),
        })
    }

    fn running<T>(&self, look: impl FnOnce(&mut HashMap<String, Build>) -> T) -> T {
        look(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn log_path(&self, id: &str) -> PathBuf {
        self.making.config.builds().join(format!("{id}.log"))
    }

    /// Told when a build has ended; at once when there is none.
    pub(crate) fn stage(&self, id: &str) -> watch::Receiver<Stage> {
        self.running(|running| running.get(id).map(|build| build.stage.clone()))
            .unwrap_or_else(|| watch::channel(Stage::Done).1)
    }

    /// Begins the builds that an earlier life of the server did not finish.
    pub(crate) fn restore(self: &Arc<Self>) -> Result<(), StoreError> {
        for snapshot in self.store.all::<SnapshotRecord>()? {
            match snapshot.state {
                SnapshotState::Pending | SnapshotState::Pulling | SnapshotState::Building => {
                    self.begin(snapshot);
                }
                SnapshotState::Removing => {
                    self.store.delete::<SnapshotRecord>(&snapshot.id)?;
                }
                SnapshotState::Snapshotting
                | SnapshotState::Active
                | SnapshotState::Inactive
                | SnapshotState::Error
                | SnapshotState::BuildFailed
                | SnapshotState::Unknown(_) => {}
            }
        }
        Ok(())
    }

    /// Pulls or builds the image of a stored snapshot in the background.
    pub(crate) fn begin(self: &Arc<Self>, snapshot: SnapshotRecord) {
        let cancel = Arc::new(Cancel::new());
        let (stage, watched) = watch::channel(Stage::Running);
        let build = Build {
            cancel: Arc::clone(&cancel),
            stage: watched,
        };
        let id = snapshot.id.clone();
        self.running(|running| running.insert(id.clone(), build));
        let builds = Arc::clone(self);
        // A thread of its own: it takes minutes, and the runtime's own are few.
        std::thread::spawn(move || {
            if let Err(error) = builds.run(snapshot, &cancel) {
                tracing::error!(
                    snapshot = id,
                    error = chain(&error),
                    "the end of a build was not written down"
                );
            }
            builds.running(|running| {
                // By now it may be another try of the same.
                if running
                    .get(&id)
                    .is_some_and(|build| Arc::ptr_eq(&build.cancel, &cancel))
                {
                    running.remove(&id);
                }
            });
            stage.send_replace(Stage::Done);
        });
    }

    /// Ends the build of a snapshot that is being deleted.
    pub(crate) fn cancel(&self, id: &str) {
        self.running(|running| {
            if let Some(build) = running.get(id) {
                build.cancel.cancel();
            }
        });
    }

    /// Gives up what goes on, without calling it failed: the next start of the server begins it again.
    pub(crate) async fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        let stages: Vec<watch::Receiver<Stage>> = self.running(|running| {
            let builds = running.values();
            let cancelled = builds.inspect(|build| build.cancel.cancel());
            cancelled.map(|build| build.stage.clone()).collect()
        });
        let ended = async {
            for mut stage in stages {
                // The sender is gone: as good as done.
                drop(stage.wait_for(|stage| *stage == Stage::Done).await);
            }
        };
        if tokio::time::timeout(CLOSE_PATIENCE, ended).await.is_err() {
            tracing::warn!("a build did not end in time");
        }
    }

    /// One pull or build, when it is its turn.
    fn run(&self, mut snapshot: SnapshotRecord, cancel: &Cancel) -> Result<(), StoreError> {
        snapshot.state = match snapshot.dockerfile {
            Some(_) => SnapshotState::Building,
            None => SnapshotState::Pulling,
        };
        let _turn = self.turns.wait(cancel);
        if self.put(&mut snapshot)? == Stored::Gone {
            return Ok(());
        }
        tracing::info!(
            snapshot = snapshot.id,
            name = snapshot.name,
            "an image is on its way"
        );
        match self.make_image(&snapshot, cancel) {
            Ok(image) => {
                snapshot.foundation = Foundation::Image { image: image.name };
                snapshot.size_bytes = image.bytes;
                snapshot.image_user = image.config.user;
                if snapshot.entrypoint.is_empty() {
                    snapshot.entrypoint = image.config.entrypoint;
                }
                snapshot.state = SnapshotState::Active;
            }
            Err(_) if self.is_closing.load(Ordering::SeqCst) => return Ok(()),
            Err(error) => {
                let reason = chain(&error);
                self.log_line(&snapshot.id, &format!("error: {reason}"));
                snapshot.error_reason = Some(reason);
                snapshot.state = match snapshot.dockerfile {
                    Some(_) => SnapshotState::BuildFailed,
                    None => SnapshotState::Error,
                };
            }
        }
        if self.put(&mut snapshot)? == Stored::Gone {
            // Deleted meanwhile: whoever did that could not yet see what has been made.
            self.making.collect()?;
        }
        Ok(())
    }

    /// Stores a step of a build, unless the snapshot was deleted meanwhile.
    fn put(&self, snapshot: &mut SnapshotRecord) -> Result<Stored, StoreError> {
        snapshot.updated_at = clock::now();
        self.store.write(
            |transaction| match transaction.get::<SnapshotRecord>(&snapshot.id)? {
                Some(_) => transaction.put(snapshot).map(|()| Stored::Here),
                None => Ok(Stored::Gone),
            },
        )
    }

    fn make_image(
        &self,
        snapshot: &SnapshotRecord,
        cancel: &Cancel,
    ) -> Result<ImportedImage, ImagesError> {
        let images = self.making.images()?;
        // Finished just before the server was killed.
        if let Ok(image) = images.get(&snapshot.id) {
            return Ok(image);
        }
        let log = Mutex::new(self.open_log(&snapshot.id));
        let progress = |progress: Progress<'_>| match progress {
            Progress::Line(line) => {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                write_line(log.as_mut(), line);
            }
            Progress::Downloaded { .. } | Progress::Unpacked { .. } => {}
        };
        let watch = Watch {
            cancel,
            deadline: Instant::now() + PATIENCE,
            progress: &progress,
        };
        match (&snapshot.dockerfile, &snapshot.image_name) {
            (Some(dockerfile), _) => {
                let options = BuildOptions {
                    network: self.making.config.build_network,
                    ..BuildOptions::default()
                };
                images.build(&snapshot.id, dockerfile, None, &options, &watch)
            }
            (None, Some(image)) => {
                progress(Progress::Line(&format!("pulling {image}")));
                images.pull(&snapshot.id, image, &RegistryOptions::default(), &watch)
            }
            (None, None) => Err(ImagesError::NotFound {
                name: snapshot.name.clone(),
            }),
        }
    }

    fn open_log(&self, id: &str) -> Option<File> {
        let opened = File::options()
            .create(true)
            .append(true)
            .open(self.log_path(id));
        opened
            .inspect_err(|error| tracing::warn!(%error, "a build has no log"))
            .ok()
    }

    fn log_line(&self, id: &str, line: &str) {
        write_line(self.open_log(id).as_mut(), line);
    }
}

fn write_line(log: Option<&mut File>, line: &str) {
    if let Some(log) = log
        && log
            .metadata()
            .is_ok_and(|found| found.len() < LOG_BYTES_MAX)
        && let Err(error) = writeln!(log, "{line}")
    {
        tracing::warn!(%error, "a line of a build log is lost");
    }
}
