//! The server's own certificate authority, which boxes trust and nobody else does: it vouches for
//! the gateway where the gateway stands in for a host, to put a secret in.
//!
//! Kept between runs of a server is the key alone. Its certificate is made anew at each start, with
//! the same name and key, so that it never ends while it is used, and what a box was told to trust
//! years ago still vouches for today's leaf certificates. Those share one key, made at start and
//! never written, so that a certificate costs one signature.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
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
    #[error(
        "the stored key of the certificate authority is not readable; remove it to make a new one"
    )]
    Unreadable(#[source] rcgen::Error),
    #[error("could not set up TLS for `{subject}`")]
    Tls {
        subject: String,
        #[source]
        source: rustls::Error,
    },
}

pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
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
        Self::of_key(generate_key(COMMON_NAME)?)
    }

    /// Reads what [`CertificateAuthority::key_pem`] gave.
    pub fn load(key_pem: &str) -> Result<Self, AuthorityError> {
        Self::of_key(KeyPair::from_pem(key_pem).map_err(AuthorityError::Unreadable)?)
    }

    /// The key, to be kept where only the server reads.
    pub fn key_pem(&self) -> Hidden {
        Hidden::new(self.issuer.key().serialize_pem())
    }

    /// The certificate, which boxes are told to trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    fn of_key(key: KeyPair) -> Result<Self, AuthorityError> {
        let parameters = authority_parameters();
        let certificate = parameters
            .self_signed(&key)
            .map_err(|source| make_error(COMMON_NAME, source))?;
        Ok(Self {
            issuer: Issuer::new(parameters, key),
            certificate_pem: crate::trust::to_pem(certificate.der()),
            leaf_key: generate_key("leaf certificates")?,
            provider: Arc::new(rustls::crypto::ring::default_provider()),
            leaves: Mutex::new(VecDeque::new()),
        })
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
            .with_single_cert(vec![certificate], key)
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

/// The name is the same at every start.
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
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    fn is_vouched_for(leaf: &CertificateDer<'_>, name: &'static str, trusted_pem: &str) -> bool {
        use rustls::client::danger::ServerCertVerifier as _;
        let roots = Arc::new(
            holm_client_tls::Roots::none()
                .with_pem(trusted_pem)
                .unwrap()
                .store(),
        );
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider);
        let server = ServerName::try_from(name).unwrap();
        let verifier = verifier.build().unwrap();
        let verified = verifier.verify_server_cert(leaf, &[], &server, &[], UnixTime::now());
        verified.is_ok()
    }

    #[test]
    fn a_box_of_an_earlier_run_trusts_this_one() {
        let earlier = CertificateAuthority::generate().unwrap();
        let now = CertificateAuthority::load(earlier.key_pem().expose()).unwrap();
        let leaf = now.sign("a.example.com").unwrap();
        assert!(is_vouched_for(
            &leaf,
            "a.example.com",
            earlier.certificate_pem()
        ));
        assert!(is_vouched_for(
            &leaf,
            "a.example.com",
            now.certificate_pem()
        ));
        assert!(!is_vouched_for(
            &leaf,
            "b.example.com",
            now.certificate_pem()
        ));
        let other = CertificateAuthority::generate().unwrap();
        assert!(!is_vouched_for(
            &leaf,
            "a.example.com",
            other.certificate_pem()
        ));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let authority = CertificateAuthority::generate().unwrap();
        for broken in [
            "",
            authority.certificate_pem(),
            "-----BEGIN PRIVATE KEY-----",
        ] {
            let error = CertificateAuthority::load(broken).unwrap_err();
            assert!(matches!(error, AuthorityError::Unreadable(_)), "{error}");
        }
        assert!(!authority.certificate_pem().contains("PRIVATE"));
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
        assert_eq!(format!("{:?}", authority.key_pem()), "[hidden]");
    }
}
