//! `holm thread` and `holm stream-proxy` with a server behind TLS, vouched for by an authority of one's own.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Child;

use holm_testkit::TlsDoor;
use serde_json::Value;

use crate::server::{KEY, Serving};
use crate::support::TestEnvironment;

/// Killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn client(url: &str, trusted_pem: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let roots = env.path("roots.pem");
    fs::write(&roots, trusted_pem).unwrap();
    env.with("HOLM_API_KEY", KEY)
        .with("HOLM_API_URL", url)
        .with("SSL_CERT_FILE", roots)
}

#[test]
fn a_thread_is_written_and_followed_over_tls_and_through_a_proxy() {
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    let server = Serving::start(&env, &[]);
    let door = TlsDoor::before(server.address.parse().unwrap());
    let ours = client(&door.origin(), &door.authority_pem);
    ours.run(["thread", "create", "--id", "t"]).success();
    ours.run(["thread", "append", "t", "over TLS"]).success();
    let arguments = [
        "stream-proxy",
        "--upstream",
        &door.origin(),
        "--listen",
        "127.0.0.1:0",
        "--json",
    ];
    let mut proxy = Running(ours.holm(arguments).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(proxy.0.stdout.as_mut().unwrap())
        .read_line(&mut said)
        .unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    let behind = format!("http://{}/api", said["address"].as_str().unwrap());
    let behind = client(&behind, &door.authority_pem);
    behind
        .run([
            "thread",
            "append",
            "t",
            "through the proxy",
            "--spool",
            "spool",
        ])
        .success();
    let lines = ours
        .run(["thread", "follow", "t", "--no-wait", "--json"])
        .success();
    for text in ["over TLS", "through the proxy"] {
        assert!(lines.contains(text), "{lines}");
    }
    server.stop().success();
}

#[test]
fn a_server_that_is_not_trusted_is_named_as_such() {
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    let server = Serving::start(&env, &[]);
    let address = server.address.parse().unwrap();
    let door = TlsDoor::before(address);
    let stranger = client(&door.origin(), &TlsDoor::before(address).authority_pem);
    let refused = stranger.run(["thread", "create", "--id", "t"]);
    let told = refused.errors();
    for part in ["certificate is not trusted here", "SSL_CERT_FILE"] {
        assert!(told.contains(part), "{told}");
    }
    let kept = stranger.run(["thread", "append", "t", "x", "--patience", "200ms"]);
    let told = kept.errors();
    assert!(told.contains("certificate is not trusted here"), "{told}");
    server.stop().success();
}
