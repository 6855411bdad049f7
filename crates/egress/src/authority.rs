//! The server's own certificate authority, which boxes trust and nobody else does: it vouches for
//! the gateway where the gateway stands in for a host, to put a secret in.
//!
//! The key stays in the server. All leaf certificates share one key, made at start and never
//! written, so that a certificate costs one signature.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;

use crate::host::Host;
use crate::secret::Hidden;

const COMMON_NAME: &str = "Holm egress gateway";
const AUTHORITY_LIFETIME: time::Duration = time::Duration::days(10 * 365);
const LEAF_LIFETIME: time::Duration = time::Duration::days(30);
/// Clocks in boxes are the host's, but a restored snapshot may lag.
const BACKDATING: time::Duration = time::Duration::days(1);
/// A leaf certificate is made again after this, long before it ends.
const LEAF_USE: Duration = Duration::from_secs(24 * 60 * 60);
const LEAVES_MAX: usize = 256;

#[derive(Debug, Error)]
pub enum AuthorityError {
    #[error("could not make a certificate for `{subject}`")]
    Make {
        subject: String,
        #[source]
        source: rcgen::Error,
    },
    #[error("the stored certificate authority has no readable {part}; remove it to make a new one")]
    Unreadable { part: &'static str },
    #[error(
        "the stored certificate authority does not vouch for its own certificates (expired, or key and certificate differ); remove it to make a new one"
    )]
    Unusable(#[source] rustls::Error),
    #[error("could not set up TLS for `{subject}`")]
    Tls {
        subject: String,
        #[source]
        source: rustls::Error,
    },
}

pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    leaf_key: KeyPair,
    provider: Arc<CryptoProvider>,
    leaves: Mutex<VecDeque<Leaf>>,
}

struct Leaf {
    name: String,
    made_at: Instant,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CertificateAuthority")
            .finish_non_exhaustive()
    }
}

impl CertificateAuthority {
    pub fn generate() -> Result<Self, AuthorityError> {
        let key = generate_key(COMMON_NAME)?;
        let certificate = authority_parameters()
            .self_signed(&key)
            .map_err(|source| make_error(COMMON_NAME, source))?;
        Self::assemble(certificate.der().clone(), key)
    }

    /// Reads what [`CertificateAuthority::to_pem`] wrote, and tries whether it works.
    pub fn load(pem: &str) -> Result<Self, AuthorityError> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
            AuthorityError::Unreadable {
                part: "certificate",
            }
        })?;
        let unreadable_key = || AuthorityError::Unreadable { part: "key" };
        let key =
            PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| unreadable_key())?;
        let key = KeyPair::try_from(&key).map_err(|_| unreadable_key())?;
        Self::assemble(certificate, key)
    }

    /// Certificate and key, to be kept where only the server reads.
    pub fn to_pem(&self) -> Hidden {
        let key = self.issuer.key().serialize_pem();
        Hidden::new(format!("{}{key}", self.certificate_pem()))
    }

    /// The certificate alone, which boxes are told to trust.
    pub fn certificate_pem(&self) -> String {
        crate::trust::to_pem(&self.certificate)
    }

    fn assemble(
        certificate: CertificateDer<'static>,
        key: KeyPair,
    ) -> Result<Self, AuthorityError> {
        let authority = Self {
            issuer: Issuer::new(authority_parameters(), key),
            certificate,
            leaf_key: generate_key("leaf certificates")?,
            provider: Arc::new(rustls::crypto::ring::default_provider()),
            leaves: Mutex::new(VecDeque::new()),
        };
        authority.try_out()?;
        Ok(authority)
    }

    /// Makes a leaf certificate and has it checked as a client does.
    fn try_out(&self) -> Result<(), AuthorityError> {
        let name = "try-out.invalid";
        let leaf = self.sign(name)?;
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate.clone())
            .map_err(AuthorityError::Unusable)?;
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::clone(&self.provider),
        )
        .build()
        .map_err(|error| AuthorityError::Unusable(rustls::Error::General(error.to_string())))?;
        let server = ServerName::try_from(name)
            .map_err(|error| AuthorityError::Unusable(rustls::Error::General(error.to_string())))?;
        let verify = |now| {
            use rustls::client::danger::ServerCertVerifier as _;
            verifier.verify_server_cert(&leaf, &[], &server, &[], now)
        };
        verify(UnixTime::now()).map_err(AuthorityError::Unusable)?;
        Ok(())
    }

    fn sign(&self, name: &str) -> Result<CertificateDer<'static>, AuthorityError> {
        let mut parameters = CertificateParams::new(vec![name.to_owned()])
            .map_err(|source| make_error(name, source))?;
        // A common name has at most 64 characters; all clients look at the alternative name.
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters
            .distinguished_name
            .push(DnType::OrganizationName, COMMON_NAME);
        let now = time::OffsetDateTime::now_utc();
        parameters.not_before = now - BACKDATING;
        parameters.not_after = now + LEAF_LIFETIME;
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = parameters
            .signed_by(&self.leaf_key, &self.issuer)
            .map_err(|source| make_error(name, source))?;
        Ok(certificate.der().clone())
    }

    /// How the gateway answers as `host`: with HTTP/1.1 only, which is what it can look into.
    pub(crate) fn server_config(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityError> {
        let name = host.to_string();
        if let Some(config) = self.cached(&name) {
            return Ok(config);
        }
        let certificate = self.sign(&name)?;
        let key = PrivateKeyDer::Pkcs8(self.leaf_key.serialized_der().to_vec().into());
        let tls = |source| AuthorityError::Tls {
            subject: name.clone(),
            source,
        };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(tls)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate, self.certificate.clone()], key)
            .map_err(tls)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let leaf = Leaf {
            name,
            made_at: Instant::now(),
            config: Arc::clone(&config),
        };
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        leaves.push_back(leaf);
        if leaves.len() > LEAVES_MAX {
            leaves.pop_front();
        }
        Ok(config)
    }

    fn cached(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        leaves.retain(|leaf| leaf.made_at.elapsed() < LEAF_USE);
        let found = leaves.iter().find(|leaf| leaf.name == name)?;
        Some(Arc::clone(&found.config))
    }
}

