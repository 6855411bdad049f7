//! Whom a client trusts, and how it speaks TLS: the one place for all of Holm's clients.
//!
//! Trusted are the roots of the machine, not a list compiled in: the administrator's decisions count, a distrusted root is
//! gone after an update of the system, and a company's own root works. Certificates are always verified; there is no
//! setting against it.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("this machine has no root certificates; install the package `ca-certificates`")]
    NoneFound,
    #[error("the root certificates are not readable as PEM")]
    Unreadable,
    #[error("one of the root certificates is malformed")]
    Malformed,
    #[error("could not set up TLS")]
    Setup(#[source] rustls::Error),
}

/// The root certificates that servers are checked against.
#[derive(Clone)]
pub struct Roots(Vec<CertificateDer<'static>>);

impl fmt::Debug for Roots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Roots({} certificates)", self.0.len())
    }
}

impl Roots {
    /// Nobody but what is added.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// The roots of this machine.
    pub fn of_system() -> Result<Self, TrustError> {
        Self::of_system_and(None)
    }

    /// The roots of this machine, and those of a PEM text if there is one. It is an error if both together are none.
    pub fn of_system_and(extra_pem: Option<&str>) -> Result<Self, TrustError> {
        // Entries that cannot be read are left out, as every other program here leaves them out.
        let of_system = Self(rustls_native_certs::load_native_certs().certs);
        let roots = match extra_pem {
            Some(pem) => of_system.with_pem(pem)?,
            None => of_system,
        };
        if roots.0.is_empty() {
            return Err(TrustError::NoneFound);
        }
        Ok(roots)
    }

    /// What is added by hand has to be right: at least one certificate, and all of them good.
    pub fn with_pem(mut self, pem: &str) -> Result<Self, TrustError> {
        let before = self.0.len();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|_| TrustError::Unreadable)?;
            RootCertStore::empty()
                .add(certificate.clone())
                .map_err(|_| TrustError::Malformed)?;
            self.0.push(certificate);
        }
        if self.0.len() == before {
            return Err(TrustError::Unreadable);
        }
        Ok(self)
    }

    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.0
    }

    pub fn store(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(self.0.iter().cloned());
        store
    }

    /// For a protocol that has no name in ALPN.
    pub fn client_config(&self) -> Result<ClientConfig, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TrustError::Setup)?
            .with_root_certificates(self.store())
            .with_no_client_auth();
        Ok(config)
    }

    /// For HTTP/1.1, which is what all of ours speak.
    pub fn http_config(&self) -> Result<ClientConfig, TrustError> {
        let mut config = self.client_config()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Whether a connection failed because this machine does not trust the server's certificate, which is then a matter for
/// people: nothing was sent to whoever is there.
pub fn is_untrusted(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
            return true;
        }
        // What an error of I/O wraps is not its source: its source is the source of that.
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        cause = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem() -> String {
        let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
        made.cert.pem()
    }

    #[test]
    fn the_system_has_roots_where_it_has_the_package() {
        let is_installed = std::path::Path::new("/etc/ssl/certs/ca-certificates.crt").exists();
        match Roots::of_system() {
            Ok(roots) => assert!(!roots.store().is_empty()),
            Err(error) => assert!(!is_installed, "{error}"),
        }
    }

    #[test]
    fn what_is_added_is_added_to_what_is_there() {
        let before = Roots::of_system().map_or(0, |roots| roots.certificates().len());
        let after = Roots::of_system_and(Some(&(pem() + &pem()))).unwrap();
        assert_eq!(after.certificates().len(), before + 2);
        let ours = Roots::none().with_pem(&pem()).unwrap();
        assert_eq!(format!("{ours:?}"), "Roots(1 certificates)");
        assert_eq!(ours.store().len(), 1);
        let config = ours.http_config().unwrap();
        assert_eq!(config.alpn_protocols, [b"http/1.1"]);
    }

    #[test]
    fn distrust_is_found_below_other_errors() {
        let untrusted =
            || rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert!(is_untrusted(&untrusted()));
        assert!(is_untrusted(&io::Error::other(untrusted())));
        assert!(is_untrusted(&io::Error::other(io::Error::other(
            untrusted()
        ))));
        assert!(!is_untrusted(&io::Error::other("untrusted")));
        assert!(!is_untrusted(&rustls::Error::HandshakeNotComplete));
        assert!(is_untrusted(&TrustError::Setup(untrusted())));
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let bad = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        for text in ["", "hello", bad, &(pem() + bad)] {
            let refused = Roots::none().with_pem(text);
            assert!(matches!(refused, Err(TrustError::Unreadable)), "{text}");
        }
        let other = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        let refused = Roots::of_system_and(Some(&(pem() + other)));
        assert!(matches!(refused, Err(TrustError::Malformed)));
    }
}
