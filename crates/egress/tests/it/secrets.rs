//! Secrets that a box uses and never has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holm_egress::{CertificateAuthority, Hidden, SecretRule};
use tokio::io::AsyncWriteExt;

use crate::world::origin::{Origin, speak_tls};
use crate::world::{World, exchange, read_all, read_head, vouched};

const PLACEHOLDER: &str = "dtn_secret_a7f3b2c1";
const VALUE: &str = "sk-real-value";

async fn get_over_tls(world: &World, trusted: &str, origin: &Origin, name: &str) -> String {
    let at = origin.at(name);
    let tunnel = world.tunnel(&at).await.unwrap();
    let mut tls = speak_tls(trusted, name, tunnel).await.unwrap();
    let basic = STANDARD.encode(format!("me:{PLACEHOLDER}"));
    let request = format!(
        "GET /{PLACEHOLDER}?key={PLACEHOLDER} HTTP/1.1\r\nHost: {at}\r\nX-Api-Key: {PLACEHOLDER}\r\n\
         Authorization: Basic {basic}\r\nConnection: close\r\n\r\n"
    );
    tls.write_all(request.as_bytes()).await.unwrap();
    read_all(&mut tls).await
}

#[tokio::test]
async fn the_host_of_a_secret_gets_its_value_over_tls() {
    let world = World::new().await;
    let origin = Origin::https(&world.vouched.config).await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    // The box trusts the gateway's authority, the gateway the world's.
    let trusted = world.authority.certificate_pem();
    let answer = get_over_tls(&world, trusted, &origin, "api.test").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Not in the path.
    assert!(
        answer.contains(&format!("GET /{PLACEHOLDER}?key={VALUE} HTTP/1.1\n")),
        "{answer}"
    );
    assert!(
        answer.contains(&format!("x-api-key: {VALUE}\n")),
        "{answer}"
    );
    let basic = STANDARD.encode(format!("me:{VALUE}"));
    assert!(
        answer.contains(&format!("authorization: Basic {basic}\n")),
        "{answer}"
    );
}

#[tokio::test]
async fn another_host_gets_the_placeholder_and_its_tls_is_not_opened() {
    let world = World::new().await;
    let origin = Origin::https(&world.vouched.config).await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    let answer = get_over_tls(&world, &world.vouched.authority_pem, &origin, "other.test").await;
    assert!(
        answer.contains(&format!("x-api-key: {PLACEHOLDER}\n")),
        "{answer}"
    );
    assert!(!answer.contains(VALUE));
    // A host of the secret is not reached because of it.
    world.allow("", "other.test");
    assert!(
        world
            .tunnel(&origin.at("api.test"))
            .await
            .unwrap_err()
            .contains(" 403 ")
    );
}

#[tokio::test]
async fn inside_the_tunnel_no_other_host_is_spoken_to() {
    let world = World::new().await;
    let origin = Origin::https(&world.vouched.config).await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    let trusted = world.authority.certificate_pem();
    let at = origin.at("api.test");
    let lines = [
        "GET / HTTP/1.1\r\nHost: other.test".to_owned(),
        format!(
            "GET https://{}/ HTTP/1.1\r\nHost: {at}",
            origin.at("other.test")
        ),
        format!("GET / HTTP/1.1\r\nHost: {at}\r\nHost: other.test"),
        format!("CONNECT {at} HTTP/1.1\r\nHost: {at}"),
        "GET / HTTP/1.1".to_owned(),
    ];
    for line in lines {
        let tunnel = world.tunnel(&at).await.unwrap();
        let mut tls = speak_tls(trusted, "api.test", tunnel).await.unwrap();
        let request = format!("{line}\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n");
        tls.write_all(request.as_bytes()).await.unwrap();
        let answer = read_all(&mut tls).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{line}: {answer}");
    }
    // Nor is TLS spoken to another one through the tunnel.
    let tunnel = world.tunnel(&at).await.unwrap();
    assert!(speak_tls(trusted, "other.test", tunnel).await.is_err());
}

#[tokio::test]
async fn an_impostor_gets_nothing() {
    let world = World::new().await;
    // Vouched for by somebody whom the gateway does not know.
    let impostor = Origin::https(&vouched().config).await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    let trusted = world.authority.certificate_pem();
    let answer = get_over_tls(&world, trusted, &impostor, "api.test").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(
        answer.contains("TLS: invalid peer certificate: "),
        "{answer}"
    );
    assert!(!answer.contains(VALUE));
}

