//! Whom the gateway trusts, and how programs in a box are told to trust the gateway.
//!
//! Trusted are the roots of the machine, not a list compiled in: the administrator's decisions
//! count, a distrusted root is gone after an update of the system, and a company's own root works.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;

use crate::authority::CertificateAuthority;

#[derive(Debug, Error)]
pub enum RootsError {
    #[error("this machine has no root certificates; install the package `ca-certificates`")]
    NoneFound,
    #[error("the extra root certificates are not readable as PEM")]
    Unreadable,
}

/// The root certificates that upstream servers are checked against.
#[derive(Clone)]
pub struct Roots(Vec<CertificateDer<'static>>);

impl std::fmt::Debug for Roots {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Roots({} certificates)", self.0.len())
    }
}

impl Roots {
    /// The roots of this machine. Entries that cannot be read are left out, as every other program
    /// here leaves them out.
    pub fn of_system() -> Result<Self, RootsError> {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            return Err(RootsError::NoneFound);
        }
        Ok(Self(found.certs))
    }

    /// Nobody but what is added.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    pub fn with_pem(mut self, pem: &str) -> Result<Self, RootsError> {
        let before = self.0.len();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            self.0
                .push(certificate.map_err(|_| RootsError::Unreadable)?);
        }
        if self.0.len() == before {
            return Err(RootsError::Unreadable);
        }
        Ok(self)
    }

    pub(crate) fn store(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(self.0.iter().cloned());
        store
    }
}

/// All roots and the gateway's authority in one file, for programs that take one bundle in place of
/// the system's.
pub fn bundle_pem(roots: &Roots, authority: &CertificateAuthority) -> String {
    let mut bundle = authority.certificate_pem().to_owned();
    for certificate in &roots.0 {
        bundle.push_str(&to_pem(certificate));
    }
    bundle
}

/// The environment that makes common programs read `bundle_path` (a path inside the box). Java
/// reads none of them: it needs the certificate in its own key store.
pub fn trust_environment(bundle_path: &str) -> Vec<(&'static str, String)> {
    const NAMES: [&str; 14] = [
        "SSL_CERT_FILE",                      // OpenSSL, Go, rustls, Ruby, uv
        "CURL_CA_BUNDLE",                     // curl with any TLS library
        "REQUESTS_CA_BUNDLE",                 // Python requests
        "PIP_CERT",                           // pip
        "NODE_EXTRA_CA_CERTS",                // Node.js
        "NPM_CONFIG_CAFILE",                  // npm, pnpm
        "DENO_CERT",                          // Deno
        "GIT_SSL_CAINFO",                     // git
        "CARGO_HTTP_CAINFO",                  // cargo
        "AWS_CA_BUNDLE",                      // AWS tools
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", // gcloud
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",   // gRPC
        "HEX_CACERTS_PATH",                   // Elixir
        "NIX_SSL_CERT_FILE",                  // nix
    ];
    NAMES.map(|name| (name, bundle_path.to_owned())).to_vec()
}

/// The environment that sends programs to the gateway at `port` of the box's loopback. Both
/// spellings: curl reads `http_proxy` in lower case only, others the upper case only; Node.js reads
/// them when told to.
pub fn proxy_environment(port: u16) -> Vec<(&'static str, String)> {
    let mut environment = Vec::new();
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ] {
        environment.push((name, format!("http://127.0.0.1:{port}")));
    }
    for name in ["NO_PROXY", "no_proxy"] {
        environment.push((name, "localhost,127.0.0.1,::1".to_owned()));
    }
    environment.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    environment
}

pub(crate) fn to_pem(certificate: &CertificateDer<'_>) -> String {
    let encoded = STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in encoded.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_has_the_roots_and_the_authority() {
        let [ours, theirs] = [(); 2].map(|()| CertificateAuthority::generate().unwrap());
        let roots = Roots::none().with_pem(theirs.certificate_pem()).unwrap();
        let bundle = bundle_pem(&roots, &ours);
        assert_eq!(
            bundle,
            format!("{}{}", ours.certificate_pem(), theirs.certificate_pem())
        );
        assert!(!bundle.contains("PRIVATE"));
        let read = Roots::none().with_pem(&bundle).unwrap();
        assert_eq!(format!("{read:?}"), "Roots(2 certificates)");
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
    fn no_certificate_is_an_error() {
        assert!(matches!(
            Roots::none().with_pem("hello"),
            Err(RootsError::Unreadable)
        ));
    }

    #[test]
    fn every_variable_has_the_path() {
        let environment = trust_environment("/etc/holm/ca.pem");
        assert!(
            environment
                .iter()
                .all(|(_, path)| path == "/etc/holm/ca.pem")
        );
        assert!(environment.iter().any(|(name, _)| *name == "SSL_CERT_FILE"));
        let proxy = proxy_environment(3128);
        assert!(proxy.contains(&("http_proxy", "http://127.0.0.1:3128".to_owned())));
    }
}
