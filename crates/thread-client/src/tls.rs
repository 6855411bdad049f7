//! Whom the client trusts: the roots of this machine, and what the settings add.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::{ClientError, Result};

/// Whether the server is reached by TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    Yes,
    No,
}

/// Fails without any root only if one is needed.
pub(crate) fn client_config(needed: Needed, extra_pem: Option<&str>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if needed == Needed::Yes {
        // Entries that cannot be read are left out, as every other program here leaves them out.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    for certificate in CertificateDer::pem_slice_iter(extra_pem.unwrap_or_default().as_bytes()) {
        let certificate = certificate.map_err(|_malformed| unusable("it is no PEM"))?;
        roots
            .add(certificate)
            .map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() && needed == Needed::Yes {
        return Err(unusable(
            "this machine has none; install the package `ca-certificates`",
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn unusable(problem: impl Into<String>) -> ClientError {
    ClientError::Invalid {
        what: "set of root certificates",
        problem: problem.into(),
    }
}
