//! What is too big for an entry.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::ThreadsClient;
use super::client::{Content, Reply};
use crate::support::{TestServer, is_empty};

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn put(client: &ThreadsClient, thread: &str, hash: &str, content: &[u8]) -> Reply {
    let path = format!("{thread}/blobs/{hash}");
    let content = Content::Bytes(content.to_vec());
    client.send(Some(client.key()), Method::PUT, &path, content, &[])
}

#[test]
fn a_blob_is_put_once_and_read_by_its_hash() {
    let client = ThreadsClient::new();
    let thread = client.thread("t");
    let made = put(&client, &thread, HELLO, b"hello");
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    assert_eq!(made.body, json!({ "sha256": HELLO, "sizeBytes": 5 }));
    // Whatever is sent the second time, the name stands for the first.
    assert_eq!(
        put(&client, &thread, HELLO, b"other").status,
        StatusCode::OK
    );
    let read = client.get(client.key(), &format!("{thread}/blobs/{HELLO}"));
    assert_eq!(read.body, "hello");
    for (header, value) in [
        ("content-type", "application/octet-stream"),
        ("content-disposition", "attachment"),
        ("content-security-policy", "sandbox"),
        ("x-content-type-options", "nosniff"),
        ("content-length", "5"),
    ] {
        assert_eq!(read.headers[header], value, "{header}");
    }
    // A blob belongs to its thread.
    let other = client.thread("u");
    let missing = client.get(client.key(), &format!("{other}/blobs/{HELLO}"));
    assert_eq!(missing.refused(404), "NOT_FOUND");
    let nowhere = put(&client, "/api/threads/none", HELLO, b"hello");
    assert_eq!(nowhere.refused(404), "NOT_FOUND");
}

#[test]
fn a_large_blob_comes_back_whole() {
    use sha2::Digest as _;
    let client = ThreadsClient::new();
    let thread = client.thread("t");
    let content = b"0123456789".repeat(700_000);
    let digest = sha2::Sha256::digest(&content);
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let made = put(&client, &thread, &hash, &content);
    assert_eq!(made.body["sizeBytes"], 7_000_000, "{made:?}");
    let read = client.get(client.key(), &format!("{thread}/blobs/{hash}"));
    assert_eq!(read.body.to_string().len(), 7_000_000 + 2);
}

#[test]
fn what_is_not_what_its_name_says_is_not_kept() {
    let client = ThreadsClient::of(TestServer::with(|config| {
        config.limits.blob_bytes_max = 1_000;
        config.limits.thread_blobs_bytes_max = 1_200;
    }));
    let thread = client.thread("t");
    assert_eq!(
        put(&client, &thread, HELLO, b"hullo").refused(400),
        "blob_hash"
    );
    for wrong in ["..%2f..%2fholm.db", "x", &HELLO.to_uppercase(), &HELLO[1..]] {
        let refused = put(&client, &thread, wrong, b"hello");
        assert_eq!(refused.refused(400), "BAD_REQUEST", "{wrong}");
    }
    let large = put(&client, &thread, HELLO, &[0; 1_001]);
    assert_eq!(large.refused(413), "blob_too_large");
    let folder = client.server.data.path().join("data/thread-blobs");
    assert!(is_empty(&folder.join("incoming")));
    put(&client, &thread, HELLO, b"hello").ok();
    // The quota counts what is there.
    for _ in 0..3 {
        let refused = put(&client, &thread, &"0".repeat(64), &[0; 1_000]);
        assert_eq!(refused.refused(400), "blob_hash");
    }
    let first = hash_of(&[1; 1_000]);
    put(&client, &thread, &first, &[1; 1_000]).ok();
    let over = put(&client, &thread, &hash_of(&[2; 1_000]), &[2; 1_000]);
    assert_eq!(over.refused(507), "blob_quota");
    let elsewhere = client.thread("u");
    put(&client, &elsewhere, &first, &[1; 1_000]).ok();
    // With its thread, all of it goes.
    client
        .send(
            Some(client.key()),
            Method::DELETE,
            &thread,
            Content::Nothing,
            &[],
        )
        .ok();
    client.thread("t");
    let gone = client.get(client.key(), &format!("{thread}/blobs/{HELLO}"));
    assert_eq!(gone.refused(404), "NOT_FOUND");
}

fn hash_of(content: &[u8]) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn an_ended_run_puts_no_blobs() {
    let client = ThreadsClient::new();
    let thread = client.thread("t");
    client.begin(&thread, "r1");
    let token = client.mint(&thread, json!({ "run": "r1" }));
    let path = format!("{thread}/blobs/{HELLO}");
    let put = || {
        let content = Content::Bytes(b"hello".to_vec());
        client.send(Some(&token), Method::PUT, &path, content, &[])
    };
    assert_eq!(put().status, StatusCode::CREATED);
    let end = super::entry("end", super::status("completed", None));
    client.append(&token, &thread, end).ok();
    assert_eq!(put().refused(403), "run_ended");
    assert_eq!(client.get(&token, &path).body, "hello");
}
