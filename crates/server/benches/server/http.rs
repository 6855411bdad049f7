//! A client over one socket: nothing between the measurement and the server.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A connection that is used for one request after the other.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    key: &'static str,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr, key: &'static str) -> Result<Self> {
        let stream = TcpStream::connect(address).context("connect")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::with_capacity(256 * 1024, stream),
            key,
        })
    }

    /// A request with a JSON body, whose answer must be a success.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut bytes = self
            .head(method, path, ("application/json", body.len() as u64))
            .into_bytes();
        bytes.extend(body.as_bytes());
        self.stream.get_mut().write_all(&bytes)?;
        let mut answer = Vec::new();
        self.answer(|bytes| answer.extend_from_slice(bytes))
            .with_context(|| format!("{method} {path}"))?;
        Ok(serde_json::from_slice(&answer).unwrap_or(Value::Null))
    }

    /// Sends a body of this length.
    pub(crate) fn send(&mut self, path: &str, body: &mut impl Read, length: u64) -> Result<()> {
        let head = self.head("POST", path, ("application/octet-stream", length));
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match body.read(&mut buffer)? {
                0 => break,
                count => stream.write_all(buffer.get(..count).unwrap_or_default())?,
            }
        }
        self.answer(|_| {}).map(drop)
    }

    /// Reads an answer and throws it away; says how much it was.
    pub(crate) fn fetch(&mut self, path: &str) -> Result<u64> {
        let head = self.head("GET", path, ("application/json", 0));
        self.stream.get_mut().write_all(head.as_bytes())?;
        self.answer(|_| {})
    }

    fn head(&self, method: &str, path: &str, (kind, length): (&str, u64)) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\ncontent-type: {kind}\r\n\
             content-length: {length}\r\n\r\n",
            self.key
        )
    }

    fn answer(&mut self, mut take: impl FnMut(&[u8])) -> Result<u64> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status: u16 = line.split(' ').nth(1).context("no status")?.parse()?;
        let mut length = None;
        let mut is_chunked = false;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let header = line.trim_end().to_ascii_lowercase();
            match header.split_once(": ") {
                Some(("content-length", value)) => length = Some(value.parse::<u64>()?),
                Some(("transfer-encoding", "chunked")) => is_chunked = true,
                Some(_) => {}
                None => break,
            }
        }
        let mut text = Vec::new();
        let is_ok = (200..300).contains(&status);
        let mut total = 0;
        loop {
            let part = if is_chunked {
                line.clear();
                self.stream.read_line(&mut line)?;
                u64::from_str_radix(line.trim(), 16).context("read the length of a chunk")?
            } else {
                length.unwrap_or(0)
            };
            let mut left = part;
            while left > 0 {
                let bytes = self.stream.fill_buf()?;
                if bytes.is_empty() {
                    bail!("the answer was cut off");
                }
                let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let bytes = bytes.get(..count).unwrap_or_default();
                if is_ok {
                    take(bytes);
                } else {
                    text.extend_from_slice(bytes);
                }
                self.stream.consume(count);
                left -= count as u64;
            }
            total += part;
            if is_chunked {
                line.clear();
                self.stream.read_line(&mut line)?;
            }
            if !is_chunked || part == 0 {
                break;
            }
        }
        if !is_ok {
            bail!("{status}: {}", String::from_utf8_lossy(&text));
        }
        Ok(total)
    }
}
