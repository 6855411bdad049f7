//! TLS for the connection to the database, with certificates that are always verified.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use holm_client_tls::Roots;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};

use super::error::PostgresError;

/// Makes TLS sessions, if the address asks for them.
#[derive(Clone)]
pub(super) struct MakeTls {
    config: Option<Arc<ClientConfig>>,
}

impl MakeTls {
    pub(super) fn unused() -> Self {
        Self { config: None }
    }

    /// With the authorities of a file, or with those of this machine.
    pub(super) fn trusting(file: Option<PathBuf>) -> Result<Self, PostgresError> {
        let roots = match file {
            Some(path) => read(&path).map_err(|source| PostgresError::Certificates {
                path: path.clone(),
                source,
            }),
            None => Roots::of_system().map_err(PostgresError::Tls),
        };
        let config = roots?.client_config().map_err(PostgresError::Tls)?;
        Ok(Self {
            config: Some(Arc::new(config)),
        })
    }
}

fn read(path: &Path) -> Result<Roots, Box<dyn Error + Send + Sync>> {
    Ok(Roots::none().with_pem(&std::fs::read_to_string(path)?)?)
}

impl MakeTlsConnect<Socket> for MakeTls {
    type Stream = Encrypted;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Connect> {
        let name = match &self.config {
            Some(config) => {
                let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
                Some((TlsConnector::from(Arc::clone(config)), name))
            }
            None => None,
        };
        Ok(Connect { name })
    }
}

pub(super) struct Connect {
    name: Option<(TlsConnector, ServerName<'static>)>,
}

impl TlsConnect<Socket> for Connect {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let Some((connector, name)) = self.name else {
                return Err(io::Error::other("TLS was not asked for"));
            };
            Ok(Encrypted(connector.connect(name, stream).await?))
        })
    }
}

pub(super) struct Encrypted(client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