fn generate_key(subject: &str) -> Result<KeyPair, AuthorityError> {
    KeyPair::generate().map_err(|source| make_error(subject, source))
}

fn make_error(subject: &str, source: rcgen::Error) -> AuthorityError {
    AuthorityError::Make {
        subject: subject.to_owned(),
        source,
    }
}

/// The same for every server, so that a stored key and these make the issuer again. The lifetime
/// is the certificate's, which is stored.
fn authority_parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, COMMON_NAME);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let now = time::OffsetDateTime::now_utc();
    parameters.not_before = now - BACKDATING;
    parameters.not_after = now + AUTHORITY_LIFETIME;
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_loaded() {
        let authority = CertificateAuthority::generate().unwrap();
        let loaded = CertificateAuthority::load(authority.to_pem().expose()).unwrap();
        assert_eq!(loaded.certificate_pem(), authority.certificate_pem());
        assert!(!loaded.certificate_pem().contains("PRIVATE"));
    }

    #[test]
    fn a_key_of_another_authority_is_noticed() {
        let [one, two] = [(); 2].map(|()| CertificateAuthority::generate().unwrap());
        let key = two.to_pem().expose().replace(&two.certificate_pem(), "");
        let mixed = format!("{}{key}", one.certificate_pem());
        let error = CertificateAuthority::load(&mixed).unwrap_err();
        assert!(matches!(error, AuthorityError::Unusable(_)), "{error}");
        for broken in [
            "",
            &one.certificate_pem(),
            &key,
            "-----BEGIN CERTIFICATE-----",
        ] {
            let error = CertificateAuthority::load(broken).unwrap_err();
            assert!(
                matches!(error, AuthorityError::Unreadable { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn leaves_are_kept_up_to_a_limit() {
        let authority = CertificateAuthority::generate().unwrap();
        let config = |name: &str| {
            authority
                .server_config(&Host::parse(name).unwrap())
                .unwrap()
        };
        let first = config("a.example.com");
        assert!(Arc::ptr_eq(&first, &config("a.example.com")));
        for number in 0..LEAVES_MAX {
            config(&format!("n{number}.example.com"));
        }
        assert_eq!(authority.leaves.lock().unwrap().len(), LEAVES_MAX);
        assert!(!Arc::ptr_eq(&first, &config("a.example.com")));
    }

    #[test]
    fn debug_has_no_key() {
        let authority = CertificateAuthority::generate().unwrap();
        assert_eq!(format!("{authority:?}"), "CertificateAuthority { .. }");
        assert_eq!(format!("{:?}", authority.to_pem()), "[hidden]");
    }
}
