//! The first bytes of a tunnel: what is spoken in it, and to whom.

use std::io::{self, Cursor};

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::host::Host;

/// What a tunnel begins with.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) protocol: Protocol,
    /// As read; whoever speaks to the other side sends exactly these first.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// With the server's name that the client gave, if it gave one.
    Tls {
        name: Option<Host>,
    },
    /// A method and a space; whoever reads on finds out whether it is a request.
    Http,
    /// Has no names of servers, so that an address is one server.
    Ssh,
    Other,
}

/// The first byte of a TLS record that holds a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
const SSH: &[u8] = b"SSH-";
/// No method that is in use is longer.
const METHOD_LENGTH_MAX: usize = 20;

/// Reads until it is clear, or `Other` at the limit, at the end and at anything broken.
pub(crate) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    bytes_max: usize,
) -> io::Result<Opening> {
    let mut bytes = Vec::new();
    let mut acceptor = Acceptor::default();
    let mut buffer = [0_u8; 4096];
    while bytes.len() < bytes_max {
        let count = stream.read(&mut buffer).await?;
        let new = buffer.get(..count).unwrap_or_default();
        bytes.extend_from_slice(new);
        let protocol = match bytes.first() {
            None => Some(Protocol::Other),
            Some(&TLS_HANDSHAKE) => feed(&mut acceptor, new),
            Some(_) if bytes.starts_with(SSH) => Some(Protocol::Ssh),
            Some(_) if count == 0 => Some(Protocol::Other),
            Some(_) if SSH.starts_with(&bytes) => None,
            Some(_) => method(&bytes),
        };
        if let Some(protocol) = protocol {
            return Ok(Opening { protocol, bytes });
        }
        if count == 0 {
            break;
        }
    }
    let protocol = Protocol::Other;
    Ok(Opening { protocol, bytes })
}

/// `None` while more bytes are needed.
fn method(bytes: &[u8]) -> Option<Protocol> {
    let is_letter = |byte: &&u8| byte.is_ascii_uppercase() || **byte == b'-';
    let length = bytes.iter().take_while(is_letter).count();
    match bytes.get(length) {
        Some(b' ') if length > 0 => Some(Protocol::Http),
        None if length <= METHOD_LENGTH_MAX => None,
        Some(_) | None => Some(Protocol::Other),
    }
}

/// `None` while more bytes are needed.
fn feed(acceptor: &mut Acceptor, new: &[u8]) -> Option<Protocol> {
    let mut unread = Cursor::new(new);
    loop {
        match acceptor.read_tls(&mut unread) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(_) => return Some(Protocol::Other),
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let name = hello.server_name().and_then(|name| Host::parse(name).ok());
                return Some(Protocol::Tls { name });
            }
            Err(_) => return Some(Protocol::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    fn hello(name: &'static str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let server = ServerName::try_from(name).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), server).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// Splits the handshake over records of `size` bytes each.
    fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
        let mut records = Vec::new();
        for part in hello[5..].chunks(size) {
            records.extend_from_slice(&hello[..3]);
            records.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
            records.extend_from_slice(part);
        }
        records
    }

    async fn protocol(chunks: &[&[u8]]) -> (Protocol, Vec<u8>) {
        let mut mock = chunks.iter().fold(
            Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin + Send>,
            |_, _| Box::new(tokio::io::empty()),
        );
        for chunk in chunks.iter().rev() {
            mock = Box::new(Cursor::new(chunk.to_vec()).chain(mock));
        }
        let opening = read(&mut mock, 64 * 1024).await.unwrap();
        (opening.protocol, opening.bytes)
    }

    fn named(name: &str) -> Protocol {
        let name = Some(Host::parse(name).unwrap());
        Protocol::Tls { name }
    }

    #[tokio::test]
    async fn the_name_is_found_however_the_bytes_come() {
        let whole = hello("api.example.com");
        assert_eq!(
            protocol(&[&whole]).await,
            (named("api.example.com"), whole.clone())
        );
        let single: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(protocol(&single).await.0, named("api.example.com"));
        let records = in_records(&whole, 7);
        assert_eq!(
            protocol(&[&records]).await,
            (named("api.example.com"), records.clone())
        );
    }

    #[tokio::test]
    async fn what_is_not_tls_is_told_apart() {
        assert_eq!(protocol(&[b"SSH-2.0-x\r\n"]).await.0, Protocol::Ssh);
        assert_eq!(protocol(&[b"SS", b"H-2.0"]).await.0, Protocol::Ssh);
        assert_eq!(protocol(&[b"SSX"]).await.0, Protocol::Other);
        assert_eq!(protocol(&[b"SS"]).await.0, Protocol::Other);
        assert_eq!(protocol(&[b"GET / HTTP/1.1\r\n"]).await.0, Protocol::Http);
        assert_eq!(protocol(&[b"SS", b"E", b" /"]).await.0, Protocol::Http);
        assert_eq!(protocol(&[b"M-SEARCH *"]).await.0, Protocol::Http);
        assert_eq!(protocol(&[b"GET"]).await.0, Protocol::Other);
        assert_eq!(protocol(&[b" GET /"]).await.0, Protocol::Other);
        assert_eq!(protocol(&[b"EHLO\r\n"]).await.0, Protocol::Other);
        assert_eq!(protocol(&[&[b'A'; 100]]).await.0, Protocol::Other);
        assert_eq!(protocol(&[b"\0\0\0\x08"]).await.0, Protocol::Other);
        assert_eq!(protocol(&[]).await.0, Protocol::Other);
        let whole = hello("10.0.0.1");
        assert_eq!(protocol(&[&whole]).await.0, Protocol::Tls { name: None });
        assert_eq!(protocol(&[&whole[..20]]).await.0, Protocol::Other);
    }

    #[tokio::test]
    async fn an_endless_beginning_is_given_up() {
        let record = [
            &[0x16, 3, 1, 0x40, 0][..],
            &[1, 0, 0xff, 0xff],
            &[0; 0x3ffc],
        ]
        .concat();
        let endless = record.repeat(10);
        let opening = read(&mut &endless[..], 64 * 1024).await.unwrap();
        assert_eq!(opening.protocol, Protocol::Other);
        assert!(opening.bytes.len() <= 64 * 1024 + 4096);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(position in 0_usize..200, byte: u8) {
            let mut bytes = hello("api.example.com");
            let position = position % bytes.len();
            bytes[position] = byte;
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(protocol(&[&bytes]));
        }
    }
}
