//! Origins on loopback, names that lead to them, and a gateway in between.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holm_egress::{
    CertificateAuthority, Gateway, Handle, Hidden, Limits, Policy, Resolve, Roots, Rules,
    SecretRule, Settings,
};
use holm_testkit::Vouched;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) mod origin;

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Names and what they lead to, one answer after the other; the last one stays.
#[derive(Debug, Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) asked: AtomicUsize,
}

impl Names {
    pub(crate) fn lead(&self, name: &str, answers: &[&str]) {
        let answers = answers.iter().map(|text| vec![text.parse().unwrap()]);
        let mut all = self.answers.lock().unwrap();
        all.insert(name.to_owned(), answers.rev().collect());
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut all = self.answers.lock().unwrap();
        let answers = all.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        if answers.len() > 1 {
            return Ok(answers.pop().unwrap());
        }
        Ok(answers[0].clone())
    }
}

/// Certificates for the names that lead to origins.
pub(crate) fn vouched() -> Vouched {
    Vouched::for_names(&["api.test", "other.test", "git.test"])
}

/// A sandbox's side of the gateway, and the hands that change its settings.
pub(crate) struct World {
    pub(crate) proxy: SocketAddr,
    pub(crate) gateway: Gateway,
    pub(crate) handle: Handle,
    pub(crate) names: Arc<Names>,
    pub(crate) policy: watch::Sender<Arc<Policy>>,
    pub(crate) secrets: watch::Sender<Arc<Vec<SecretRule>>>,
    pub(crate) authority: Arc<CertificateAuthority>,
    pub(crate) vouched: Vouched,
}

impl World {
    /// Loopback is reachable, and `*.test` leads there.
    pub(crate) async fn new() -> Self {
        Self::with(
            Rules::permit_loopback_for_tests(Vec::new()),
            Limits::default(),
        )
        .await
    }

    pub(crate) async fn with_limits(limits: Limits) -> Self {
        Self::with(Rules::permit_loopback_for_tests(Vec::new()), limits).await
    }

    /// As in production.
    pub(crate) async fn strict() -> Self {
        Self::with(Rules::new(Vec::new()), Limits::default()).await
    }

    pub(crate) async fn with(rules: Rules, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::behind(listener, rules, limits)
    }

    pub(crate) fn behind(listener: TcpListener, rules: Rules, limits: Limits) -> Self {
        let proxy = listener.local_addr().unwrap();
        let names = Arc::new(Names::default());
        for name in ["api.test", "other.test", "deep.sub.test", "git.test"] {
            names.lead(name, &["127.0.0.1"]);
        }
        let authority = Arc::new(CertificateAuthority::generate().unwrap());
        let vouched = vouched();
        let gateway = Gateway::new(Settings {
            rules,
            resolver: Arc::clone(&names) as Arc<dyn Resolve>,
            roots: Roots::none().with_pem(&vouched.authority_pem).unwrap(),
            authority: Arc::clone(&authority),
        })
        .unwrap();
        let (policy, policy_seen) = watch::channel(Arc::new(Policy::unrestricted()));
        let (secrets, secrets_seen) = watch::channel(Arc::new(Vec::new()));
        let handle = gateway.serve(listener, policy_seen, secrets_seen, limits);
        Self {
            proxy,
            gateway,
            handle,
            names,
            policy,
            secrets,
            authority,
            vouched,
        }
    }

    pub(crate) fn allow(&self, networks: &str, domains: &str) {
        let policy = Policy::from_lists(networks, domains).unwrap();
        self.policy.send_replace(Arc::new(policy));
    }

    pub(crate) fn block(&self) {
        self.policy.send_replace(Arc::new(Policy::Blocked));
    }

    pub(crate) fn secret(&self, placeholder: &str, value: &str, hosts: &[&str]) {
        let rule = SecretRule::new(placeholder, Hidden::new(value), hosts.iter().copied());
        self.secrets.send_replace(Arc::new(vec![rule.unwrap()]));
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy).await.unwrap()
    }

    /// Sends bytes on a new connection and reads until the gateway closes it.
    pub(crate) async fn say(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        read_all(&mut stream).await
    }

    /// One `GET` through the proxy.
    pub(crate) async fn get(&self, authority: &str, path: &str) -> String {
        self.say(format!(
            "GET http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        ))
        .await
    }

    /// A tunnel, or the gateway's refusal.
    pub(crate) async fn tunnel(&self, authority: &str) -> Result<TcpStream, String> {
        let mut stream = self.connect().await;
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        if head.starts_with("HTTP/1.1 200 ") {
            return Ok(stream);
        }
        Err(head + &read_all(&mut stream).await)
    }

    pub(crate) fn last_reason(&self) -> String {
        let refusals = self.handle.recent_refusals();
        refusals
            .last()
            .map(|refusal| refusal.reason.to_string())
            .unwrap_or_default()
    }
}

/// Reads to the end; a reset is an end too.
pub(crate) async fn read_all<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    assert!(
        ended.is_ok(),
        "no end after {:?}",
        String::from_utf8_lossy(&bytes)
    );
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads one byte at a time up to the empty line.
pub(crate) async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        let reading = tokio::time::timeout(PATIENCE, stream.read(&mut byte));
        match reading.await.expect("a head in time") {
            Ok(1) => bytes.push(byte[0]),
            Ok(_) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    text: &str,
) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = vec![0; text.len()];
    let reading = tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer));
    reading.await.expect("an answer in time").unwrap();
    String::from_utf8(answer).unwrap()
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "waited in vain: {what}");
}
