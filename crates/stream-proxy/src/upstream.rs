//! The server behind the proxy: its address, and connections to it.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use holm_client_tls::Roots;
use hyper::Uri;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HeaderValue;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::body::Flowing;
use crate::{ProxyError, ProxyLimits};

/// A server's address: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    scheme: Scheme,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// What the server is called in requests.
    authority: HeaderValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl FromStr for Upstream {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let wrong = |problem| ProxyError::Upstream {
            // What is secret in it is not repeated.
            text: text.rsplit('@').next().unwrap_or_default().to_owned(),
            problem,
        };
        if text.contains('@') {
            return Err(wrong("it holds a user name or a password"));
        }
        if text.contains(['?', '#']) {
            return Err(wrong("it has a `?` or a `#`"));
        }
        let uri: Uri = text.parse().map_err(|_| wrong("it cannot be read"))?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) | None => return Err(wrong("it does not begin with `http://` or `https://`")),
        };
        if !matches!(uri.path(), "" | "/") {
            return Err(wrong("it has a path"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        let host = authority.host().trim_matches(['[', ']']);
        let port = match (authority.port_u16(), scheme) {
            (Some(port), _) => port,
            (None, Scheme::Http) => 80,
            (None, Scheme::Https) => 443,
        };
        if host.is_empty() || port == 0 {
            return Err(wrong("it has no host, or port 0"));
        }
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port,
            authority: authority
                .as_str()
                .parse()
                .map_err(|_| wrong("it cannot be read"))?,
        })
    }
}

/// Why there is no connection. For the log: clients hear less.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unconnected {
    #[error("could not connect to the server")]
    Connect(#[source] std::io::Error),
    #[error("the server did not take a connection in time")]
    Late,
    #[error("the server's name is none for TLS")]
    Name,
    #[error("could not speak TLS with the server")]
    Tls(#[source] std::io::Error),
    #[error("the server does not speak HTTP/1.1")]
    Speak(#[source] hyper::Error),
}

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Connector {
    upstream: Upstream,
    tls: Option<TlsConnector>,
    limits: ProxyLimits,
}

impl Connector {
    pub(crate) fn new(
        upstream: Upstream,
        extra_roots_pem: Option<&str>,
        limits: ProxyLimits,
    ) -> Result<Self, ProxyError> {
        let tls = match upstream.scheme {
            Scheme::Http => None,
            Scheme::Https => {
                let config = Roots::of_system_and(extra_roots_pem)?.http_config()?;
                Some(TlsConnector::from(Arc::new(config)))
            }
        };
        Ok(Self {
            upstream,
            tls,
            limits,
        })
    }

    /// What requests call the server.
    pub(crate) fn authority(&self) -> &HeaderValue {
        &self.upstream.authority
    }

    pub(crate) async fn connect(&self) -> Result<SendRequest<Flowing>, Unconnected> {
        let patience: Duration = self.limits.connect_patience;
        let connected = tokio::time::timeout(patience, self.connect_patiently()).await;
        connected.unwrap_or(Err(Unconnected::Late))
    }

    async fn connect_patiently(&self) -> Result<SendRequest<Flowing>, Unconnected> {
        let Upstream { host, port, .. } = &self.upstream;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(Unconnected::Connect)?;
        // Events are small, and late if they wait for each other.
        stream.set_nodelay(true).map_err(Unconnected::Connect)?;
        let Some(tls) = &self.tls else {
            return self.speak(stream).await;
        };
        let name = ServerName::try_from(host.clone()).map_err(|_| Unconnected::Name)?;
        let stream = tls.connect(name, stream).await;
        self.speak(stream.map_err(Unconnected::Tls)?).await
    }

    async fn speak<S>(&self, stream: S) -> Result<SendRequest<Flowing>, Unconnected>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(self.limits.header_bytes_max)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(Unconnected::Speak)?;
        // Ends when the sender and the last answer's body are gone.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the server broke off");
            }
        });
        Ok(sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_strictly() {
        for (text, host, port, authority) in [
            ("http://127.0.0.1:3986", "127.0.0.1", 3986, "127.0.0.1:3986"),
            (
                "https://holm.example.org/",
                "holm.example.org",
                443,
                "holm.example.org",
            ),
            ("http://[::1]:80", "::1", 80, "[::1]:80"),
        ] {
            let upstream: Upstream = text.parse().unwrap();
            assert_eq!((upstream.host.as_str(), upstream.port), (host, port));
            assert_eq!(upstream.authority, authority);
        }
        for wrong in [
            "",
            "holm.example.org",
            "ftp://a",
            "http://",
            "http://a/api/stream",
            "http://a?x",
            "http://a#x",
            "http://user:secret@a",
            "http://a:0",
            "http://a b",
        ] {
            let error = wrong.parse::<Upstream>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
