//! A way to the server that cuts, delays and swallows: bytes are passed on, but not always, and not always all of them.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// What becomes of one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// All is passed on.
    Good,
    /// The request arrives, and so many bytes of the answer.
    CutAnswer(usize),
    /// So many bytes of the request arrive.
    CutRequest(usize),
    /// Everything arrives, late.
    Slow(Duration),
    /// Closed at once.
    Refused,
}

#[derive(Debug)]
pub(crate) struct FaultyWay {
    pub(crate) address: SocketAddr,
    running: JoinHandle<()>,
}

impl FaultyWay {
    /// `fate` is asked with the number of the connection.
    pub(crate) async fn start(
        target: SocketAddr,
        fate: impl Fn(usize) -> Fate + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let running = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let (client, _) = listener.accept().await.unwrap();
                let fate = fate(number);
                connections.spawn(async move {
                    // Whatever breaks is what this is for.
                    drop(carry(client, target, fate).await);
                });
            }
        });
        Self { address, running }
    }
}

impl Drop for FaultyWay {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn carry(mut client: TcpStream, target: SocketAddr, fate: Fate) -> std::io::Result<()> {
    let (there, back) = match fate {
        Fate::Good => (usize::MAX, usize::MAX),
        Fate::CutAnswer(bytes) => (usize::MAX, bytes),
        Fate::CutRequest(bytes) => (bytes, usize::MAX),
        Fate::Slow(pause) => {
            tokio::time::sleep(pause).await;
            (usize::MAX, usize::MAX)
        }
        Fate::Refused => return Ok(()),
    };
    let mut server = TcpStream::connect(target).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    tokio::select! {
        ended = pass(&mut from_client, &mut to_server, there) => ended,
        ended = pass(&mut from_server, &mut to_client, back) => ended,
    }
}

async fn pass(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    mut left: usize,
) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    while left > 0 {
        let wanted = left.min(buffer.len());
        let count = from.read(&mut buffer[..wanted]).await?;
        if count == 0 {
            break;
        }
        to.write_all(&buffer[..count]).await?;
        left -= count;
    }
    Ok(())
}
