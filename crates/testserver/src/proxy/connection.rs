//! One connection through the proxy: a request, its answer, and what goes wrong on the way.
//!
//! Requests go on as HTTP/1.0, so that an answer ends with its connection and can be cut anywhere without being
//! understood. WebSockets need HTTP/1.1, and so do bodies that do not know how long they are.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Fault, Shared, frames};

const HEAD_BYTES_MAX: usize = 64 * 1024;
/// So that what was written has arrived before a reset.
const BEFORE_RESET: Duration = Duration::from_millis(20);
/// For the rest of a request that was answered already.
const REST: Duration = Duration::from_secs(2);

/// The head of a request or an answer, with what came behind it already.
struct Head {
    text: String,
    rest: Vec<u8>,
}

impl Head {
    /// `None` if the other side goes away instead.
    async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let rest = bytes.split_off(at + 4);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                return Ok(Some(Self { text, rest }));
            }
            if bytes.len() > HEAD_BYTES_MAX || stream.read_buf(&mut bytes).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let headers = self.text.lines().filter_map(|line| line.split_once(':'));
        headers
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    /// The same without a header.
    fn without(&self, name: &str) -> String {
        let is_other = |line: &&str| {
            let known = line.split_once(':').map_or("", |(known, _)| known);
            !known.eq_ignore_ascii_case(name)
        };
        self.text.split_inclusive("\r\n").filter(is_other).collect()
    }

    fn for_server(&self) -> String {
        if self.header("Upgrade").is_some() || self.header("Transfer-Encoding").is_some() {
            self.text.clone()
        } else {
            self.text.replacen(" HTTP/1.1\r\n", " HTTP/1.0\r\n", 1)
        }
    }
}

pub(super) async fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let Some(request) = Head::read(&mut client).await? else {
        return Ok(());
    };
    let fault = shared.strike(request.line());
    if fault == Some(Fault::Reset) {
        return reset(client).await;
    }
    if fault == Some(Fault::Silence) {
        return std::future::pending().await;
    }
    if let Some(Fault::Status {
        status,
        retry_after,
    }) = fault
    {
        return answer_instead(client, status, retry_after).await;
    }
    let mut server = TcpStream::connect(shared.server).await?;
    server.write_all(request.for_server().as_bytes()).await?;
    if let Some(Fault::RequestCut { body_bytes }) = fault {
        return cut_request(client, server, &request.rest, body_bytes).await;
    }
    server.write_all(&request.rest).await?;
    let Some(fault) = fault else {
        tokio::io::copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    };
    let end = {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let rest_of_request = async {
            // The answer tells what becomes of it.
            drop(tokio::io::copy(&mut from_client, &mut to_server).await);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            end = answer(&mut from_server, &mut to_client, &fault) => end?,
            () = rest_of_request => End::Reset,
        }
    };
    match end {
        End::Orderly => {
            client.shutdown().await?;
            drop(drain(client).await);
            Ok(())
        }
        End::Reset => reset(client).await,
        End::Replaced(status) => answer_instead(client, status, None).await,
        End::Never => std::future::pending().await,
    }
}

/// What becomes of the connection to the client.
enum End {
    Orderly,
    Reset,
    Replaced(u16),
    Never,
}

async fn answer(
    server: &mut (impl AsyncRead + Unpin),
    client: &mut (impl AsyncWrite + Unpin),
    fault: &Fault,
) -> io::Result<End> {
    let Some(head) = Head::read(server).await? else {
        return Ok(End::Reset);
    };
    let mut body = head.rest.as_slice().chain(server);
    match fault {
        Fault::AnswerLost => {
            tokio::io::copy(&mut body, &mut tokio::io::sink()).await?;
            Ok(End::Reset)
        }
        Fault::AnswerReplaced { status } => {
            tokio::io::copy(&mut body, &mut tokio::io::sink()).await?;
            Ok(End::Replaced(*status))
        }
        Fault::AnswerCut { body_bytes } => {
            client.write_all(head.text.as_bytes()).await?;
            pass(&mut body, client, *body_bytes).await?;
            Ok(End::Reset)
        }
        Fault::AnswerShort { body_bytes } => {
            let head = head.without("Content-Length");
            client.write_all(head.as_bytes()).await?;
            pass(&mut body, client, *body_bytes).await?;
            Ok(End::Orderly)
        }
        Fault::AnswerSlow { piece_bytes, pause } => {
            client.write_all(head.text.as_bytes()).await?;
            while pass(&mut body, client, *piece_bytes).await? > 0 {
                tokio::time::sleep(*pause).await;
            }
            Ok(End::Orderly)
        }
        Fault::SocketCut {
            data_bytes,
            goodbye,
        } => {
            client.write_all(head.text.as_bytes()).await?;
            frames::pass(&mut body, client, *data_bytes).await?;
            match goodbye {
                super::Goodbye::Reset => Ok(End::Reset),
                super::Goodbye::Close(code) => {
                    client.write_all(&frames::close(*code)).await?;
                    Ok(End::Orderly)
                }
            }
        }
        Fault::SocketStalls { data_bytes } => {
            client.write_all(head.text.as_bytes()).await?;
            frames::pass(&mut body, client, *data_bytes).await?;
            Ok(End::Never)
        }
        // They strike before there is an answer.
        Fault::Reset | Fault::Silence | Fault::Status { .. } | Fault::RequestCut { .. } => {
            Ok(End::Reset)
        }
    }
}

/// So many bytes, or as many as there are.
async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    bytes: usize,
) -> io::Result<u64> {
    let limit = u64::try_from(bytes).unwrap_or(u64::MAX);
    tokio::io::copy(&mut from.take(limit), to).await
}

async fn cut_request(
    client: TcpStream,
    mut server: TcpStream,
    begun: &[u8],
    body_bytes: usize,
) -> io::Result<()> {
    let mut client = client;
    let mut body = begun.chain(&mut client);
    pass(&mut body, &mut server, body_bytes).await?;
    server.shutdown().await?;
    // What the server says to that stays here.
    drop(tokio::time::timeout(REST, tokio::io::copy(&mut server, &mut tokio::io::sink())).await);
    reset(client).await
}

async fn answer_instead(
    mut client: TcpStream,
    status: u16,
    retry_after: Option<u64>,
) -> io::Result<()> {
    let body = r#"{"message":"a bad day"}"#;
    let patience =
        retry_after.map_or_else(String::new, |seconds| format!("Retry-After: {seconds}\r\n"));
    let text = format!(
        "HTTP/1.1 {status} Faulty\r\nContent-Type: application/json\r\nConnection: close\r\n{patience}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(text.as_bytes()).await?;
    client.shutdown().await?;
    drain(client).await
}

/// Takes what still comes: closing before that would reset the connection, and the answer with it.
async fn drain(mut client: TcpStream) -> io::Result<()> {
    let mut nowhere = tokio::io::sink();
    let rest = tokio::io::copy(&mut client, &mut nowhere);
    match tokio::time::timeout(REST, rest).await {
        Ok(outcome) => outcome.map(drop),
        Err(_elapsed) => Ok(()),
    }
}

async fn reset(client: TcpStream) -> io::Result<()> {
    tokio::time::sleep(BEFORE_RESET).await;
    client.set_zero_linger()
}
