//! Organisations: what belongs to another does not exist.

use reqwest::Method;

use super::Answer;
use crate::support::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn streams_of_another_organisation_are_missing() {
    let server = TestServer::new();
    let other = server.key_of("other");
    server.make("a");
    let tail = server.add("a", r#"{"secret":1}"#).next();
    let as_other =
        |method: Method, path: &str, headers: &[(&str, &str)], body: &'static str| -> Answer {
            server.stream(&other, method, path, headers, body)
        };
    for path in ["a", "a?offset=-1&live=sse", "a?offset=-1&live=long-poll"] {
        assert_eq!(
            as_other(Method::GET, path, &[], "").refused(404),
            "not_found"
        );
    }
    assert_eq!(as_other(Method::HEAD, "a", &[], "").status, 404);
    assert_eq!(as_other(Method::POST, "a", &[JSON], "1").status, 404);
    assert_eq!(as_other(Method::DELETE, "a", &[], "").status, 404);
    // A fork of it, by any way of naming it.
    for source in ["/v1/stream/a", "a", "/api/stream/a"] {
        let fork = [("stream-forked-from", source)];
        let answer = as_other(Method::PUT, "stolen", &fork, "");
        assert_eq!(answer.refused(404), "not_found", "{source}");
    }
    // The same name is another stream, and offsets of the first are none of its.
    assert_eq!(as_other(Method::PUT, "a", &[JSON], "2").status, 201);
    assert_eq!(as_other(Method::GET, "a", &[], "").body, "[2]");
    let foreign = as_other(Method::GET, &format!("a?offset={tail}"), &[], "");
    assert_eq!(foreign.refused(400), "offset_foreign");
    assert_eq!(server.look("a").body, r#"[{"secret":1}]"#);
}

#[test]
fn names_with_an_organisation_in_front_are_only_names() {
    let server = TestServer::new();
    let other = server.key_of("other");
    server.make("a");
    let organizations: Vec<holm_server::records::OrganizationRecord> = {
        let path = server.data.path().join("data/holm.db");
        holm_store::Store::open(&path).unwrap().all().unwrap()
    };
    let ours = organizations
        .iter()
        .find(|organization| organization.name == "default")
        .unwrap();
    for path in [
        format!("{}/a", ours.id),
        format!("%2e%2e/{}/a", ours.id),
        format!("../{}/a", ours.id),
    ] {
        let answer = server.stream(&other, Method::GET, &path, &[], "");
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
    }
}

#[test]
fn without_a_key_nothing_is_told() {
    let server = TestServer::new();
    server.make("a");
    let wrong = server.stream("not-a-key", Method::GET, "a", &[], "");
    assert_eq!(wrong.refused(401), "key_invalid");
    assert!(
        wrong
            .header("www-authenticate")
            .unwrap()
            .starts_with("Bearer")
    );
    let missing = server.stream("not-a-key", Method::GET, "none", &[], "");
    assert_eq!(missing.refused(401), "key_invalid");
    let none = server.block_on(async {
        let url = format!("{}/v1/stream/a", server.url);
        reqwest::get(url).await.unwrap().status().as_u16()
    });
    assert_eq!(none, 401);
}
