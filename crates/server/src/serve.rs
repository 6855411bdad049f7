//! A server from start to end: its folders, its store, its address, its last request.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use holm_sandbox_linux::Engine;
use holm_store::Store;
use holm_thread_log::StreamStore;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::accept::{self, Serving, Stop};
use crate::app::App;
use crate::buffers::Buffers;
use crate::builds::Builds;
use crate::builtin;
use crate::config::ServerConfig;
use crate::error::ServeError;
use crate::events;
use crate::known_keys::KnownKeys;
use crate::machines::Making;
use crate::metrics::Metrics;
use crate::operator::remove_abandoned;
use crate::preview::tokens;
use crate::sandboxes::{self, Sandboxes};
use crate::ssh;
use crate::state::Shared;
use crate::streams::access::Gate;
use crate::streams::body::Bodies;
use crate::streams::pages::Pages;
use crate::streams::place;
use crate::streams::subscriptions::Keeper;
use crate::threads::Threads;
use crate::tls;
use crate::tokens::Shares;

/// How often it is looked at whether the streams are still in use.
const LET_GO: Duration = Duration::from_millis(2);

/// A server that is set up and does not listen yet.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    store: Arc<Store>,
    engine: Engine,
    /// Held as long as the data is in use.
    _lock: File,
}

/// A server that listens.
#[derive(Debug)]
pub struct ServerHandle {
    pub address: SocketAddr,
    stop: watch::Sender<Stop>,
    serving: JoinHandle<()>,
    /// What goes on beside the requests.
    aside: Vec<JoinHandle<()>>,
    builds: Arc<Builds>,
    /// The streams, as long as somebody uses them.
    streams: Weak<dyn StreamStore>,
    drain: Duration,
}

