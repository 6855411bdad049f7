//! A server from start to end: its folders, its store, its address, its last request.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use holm_sandbox_linux::Engine;
use holm_store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::app;
use crate::builds::Builds;
use crate::builtin;
use crate::config::ServerConfig;
use crate::error::ServeError;
use crate::machines::Making;
use crate::sandboxes::{self, Sandboxes};
use crate::state::Shared;

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
    clocks: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    NotYet,
    Now,
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
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
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
        let builds = Builds::new(Arc::clone(&self.store), Arc::clone(&sandboxes.making));
        builds.restore()?;
        builds.collect()?;
        sandboxes.wait_for_builds(&builds);
        let clocks = tokio::spawn(sandboxes::run_clocks(Arc::clone(&sandboxes)));
        let lock = self._lock;
        let state = Arc::new(Shared {
            config,
            store: self.store,
            sandboxes,
            builds,
        });
        let drain = state.config.limits.drain;
        let (stop, stopped) = watch::channel(Stop::NotYet);
        let serving = tokio::spawn(async move {
            let _lock = lock;
            let mut stopping = stopped.clone();
            let asked = async move {
                // The handle is gone: as good as asked.
                drop(stopping.wait_for(|stop| *stop == Stop::Now).await);
            };
            let mut stopped = stopped;
            let serving = axum::serve(listener, app(state)).with_graceful_shutdown(asked);
            let late = async move {
                drop(stopped.wait_for(|stop| *stop == Stop::Now).await);
                tokio::time::sleep(drain).await;
            };
            tokio::select! {
                served = serving => {
                    if let Err(error) = served {
                        tracing::error!(%error, "the server has ended");
                    }
                }
                () = late => tracing::warn!("requests were cut off at the shutdown"),
            }
        });
        Ok(ServerHandle {
            address,
            stop,
            serving,
            clocks,
        })
    }
}

impl ServerHandle {
    /// Takes no more requests, lets those in flight end, and returns. Boxes go on.
    pub async fn stop(self) {
        self.clocks.abort();
        // The server has ended by itself.
        drop(self.stop.send(Stop::Now));
        drop(self.serving.await);
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
