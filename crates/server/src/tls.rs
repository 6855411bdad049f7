//! Certificates: read once, when the server starts.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsFiles;
use crate::error::ServeError;

/// Makes ready to speak TLS with the given files.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServeError> {
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(&files.certificate, error))?;
    if certificates.is_empty() {
        return Err(unusable(
            &files.certificate,
            "there is no certificate in it",
        ));
    }
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unusable(&files.key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificate, error))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| {
            if matches!(error, rustls::Error::InconsistentKeys(_)) {
                unusable(&files.key, "the key belongs to another certificate")
            } else {
                unusable(&files.key, error)
            }
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unusable(path: &Path, error: impl Into<Box<dyn Error + Send + Sync>>) -> ServeError {
    ServeError::Tls {
        path: path.to_path_buf(),
        source: error.into(),
    }
}
