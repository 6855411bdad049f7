//! How programs in a box are told to go through the gateway, and to trust it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holm_client_tls::Roots;
use rustls::pki_types::CertificateDer;

use crate::authority::CertificateAuthority;

/// All roots and the gateway's authority in one file, for programs that take one bundle in place of
/// the system's.
pub fn bundle_pem(roots: &Roots, authority: &CertificateAuthority) -> String {
    let mut bundle = authority.certificate_pem().to_owned();
    for certificate in roots.certificates() {
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