impl Server {
    /// Opens the data. The engine was started before the process had any thread.
    pub fn open(config: ServerConfig, engine: Engine) -> Result<Self, ServeError> {
        make_private_folder(&config.data)?;
        let lock_file = config.lock_file();
        let failed = |doing| {
            let path = lock_file.clone();
            move |source| ServeError::Folder {
                doing,
                path,
                source,
            }
        };
        let lock = File::create(&lock_file).map_err(failed("make"))?;
        lock.try_lock().map_err(|_| ServeError::InUse {
            path: config.data.clone(),
        })?;
        for folder in config.folders() {
            make_private_folder(&folder)?;
        }
        let store = Arc::new(Store::open(&config.database())?);
        builtin::add_snapshots(&store)?;
        Ok(Self {
            config,
            store,
            engine,
            _lock: lock,
        })
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Finds the sandboxes of earlier lives again, and serves requests.
    pub async fn start(self) -> Result<ServerHandle, ServeError> {
        let listen = self.config.listen;
        let failed = |source| ServeError::Listen {
            address: listen,
            source,
        };
        let tls = self.config.tls.as_ref().map(tls::acceptor).transpose()?;
        let streams = place::open(&self.config).await?;
        let still_used = Arc::downgrade(&streams);
        let listener = accept::listen(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let door = match self.config.ssh_listen {
            Some(address) => Some(ssh::listen(address, &self.config.data)?),
            None => None,
        };
        let config = ServerConfig {
            listen: address,
            ..self.config
        };
        let making = Arc::new(Making::new(
            config.clone(),
            self.engine,
            Arc::clone(&self.store),
        )?);
        let sandboxes = Sandboxes::new(Arc::clone(&self.store), making);
        sandboxes::restore(&sandboxes)
            .await
            .map_err(|error| ServeError::Restore {
                message: error.message,
            })?;
        let abandoned = remove_abandoned(&config, &self.store);
        let abandoned = abandoned.map_err(|source| ServeError::Snapshots {
            source: Box::new(source),
        })?;
        for snapshot in abandoned {
            tracing::warn!(
                name = snapshot.name,
                "a snapshot whose maker was killed is removed"
            );
        }
        let builds = Builds::new(Arc::clone(&self.store), Arc::clone(&sandboxes.making));
        builds.restore()?;
        sandboxes.making.collect()?;
        sandboxes.wait_for_builds(&builds);
        let metrics = Metrics::new();
        let mut aside = vec![
            tokio::spawn(sandboxes::run_clocks(Arc::clone(&sandboxes))),
            tokio::spawn(Arc::clone(&metrics).count(sandboxes.changes())),
        ];
        let lock = self._lock;
        let (stop, stopped) = watch::channel(Stop::NotYet);
        let threads = Arc::new(Threads::new(Arc::clone(&streams), config.thread_blobs()));
        let blobs = config.thread_blobs();
        threads
            .clear_uploads()
            .map_err(|source| ServeError::Folder {
                doing: "clear",
                path: blobs,
                source,
            })?;
        let gate: Arc<dyn Gate> = threads.clone();
        aside.push(tokio::spawn({
            let threads = Arc::clone(&threads);
            async move { threads.collect().await }
        }));
        let limits = config.limits;
        let subscriptions = Arc::new(Keeper::new(
            Arc::clone(&streams),
            Arc::clone(&sandboxes.making),
            config.local_calls,
            stopped.clone(),
        ));
        aside.push(tokio::spawn(Arc::clone(&subscriptions).run()));
        aside.push(tokio::spawn(place::run_sweeps(
            Arc::clone(&streams),
            limits.tick,
        )));
        let state = Arc::new(Shared {
            buffers: Buffers::new(config.limits.answers_bytes_max),
            config,
            store: self.store,
            known_keys: KnownKeys::default(),
            sandboxes,
            builds: Arc::clone(&builds),
            metrics: Arc::clone(&metrics),
            ssh: door.as_ref().map(|door| door.address),
            streams,
            threads,
            gate,
            bodies: Bodies::new(limits.entry_bytes_max, limits.silence_max),
            pages: Pages::new(),
            shares: Shares::new(&limits),
            subscriptions,
            stopping: stopped.clone(),
        });
        if let Some(door) = door {
            aside.push(tokio::spawn(ssh::run(door, state.clone())));
        }
        let (events, io) = events::layer(&state);
        let changes = state.sandboxes.changes();
        let tick = state.config.limits.tick;
        aside.push(tokio::spawn(tokens::run_sweeps(
            Arc::clone(&state.store),
            tick,
        )));
        aside.push(tokio::spawn(events::run(state.clone(), io, changes)));
        let serving = Serving {
            limits: state.config.limits,
            app: App::new(state, events),
            tls,
            metrics,
        };
        let serving = tokio::spawn(async move {
            let _lock = lock;
            accept::run(listener, serving, stopped).await;
        });
        Ok(ServerHandle {
            address,
            stop,
            serving,
            aside,
            builds,
            streams: still_used,
            drain: limits.drain,
        })
    }
}

impl ServerHandle {
    /// Takes no more requests, lets those in flight end, and returns. Boxes go on.
    pub async fn stop(self) {
        for task in &self.aside {
            task.abort();
        }
        self.stop.send_replace(Stop::Drain);
        // Why it ended does not matter any more.
        drop(self.serving.await);
        self.builds.close().await;
        self.stop.send_replace(Stop::Cut);
        for task in self.aside {
            // It was aborted.
            drop(task.await);
        }
        // What was taken is stored, and the database is free for the next server, when the last user has let go of it.
        let unused = async {
            while self.streams.strong_count() > 0 {
                tokio::time::sleep(LET_GO).await;
            }
        };
        if tokio::time::timeout(self.drain, unused).await.is_err() {
            tracing::warn!("the streams are still in use");
        }
    }
}

/// Makes a folder that only its owner may enter.
fn make_private_folder(path: &Path) -> Result<(), ServeError> {
    let failed = |doing| {
        move |source| ServeError::Folder {
            doing,
            path: path.to_path_buf(),
            source,
        }
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed("make folder"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed("close folder"))
}
