//! Names of streams in addresses: what could be misread is refused.

use std::io::Read;

use crate::support::TestServer;

/// The first line of an answer and its body, of a path that no client would send by itself.
fn ask(server: &TestServer, method: &str, path: &str) -> String {
    let headers = "content-type: application/json\r\ncontent-length: 0\r\nconnection: close\r\n";
    let mut stream = server.raw(method, path, headers);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn tricks_with_names_are_refused() {
    let server = TestServer::new();
    let long = format!("/v1/stream/{}", "x".repeat(600));
    for path in [
        "/v1/stream/",
        "/v1/stream",
        "/v1/stream/..",
        "/v1/stream/../x",
        "/v1/stream/a/../b",
        "/v1/stream/a/%2e%2e/b",
        "/v1/stream/%2e%2e%2fb",
        "/v1/stream/a%00b",
        "/v1/stream/a%0d%0ax",
        "/v1/stream/a%252fb",
        "/v1/stream/a%5cb",
        "/v1/stream/%ff",
        "/v1/stream/%zz",
        "/v1/stream/a//b",
        "/v1/stream//a",
        "/v1/stream/a/",
        "/api/stream/%c3%a9",
        &long,
    ] {
        for method in ["PUT", "GET"] {
            let answer = ask(&server, method, path);
            assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
            assert!(answer.contains("name_invalid"), "{path}: {answer}");
        }
    }
    // What is not even HTTP is answered as that.
    assert!(ask(&server, "PUT", "/v1/stream/a\0b").starts_with("HTTP/1.1 400"));
}

#[test]
fn a_name_is_one_stream_however_it_is_written() {
    let server = TestServer::new();
    server.make("x/y");
    server.add("/api/stream/x%2Fy", "1").ok();
    assert_eq!(server.look("x/y").body, "[1]");
    assert_eq!(server.look("/api/stream/x/y").body, "[1]");
    let made = server.make("/api/stream/z@1");
    let location = made.header("location").unwrap();
    assert_eq!(location, format!("{}/api/stream/z@1", server.url));
}
