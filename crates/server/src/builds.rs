//! Snapshots on their way: images that are pulled or built in the background, with a log that can be followed.
//!
//! ```text
//! pending ──▶ pulling | building ──▶ active
//!                     └────────────▶ error | build_failed
//! ```
//!
//! **Invariant:** a snapshot is `active` in the store only after its image has its name on the disk. A server that is
//! killed meanwhile begins the build again at its next start.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
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
use crate::records::{Foundation, SandboxRecord, SnapshotRecord};

/// A pull or a build that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Whether a build goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    Done,
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
}

impl Builds {
    pub(crate) fn new(store: Arc<Store>, making: Arc<Making>) -> Arc<Self> {
        Arc::new(Self {
            store,
            making,
            running: Mutex::default(),
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
            builds.running(|running| running.remove(&id));
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

    fn run(&self, mut snapshot: SnapshotRecord, cancel: &Cancel) -> Result<(), StoreError> {
        snapshot.state = match snapshot.dockerfile {
            Some(_) => SnapshotState::Building,
            None => SnapshotState::Pulling,
        };
        self.put(&mut snapshot)?;
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
        self.put(&mut snapshot)
    }

    /// Stores a step of a build, unless the snapshot was deleted meanwhile.
    fn put(&self, snapshot: &mut SnapshotRecord) -> Result<(), StoreError> {
        snapshot.updated_at = clock::now();
        self.store.write(
            |transaction| match transaction.get::<SnapshotRecord>(&snapshot.id)? {
                Some(_) => transaction.put(snapshot),
                None => Ok(()),
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

    /// Removes images and saved layers that no snapshot and no sandbox stands on.
    pub(crate) fn collect(&self) -> Result<(), StoreError> {
        // Held to the end, so that nobody begins to build on what is just being removed.
        let pinned = self.making.pinned();
        let snapshots: Vec<SnapshotRecord> = self.store.all()?;
        let sandboxes: Vec<SandboxRecord> = self.store.all()?;
        let foundations = snapshots
            .iter()
            .map(|snapshot| &snapshot.foundation)
            .chain(sandboxes.iter().map(|sandbox| &sandbox.foundation));
        let mut images: HashSet<&str> = foundations
            .filter_map(|foundation| match foundation {
                Foundation::Host => None,
                Foundation::Image { image } => Some(image.as_str()),
            })
            .collect();
        // Images have the names of the snapshots that they are made for.
        images.extend(snapshots.iter().map(|snapshot| snapshot.id.as_str()));
        if let Ok(store) = self.making.images() {
            for name in store.list().unwrap_or_default() {
                if !images.contains(name.as_str()) {
                    self.making.forget_base(&Foundation::Image {
                        image: name.clone(),
                    });
                    if let Err(error) = store.remove(&name) {
                        tracing::warn!(image = name, error = chain(&error), "an image stays");
                    }
                }
            }
        }
        let layers: HashSet<&str> = snapshots
            .iter()
            .flat_map(|snapshot| &snapshot.layers)
            .chain(sandboxes.iter().flat_map(|sandbox| &sandbox.layers))
            .chain(pinned.iter())
            .map(String::as_str)
            .collect();
        let folder = self.making.config.layers();
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| !layers.contains(name)) {
                self.making.throw_away(&folder.join(name));
            }
        }
        Ok(())
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
