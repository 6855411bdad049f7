//! How a server is set up.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holm_daytona_wire::Hidden;
use holm_images::BuildNetwork;

/// Shorter than the patience of most proxies.
pub const LONG_POLL_TIMEOUT: Duration = Duration::from_secs(20);

/// Everything that the command line decides.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub listen: SocketAddr,
    /// Where the database, the boxes, snapshots and volumes are kept.
    pub data: PathBuf,
    pub tls: Option<TlsFiles>,
    /// Where SSH into sandboxes is served, if at all.
    pub ssh_listen: Option<SocketAddr>,
    /// What clients call this server, when they cannot use the address of the request, as behind a proxy.
    pub public_url: Option<String>,
    /// Below this domain, `PORT-SANDBOX.DOMAIN` leads to a port inside a sandbox.
    pub preview_domain: Option<String>,
    /// The home whose toolchains boxes on the host's base see.
    pub toolchain_home: Option<PathBuf>,
    /// What the steps of image builds can reach.
    pub build_network: BuildNetwork,
    /// Where streams and threads are kept.
    pub streams: StreamsPlace,
    /// Where blobs of threads are kept, if not below the data: several servers may share one folder.
    pub blobs: Option<PathBuf>,
    /// How long a reader of a stream waits for something new.
    pub long_poll_timeout: Duration,
    /// Whether subscriptions may call programs on this machine.
    pub local_calls: LocalCalls,
    pub limits: ServerLimits,
}

/// Where streams and threads are kept.
#[derive(Debug, Clone)]
pub enum StreamsPlace {
    /// In the server's own database.
    Sqlite,
    /// In a database that other servers use too.
    Postgres { url: Hidden },
}

/// Whether users may have this server call programs on its own machine, which trust whoever is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalCalls {
    Refused,
    Allowed,
}

/// Certificate and key, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What one server bears.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Sandboxes of one organisation that exist at once.
    pub sandboxes_max: usize,
    /// Connections at once; more wait in the kernel.
    pub connections_max: usize,
    /// All headers of a request together.
    pub header_bytes_max: usize,
    /// How long a client may take to send them, and be idle between two requests.
    pub header_patience: Duration,
    /// A JSON body.
    pub json_bytes_max: usize,
    /// What one request may add to a stream.
    pub entry_bytes_max: usize,
    /// What those who write by tokens may make of one thread's stream. Its owner may add more.
    pub thread_bytes_max: u64,
    /// Requests in flight of those who have tokens of one thread, long polls and events included.
    pub thread_requests_max: usize,
    /// The same for those who read one thread by tickets.
    pub thread_viewers_max: usize,
    /// One uploaded file.
    pub upload_bytes_max: u64,
    /// One blob of a thread.
    pub blob_bytes_max: u64,
    /// All blobs of one thread.
    pub thread_blobs_bytes_max: u64,
    /// How long a client may send or take nothing in the middle of a file.
    pub silence_max: Duration,
    /// Terminals of one sandbox.
    pub terminals_max: usize,
    /// Sessions of one sandbox.
    pub sessions_max: usize,
    /// What one command may print into one answer; the rest is dropped and said to be.
    pub output_bytes_max: usize,
    /// What commands have printed into answers that are not sent yet, all together.
    pub answers_bytes_max: usize,
    /// How long a program in a box may take until its answer begins.
    pub preview_patience: Duration,
    /// How often the clocks of sandboxes are looked at.
    pub tick: Duration,
    /// What the intervals of sandboxes count, so that tests need not wait for real ones.
    pub minute: Duration,
    /// How long requests in flight may take after a shutdown was asked for.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            sandboxes_max: 2_000,
            connections_max: 16_384,
            header_bytes_max: 64 * 1024,
            header_patience: Duration::from_secs(30),
            json_bytes_max: 16 * 1024 * 1024,
            entry_bytes_max: 16 * 1024 * 1024,
            thread_bytes_max: 1024 * 1024 * 1024,
            thread_requests_max: 64,
            thread_viewers_max: 256,
            upload_bytes_max: 64 * 1024 * 1024 * 1024,
            blob_bytes_max: 256 * 1024 * 1024,
            thread_blobs_bytes_max: 4 * 1024 * 1024 * 1024,
            silence_max: Duration::from_secs(60),
            terminals_max: 64,
            sessions_max: 256,
            output_bytes_max: 64 * 1024 * 1024,
            answers_bytes_max: 256 * 1024 * 1024,
            preview_patience: Duration::from_secs(10 * 60),
            tick: Duration::from_secs(10),
            minute: Duration::from_secs(60),
            drain: Duration::from_secs(20),
        }
    }
}

impl ServerConfig {
    pub fn new(listen: SocketAddr, data: PathBuf) -> Self {
        Self {
            listen,
            data,
            tls: None,
            ssh_listen: None,
            public_url: None,
            preview_domain: None,
            toolchain_home: None,
            build_network: BuildNetwork::None,
            streams: StreamsPlace::Sqlite,
            blobs: None,
            long_poll_timeout: LONG_POLL_TIMEOUT,
            local_calls: LocalCalls::Refused,
            limits: ServerLimits::default(),
        }
    }

    pub fn database(&self) -> PathBuf {
        self.data.join("holm.db")
    }

    pub fn boxes(&self) -> PathBuf {
        self.data.join("boxes")
    }

    pub fn bases(&self) -> PathBuf {
        self.data.join("bases")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.data.join("snapshots")
    }

    pub fn volumes(&self) -> PathBuf {
        self.data.join("volumes")
    }

    /// What is too big for entries of threads.
    pub fn thread_blobs(&self) -> PathBuf {
        match &self.blobs {
            Some(shared) => shared.clone(),
            None => self.data.join("thread-blobs"),
        }
    }

    /// Logs of builds.
    pub fn builds(&self) -> PathBuf {
        self.data.join("builds")
    }

    /// Locks of those who make snapshots beside a server.
    pub(crate) fn makers(&self) -> PathBuf {
        self.data.join("snapshot-makers")
    }

    /// Unpacked images.
    pub fn images(&self) -> PathBuf {
        self.data.join("images")
    }

    /// Files of sandboxes that were saved, as layers for others.
    pub fn layers(&self) -> PathBuf {
        self.data.join("layers")
    }

    /// What is on its way to be removed.
    pub fn trash(&self) -> PathBuf {
        self.data.join("trash")
    }

    pub fn box_directory(&self, id: &str) -> PathBuf {
        self.boxes().join(id)
    }

    /// All folders that a server keeps.
    pub(crate) fn folders(&self) -> [PathBuf; 8] {
        [
            self.builds(),
            self.thread_blobs(),
            self.layers(),
            self.boxes(),
            self.bases(),
            self.snapshots(),
            self.volumes(),
            self.trash(),
        ]
    }

    /// The file whose lock says that a server uses the data.
    pub(crate) fn lock_file(&self) -> PathBuf {
        Path::new(&self.data).join("server.lock")
    }
}
