//! A client over one socket: as little as possible between the measurement and the server, and the same for all servers.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Where streams are, and what proves that one may use them.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) socket: SocketAddr,
    /// Headers of every request, each with the end of its line.
    pub(crate) headers: String,
}

/// A connection that is used for one request after the other.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    headers: String,
    request: Vec<u8>,
    line: String,
}

/// What an answer says of a stream; of its body, only the length is kept.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) body_bytes: usize,
    pub(crate) next_offset: Option<String>,
    pub(crate) is_up_to_date: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunks,
}

impl Connection {
    pub(crate) async fn open(address: &Address) -> Result<Self> {
        Self::with_buffer(address, 64 * 1024).await
    }

    /// One of many that receive little.
    pub(crate) async fn small(address: &Address) -> Result<Self> {
        Self::with_buffer(address, 4 * 1024).await
    }

    async fn with_buffer(address: &Address, bytes: usize) -> Result<Self> {
        let stream = TcpStream::connect(address.socket)
            .await
            .context("connect")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::with_capacity(bytes, stream),
            headers: address.headers.clone(),
            request: Vec::new(),
            line: String::new(),
        })
    }

    /// A request whose answer must be a success. `headers` have the ends of their lines.
    pub(crate) async fn ask(
        &mut self,
        (method, path): (&str, &str),
        headers: &str,
        body: &[u8],
    ) -> Result<Answer> {
        self.send((method, path), headers, body).await?;
        let (mut answer, framing) = self
            .head()
            .await
            .with_context(|| format!("{method} {path}"))?;
        answer.body_bytes = self.skip(framing).await?;
        Ok(answer)
    }

    /// Asks for events, which [`Self::wait_for`] reads.
    pub(crate) async fn follow(&mut self, path: &str) -> Result<()> {
        self.send(("GET", path), "", b"").await?;
        self.head().await.map(drop)
    }

    /// Reads until these bytes have come. They must not be cut by the reading: a server writes an event whole.
    pub(crate) async fn wait_for(&mut self, marker: &[u8]) -> Result<()> {
        loop {
            let bytes = self.stream.fill_buf().await?;
            if bytes.is_empty() {
                bail!("the events ended");
            }
            let found = bytes.windows(marker.len()).any(|window| window == marker);
            let count = bytes.len();
            self.stream.consume(count);
            if found {
                return Ok(());
            }
        }
    }

    async fn send(
        &mut self,
        (method, path): (&str, &str),
        headers: &str,
        body: &[u8],
    ) -> Result<()> {
        let length = body.len();
        let own = &self.headers;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{own}{headers}content-length: {length}\r\n\r\n"
        );
        self.request.clear();
        self.request.extend_from_slice(head.as_bytes());
        self.request.extend_from_slice(body);
        self.stream.get_mut().write_all(&self.request).await?;
        Ok(())
    }

    async fn head(&mut self) -> Result<(Answer, Framing)> {
        self.read_line().await?;
        let status: u16 = self.line.split(' ').nth(1).context("no status")?.parse()?;
        let mut answer = Answer::default();
        let mut framing = Framing::Length(0);
        loop {
            self.read_line().await?;
            let Some((name, value)) = self.line.trim_end().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => framing = Framing::Length(value.parse()?),
                "transfer-encoding" => framing = Framing::Chunks,
                "stream-next-offset" => answer.next_offset = Some(value.to_owned()),
                "stream-up-to-date" => answer.is_up_to_date = true,
                _ => {}
            }
        }
        if !(200..300).contains(&status) {
            let mut text = vec![0; 1024];
            let count = match framing {
                Framing::Length(0) => 0,
                Framing::Length(_) | Framing::Chunks => self.stream.read(&mut text).await?,
            };
            text.truncate(count);
            bail!("{status}: {}", String::from_utf8_lossy(&text));
        }
        Ok((answer, framing))
    }

    async fn read_line(&mut self) -> Result<()> {
        self.line.clear();
        if self.stream.read_line(&mut self.line).await? == 0 {
            bail!("the connection was closed");
        }
        Ok(())
    }

    /// Reads a body and throws it away.
    async fn skip(&mut self, framing: Framing) -> Result<usize> {
        let mut total = 0;
        loop {
            let part = match framing {
                Framing::Length(length) => length,
                Framing::Chunks => {
                    self.read_line().await?;
                    usize::from_str_radix(self.line.trim(), 16).context("read a chunk's length")?
                }
            };
            let mut left = part;
            while left > 0 {
                let count = self.stream.fill_buf().await?.len().min(left);
                if count == 0 {
                    bail!("the answer was cut off");
                }
                self.stream.consume(count);
                left -= count;
            }
            total += part;
            match framing {
                Framing::Length(_) => return Ok(total),
                Framing::Chunks => {
                    // The end of the chunk's line.
                    self.read_line().await?;
                    if part == 0 {
                        return Ok(total);
                    }
                }
            }
        }
    }
}