#[tokio::test]
async fn clear_text_is_refused_unless_the_host_is_given_so() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let at = origin.at("api.test");
    let request = format!(
        "GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nX-Api-Key: {PLACEHOLDER}\r\nConnection: close\r\n\r\n"
    );
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    let answer = world.say(&request).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains(
        "would travel in clear text; use https, or give the secret the host `http://api.test`"
    ));
    assert!(world.get(&at, "/").await.starts_with("HTTP/1.1 200 "));
    // New secrets count for the next request.
    world.secret(PLACEHOLDER, VALUE, &["http://api.test"]);
    assert!(
        world
            .say(&request)
            .await
            .contains(&format!("x-api-key: {VALUE}\n"))
    );
    world.secret(PLACEHOLDER, VALUE, &["http://other.test"]);
    assert!(
        world
            .say(&request)
            .await
            .contains(&format!("x-api-key: {PLACEHOLDER}\n"))
    );
}

#[tokio::test]
async fn a_tunnel_is_no_way_around_that() {
    let world = World::new().await;
    let origin = Origin::http().await;
    let at = origin.at("api.test");
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {at}\r\nX-Api-Key: {PLACEHOLDER}\r\nConnection: close\r\n\r\n"
    );
    let cases = [("api.test", " 403 "), ("http://api.test", VALUE)];
    for (host, expected) in cases {
        world.secret(PLACEHOLDER, VALUE, &[host]);
        let mut tunnel = world.tunnel(&at).await.unwrap();
        tunnel.write_all(request.as_bytes()).await.unwrap();
        let answer = read_all(&mut tunnel).await;
        assert!(answer.contains(expected), "{host}: {answer}");
    }
}

#[tokio::test]
async fn a_host_with_a_secret_may_be_spoken_to_otherwise() {
    let world = World::new().await;
    let origin = Origin::echo().await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    let mut tunnel = world.tunnel(&origin.at("api.test")).await.unwrap();
    let said = format!("SSH-2.0-{PLACEHOLDER}");
    assert_eq!(exchange(&mut tunnel, &said).await, said);
    // The name of bytes that nobody understands was never checked, and now it would have to be.
    let mut other = world.tunnel(&origin.at("api.test")).await.unwrap();
    assert_eq!(exchange(&mut other, "\u{1}bytes").await, "\u{1}bytes");
    world.allow("", "api.test");
    assert_eq!(read_all(&mut other).await, "");
    assert_eq!(exchange(&mut tunnel, "still").await, "still");
}

#[tokio::test]
async fn an_opened_tunnel_ends_with_its_permission() {
    let world = World::new().await;
    let origin = Origin::https(&world.vouched.config).await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    let at = origin.at("api.test");
    let tunnel = world.tunnel(&at).await.unwrap();
    let trusted = world.authority.certificate_pem();
    let mut tls = speak_tls(trusted, "api.test", tunnel).await.unwrap();
    let request = format!("HEAD / HTTP/1.1\r\nHost: {at}\r\n\r\n");
    tls.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut tls).await.starts_with("HTTP/1.1 200 "));
    world.block();
    assert_eq!(read_all(&mut tls).await, "");
}

#[tokio::test]
async fn a_web_socket_over_tls_goes_through_and_its_frames_are_left_alone() {
    let world = World::new().await;
    let origin = Origin::https(&world.vouched.config).await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    let at = origin.at("api.test");
    let tunnel = world.tunnel(&at).await.unwrap();
    let trusted = world.authority.certificate_pem();
    let mut tls = speak_tls(trusted, "api.test", tunnel).await.unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {at}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    tls.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut tls).await.starts_with("HTTP/1.1 101 "));
    assert_eq!(exchange(&mut tls, PLACEHOLDER).await, PLACEHOLDER);
}

#[tokio::test]
async fn nothing_that_can_be_printed_holds_a_secret() {
    let world = World::new().await;
    let origin = Origin::http().await;
    world.secret(PLACEHOLDER, VALUE, &["api.test", "http://other.test"]);
    let at = origin.at("api.test");
    let request = format!("GET http://{at}/?k={PLACEHOLDER} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    world.say(&request).await;
    let rule = SecretRule::new(PLACEHOLDER, Hidden::new(VALUE), ["a.b"]).unwrap();
    let bad = SecretRule::new(PLACEHOLDER, Hidden::new(format!("{VALUE}\n")), ["a.b"]).unwrap_err();
    let authority: &CertificateAuthority = &world.authority;
    let printed = format!(
        "{rule:?} {bad} {bad:?} {authority:?} {:?} {:?} {:?} {:?}",
        world.handle,
        world.handle.recent_refusals(),
        world.secrets,
        authority.key_pem(),
    );
    assert!(!printed.contains(VALUE), "{printed}");
    assert!(!printed.contains("PRIVATE"), "{printed}");
}
