//! Calls to subscribers: to which addresses, and how they end.
//!
//! A user names the address, and this server may stand inside of somebody's network. So calls go to public addresses over TLS, by the
//! rules that sandboxes have; to this machine itself only if its operator says so. Redirections are not followed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{Request, StatusCode, Uri};
use holm_egress::{Candidate, DirectError, Gateway, Host, Place, Policy, Rules, Verdict, decide};
use holm_thread_log::subscription::Done;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::LocalCalls;

/// How long a call may take, from the name to the end of its answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A place that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Callee {
    way: Way,
    /// For the header `Host`.
    authority: String,
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    Tls {
        host: Host,
        port: u16,
    },
    /// A program on this machine, in the clear.
    Local(SocketAddr),
}

/// Why an address cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum UrlError {
    #[error("`webhook.url` is no address: write it as `https://host/path`")]
    Malformed,
    #[error("`webhook.url` must begin with `https://`")]
    NotHttps,
    #[error(
        "`webhook.url` leads to this machine: whoever runs the server allows that with `--local-webhooks`"
    )]
    Local,
    #[error("`webhook.url` leads to an address that is not public")]
    NotPublic,
}

/// Why a call failed.
#[derive(Debug, Error)]
pub(super) enum CallError {
    #[error("could not connect")]
    Connect(#[from] DirectError),
    #[error("could not connect")]
    ConnectLocally(#[source] std::io::Error),
    #[error("could not speak HTTP")]
    Http(#[from] hyper::Error),
    #[error("could not write the request")]
    Request(#[from] axum::http::Error),
    #[error("it was answered with {0}")]
    Status(StatusCode),
    #[error("its address may not be called")]
    Refused(#[source] UrlError),
    #[error("it took too long")]
    TooLate,
}

impl Callee {
    pub(super) fn parse(url: &str, local: LocalCalls) -> Result<Self, UrlError> {
        let uri: Uri = url.parse().map_err(|_| UrlError::Malformed)?;
        let authority = uri.authority().ok_or(UrlError::Malformed)?.as_str();
        if authority.contains('@') {
            return Err(UrlError::Malformed);
        }
        let host = uri.host().ok_or(UrlError::Malformed)?;
        let host = Host::parse(host).map_err(|_| UrlError::Malformed)?;
        let way = match uri.scheme_str() {
            Some("https") => {
                let port = uri.port_u16().unwrap_or(443);
                check_public(&host, port)?;
                Way::Tls { host, port }
            }
            Some("http") => {
                let address = loopback(&host).ok_or(UrlError::NotHttps)?;
                if local == LocalCalls::Refused {
                    return Err(UrlError::Local);
                }
                Way::Local(SocketAddr::new(address, uri.port_u16().unwrap_or(80)))
            }
            Some(_) | None => return Err(UrlError::NotHttps),
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            way,
            authority: authority.to_owned(),
            path: path.to_owned(),
        })
    }

    /// Sends a signed body, and says what the answer says.
    pub(super) async fn call(
        &self,
        gateway: &Gateway,
        body: String,
        signature: &str,
    ) -> Result<Done, CallError> {
        let request = Request::post(&self.path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("holm/", env!("CARGO_PKG_VERSION")))
            .header("webhook-signature", signature)
            .body(Full::new(Bytes::from(body)))?;
        let called = async {
            match &self.way {
                Way::Tls { host, port } => {
                    let stream = gateway.connect_tls(host, *port, PATIENCE).await?;
                    exchange(stream, request).await
                }
                Way::Local(address) => {
                    let stream = TcpStream::connect(address).await;
                    exchange(stream.map_err(CallError::ConnectLocally)?, request).await
                }
            }
        };
        let called = timeout(PATIENCE, called).await;
        called.unwrap_or(Err(CallError::TooLate))
    }
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Done, CallError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with this function: nobody else sends on it.
    let connection = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a call ended early");
        }
    });
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(CallError::Status(status));
        }
        // An answer that is too long or not ours to read says only that the call was heard.
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        let body = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes);
        Ok(body.map_or(Done::NotYet, |body| done(&body)))
    };
    let answer = answer.await;
    connection.abort();
    answer
}

/// By its name: a struct of serde's would take a list for it too.
fn done(body: &[u8]) -> Done {
    let answer: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
    match answer.and_then(|answer| answer.get("done")?.as_bool()) {
        Some(true) => Done::All,
        Some(false) | None => Done::NotYet,
    }
}

/// The loopback address that a host is, whatever a resolver would say.
fn loopback(host: &Host) -> Option<IpAddr> {
    match host {
        Host::Name(name) if name == "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        Host::Name(_) => None,
        Host::Address(address) => address.is_loopback().then_some(*address),
    }
}

