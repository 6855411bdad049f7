//! A way to the database that breaks when it is told to, and where it is told to.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use holm_testkit::PostgresServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// What happens to a COMMIT that passes by.
#[derive(Clone)]
pub(crate) enum Fault {
    /// The connection is cut, and the database never hears of it.
    CutBefore,
    /// The database does it, and its answer is lost with the connection.
    CutAfter,
    /// As [`Fault::CutAfter`], and nobody can connect any more.
    CutAfterAndRefuse,
    /// Nothing comes through any more, in either direction; the connection stays.
    Swallow,
    /// The server is killed before the database hears of it, or after the database has done it.
    Kill(Moment, Arc<dyn Fn() + Send + Sync>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    BeforeCommit,
    AfterCommit,
}

impl fmt::Debug for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::CutBefore => "cut before",
            Self::CutAfter => "cut after",
            Self::CutAfterAndRefuse => "cut after and refuse",
            Self::Swallow => "swallow",
            Self::Kill(..) => "kill",
        })
    }
}

#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    user: &'static str,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    upstream: PathBuf,
    faults: Mutex<Vec<Fault>>,
    /// Counted up to cut all connections.
    cuts: watch::Sender<u64>,
    door: watch::Sender<Door>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Open,
    Shut,
}

/// A COMMIT as the client sends it: a simple query.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

impl Proxy {
    pub(crate) async fn start(server: &PostgresServer) -> Self {
        Self::before(server.socket(), server.user()).await
    }

    pub(crate) async fn before(upstream: PathBuf, user: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            upstream,
            faults: Mutex::default(),
            cuts: watch::Sender::new(0),
            door: watch::Sender::new(Door::Open),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if *shared.door.borrow() == Door::Open {
                    let state = Arc::clone(&shared);
                    tokio::spawn(async move { drop(state.carry(client).await) });
                }
            }
        });
        Self { port, user, state }
    }

    pub(crate) fn url(&self) -> String {
        self.url_of("postgres")
    }

    pub(crate) fn url_of(&self, database: &str) -> String {
        format!(
            "postgres://{}@127.0.0.1:{}/{database}",
            self.user, self.port
        )
    }

    /// The next COMMIT ends like this; several wait for their turn.
    pub(crate) fn break_next_commit(&self, fault: Fault) {
        self.state.faults.lock().unwrap().push(fault);
    }

    /// Whether all faults have happened.
    pub(crate) fn is_spent(&self) -> bool {
        self.state.faults.lock().unwrap().is_empty()
    }

    /// What has not happened yet will not.
    pub(crate) fn forget_faults(&self) {
        self.state.faults.lock().unwrap().clear();
    }

    pub(crate) fn cut_all(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Cuts all connections, and lets nobody in.
    pub(crate) fn shut(&self) {
        self.state.door.send_replace(Door::Shut);
        self.cut_all();
    }

    pub(crate) fn open(&self) {
        self.state.door.send_replace(Door::Open);
    }
}

impl State {
    async fn carry(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut upstream = UnixStream::connect(&self.upstream).await?;
        let mut cuts = self.cuts.subscribe();
        let (mut from_client, mut from_upstream) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                _ = cuts.changed() => return Ok(()),
                read = client.read(&mut from_client) => {
                    let bytes = &from_client[..read?];
                    if bytes.is_empty() {
                        return Ok(());
                    }
                    let is_commit = bytes.windows(COMMIT.len()).any(|window| window == COMMIT);
                    match is_commit.then(|| self.next_fault()).flatten() {
                        None => upstream.write_all(bytes).await?,
                        Some(Fault::CutBefore) => return Ok(()),
                        Some(Fault::Kill(Moment::BeforeCommit, kill)) => {
                            kill();
                            return Ok(());
                        }
                        Some(Fault::CutAfter) => return finish(&mut upstream, bytes).await,
                        Some(Fault::CutAfterAndRefuse) => {
                            finish(&mut upstream, bytes).await?;
                            self.door.send_replace(Door::Shut);
                            return Ok(());
                        }
                        Some(Fault::Kill(Moment::AfterCommit, kill)) => {
                            finish(&mut upstream, bytes).await?;
                            kill();
                            return Ok(());
                        }
                        Some(Fault::Swallow) => {
                            drop(cuts.changed().await);
                            return Ok(());
                        }
                    }
                }
                read = upstream.read(&mut from_upstream) => {
                    let bytes = &from_upstream[..read?];
                    if bytes.is_empty() {
                        return Ok(());
                    }
                    client.write_all(bytes).await?;
                }
            }
        }
    }

    fn next_fault(&self) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        (!faults.is_empty()).then(|| faults.remove(0))
    }
}

/// The database has done it when its answer begins.
async fn finish(upstream: &mut UnixStream, commit: &[u8]) -> io::Result<()> {
    upstream.write_all(commit).await?;
    upstream.read_u8().await?;
    Ok(())
}
