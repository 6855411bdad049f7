//! TLS for tests: an authority of the test's own, and a door that speaks TLS in front of any server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// A certificate for some names, by an authority that nobody trusts who was not told to.
#[derive(Debug)]
pub struct Vouched {
    pub authority_pem: String,
    pub config: Arc<ServerConfig>,
}

impl Vouched {
    pub fn for_names(names: &[&str]) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, "The world of a test");
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority_pem = parameters.self_signed(&key).unwrap().pem();
        let issuer = rcgen::Issuer::new(parameters, key);
        let leaf_key = rcgen::KeyPair::generate().unwrap();
        let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut leaf = rcgen::CertificateParams::new(all).unwrap();
        leaf.distinguished_name
            .push(rcgen::DnType::CommonName, names[0]);
        let leaf = leaf.signed_by(&leaf_key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf.der().clone()],
                PrivateKeyDer::try_from(leaf_key.serialize_der()).unwrap(),
            )
            .unwrap();
        Self {
            authority_pem,
            config: Arc::new(config),
        }
    }
}

/// A door with TLS in front of a server that has none: who comes through is passed on byte by byte, who does not trust
/// it reaches nobody. Dropping it closes all connections.
#[derive(Debug)]
pub struct TlsDoor {
    pub address: SocketAddr,
    pub authority_pem: String,
    /// Its end is the door's.
    _open: oneshot::Sender<()>,
}

impl TlsDoor {
    /// At [`TlsDoor::origin`].
    pub fn before(server: SocketAddr) -> Self {
        Self::at(Ipv4Addr::LOCALHOST.into(), &["localhost"], server)
    }

    /// At an address of this machine, with a certificate for these names.
    pub fn at(address: IpAddr, names: &[&str], server: SocketAddr) -> Self {
        let vouched = Vouched::for_names(names);
        let listener = std::net::TcpListener::bind((address, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(vouched.config);
        let (open, closed) = oneshot::channel();
        // A runtime of its own: for tests with one and for those without.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        std::thread::spawn(move || {
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener, acceptor, server) => {}
                    _ = closed => {}
                }
            });
        });
        Self {
            address,
            authority_pem: vouched.authority_pem,
            _open: open,
        }
    }

    /// For a client of a door whose certificate is for `localhost`.
    pub fn origin(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, server: SocketAddr) {
    while let Ok((outside, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // A client that has gone, or that does not trust us, is no failure here.
            let Ok(mut outside) = acceptor.accept(outside).await else {
                return;
            };
            if let Ok(mut inside) = TcpStream::connect(server).await {
                drop(tokio::io::copy_bidirectional(&mut outside, &mut inside).await);
            }
        });
    }
}