/// Refuses at once what is known to be refused later. Names are looked up when they are called.
fn check_public(host: &Host, port: u16) -> Result<(), UrlError> {
    let address = match host {
        Host::Name(name) if name == "localhost" || name.ends_with(".localhost") => {
            return Err(UrlError::NotPublic);
        }
        Host::Name(_) => return Ok(()),
        Host::Address(address) => *address,
    };
    let candidate = Candidate {
        address,
        place: Place::Elsewhere,
    };
    let rules = Rules::new(Vec::new());
    match decide(&Policy::unrestricted(), &rules, host, &[candidate], port) {
        Verdict::Allow { .. } => Ok(()),
        Verdict::Refuse(_) => Err(UrlError::NotPublic),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Arc;

    use holm_egress::{CertificateAuthority, Resolve, Roots, Settings};
    use holm_testkit::TlsDoor;

    use super::*;

    /// All names lead to this machine.
    #[derive(Debug)]
    struct Here;

    #[async_trait::async_trait]
    impl Resolve for Here {
        async fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        }
    }

    fn gateway(rules: Rules, trusted_pem: &str) -> Gateway {
        let settings = Settings {
            rules,
            resolver: Arc::new(Here),
            roots: Roots::none().with_pem(trusted_pem).unwrap(),
            authority: Arc::new(CertificateAuthority::generate().unwrap()),
        };
        Gateway::new(settings).unwrap()
    }

    /// A subscriber behind TLS, as `https://hooks.test`, that answers one call and gives out what it heard.
    fn subscriber() -> (TlsDoor, std::sync::mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let behind = listener.local_addr().unwrap();
        let door = TlsDoor::at(Ipv4Addr::LOCALHOST.into(), &["hooks.test"], behind);
        let (heard, hearing) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.ends_with(b"}") {
                let count = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..count]);
            }
            heard.send(String::from_utf8(request).unwrap()).unwrap();
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"done\":true}";
            stream.write_all(answer.as_bytes()).unwrap();
        });
        (door, hearing)
    }

    async fn call(name: &str, door: &TlsDoor, gateway: &Gateway) -> Result<Done, CallError> {
        let url = format!("https://{name}:{}/hook?a=1", door.address.port());
        let callee = Callee::parse(&url, LocalCalls::Refused).unwrap();
        let body = r#"{"wake_id":"w"}"#.to_owned();
        callee.call(gateway, body, "t=1,v1=signed").await
    }

    #[tokio::test]
    async fn a_call_goes_over_tls_to_whom_its_name_belongs() {
        let (door, heard) = subscriber();
        let rules = Rules::permit_loopback_for_tests(Vec::new());
        let gateway = gateway(rules, &door.authority_pem);
        let done = call("hooks.test", &door, &gateway).await.unwrap();
        assert_eq!(done, Done::All);
        let heard = heard.recv().unwrap();
        let host = format!("host: hooks.test:{}\r\n", door.address.port());
        for expected in [
            "POST /hook?a=1 HTTP/1.1\r\n",
            &host,
            "webhook-signature: t=1,v1=signed\r\n",
            "\r\n\r\n{\"wake_id\":\"w\"}",
        ] {
            assert!(heard.contains(expected), "{expected} in {heard}");
        }
    }

    #[tokio::test]
    async fn a_call_says_nothing_to_whom_nobody_vouches_for() {
        let (door, heard) = subscriber();
        let (other, _) = subscriber();
        let rules = || Rules::permit_loopback_for_tests(Vec::new());
        let stranger = gateway(rules(), &other.authority_pem);
        // Of another authority; of the right one for another name.
        for (name, gateway) in [
            ("hooks.test", &stranger),
            ("other.test", &gateway(rules(), &door.authority_pem)),
        ] {
            let failed = call(name, &door, gateway).await;
            let Err(CallError::Connect(error @ DirectError::Failed { .. })) = failed else {
                panic!("{failed:?}");
            };
            assert!(error.to_string().contains("speak TLS with"), "{error}");
        }
        assert!(heard.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_not_called() {
        let (door, heard) = subscriber();
        let gateway = gateway(Rules::new(Vec::new()), &door.authority_pem);
        let refused = call("hooks.test", &door, &gateway).await;
        assert!(
            matches!(refused, Err(CallError::Connect(DirectError::Refused(_)))),
            "{refused:?}"
        );
        assert!(heard.try_recv().is_err());
    }

    #[test]
    fn what_may_be_called() {
        for url in [
            "https://hooks.example.org/x?y=1",
            "https://93.184.216.34:8443/",
            "https://h",
        ] {
            assert!(Callee::parse(url, LocalCalls::Refused).is_ok(), "{url}");
        }
        for url in [
            "http://127.0.0.1:9/x",
            "http://localhost/x",
            "http://[::1]:9/",
        ] {
            assert!(Callee::parse(url, LocalCalls::Allowed).is_ok(), "{url}");
            let refused = Callee::parse(url, LocalCalls::Refused);
            assert_eq!(refused, Err(UrlError::Local), "{url}");
        }
    }

    #[test]
    fn what_may_not() {
        let table = [
            ("", UrlError::Malformed),
            ("/x", UrlError::Malformed),
            ("https://", UrlError::Malformed),
            ("https://user@h/", UrlError::Malformed),
            ("https://0x7f000001/", UrlError::Malformed),
            ("http://10.0.0.1/hook", UrlError::NotHttps),
            ("http://example.org/", UrlError::NotHttps),
            ("ftp://h/", UrlError::NotHttps),
            ("https://10.0.0.1/", UrlError::NotPublic),
            ("https://169.254.169.254/latest", UrlError::NotPublic),
            ("https://127.0.0.1/", UrlError::NotPublic),
            ("https://[::ffff:10.0.0.1]/", UrlError::NotPublic),
            ("https://localhost/", UrlError::NotPublic),
            ("https://x.localhost/", UrlError::NotPublic),
        ];
        for (url, error) in table {
            let parsed = Callee::parse(url, LocalCalls::Allowed);
            assert_eq!(parsed, Err(error), "{url}");
        }
    }

    #[test]
    fn only_a_plain_yes_is_done() {
        assert_eq!(done(br#"{"done":true}"#), Done::All);
        for other in [&b""[..], b"{}", b"{\"done\":1}", b"[true]", b"\xff"] {
            assert_eq!(done(other), Done::NotYet);
        }
    }
}
