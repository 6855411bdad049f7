//! Two organisations on one server: what belongs to one does not exist for the other.

use reqwest::Method;
use serde_json::json;

use crate::support::TestServer;

#[test]
fn another_organisations_things_do_not_exist() {
    let server = TestServer::new();
    let theirs = server.key_of("other");
    let id = server.sandbox_from(json!({ "name": "web" }));
    server.run(&id, "echo ours > file");
    let volume = server.post("/api/volumes", json!({ "name": "data" })).ok();
    let volume = volume["id"].as_str().unwrap();
    let secret = json!({ "name": "token", "value": "0123456789abcdef", "hosts": ["a.example"] });
    let secret = server.post("/api/secret", secret).ok();
    let secret = secret["id"].as_str().unwrap();
    server
        .post(
            &format!("/api/sandbox/{id}/snapshot"),
            json!({ "name": "mine" }),
        )
        .ok();
    let snapshot = server.get("/api/snapshots/mine").ok()["id"].clone();
    let snapshot = snapshot.as_str().unwrap();
    server.post("/api/api-keys", json!({ "name": "ci" })).ok();
    let token = server.get(&format!("/api/sandbox/{id}/signing-key")).ok();
    let organization = server.get("/api/organizations").ok()[0]["id"].clone();

    let mut asked = Vec::new();
    for sandbox in [id.as_str(), "web"] {
        for (method, rest) in [
            (Method::GET, ""),
            (Method::DELETE, ""),
            (Method::POST, "/start"),
            (Method::POST, "/stop"),
            (Method::POST, "/pause"),
            (Method::POST, "/archive"),
            (Method::POST, "/recover"),
            (Method::POST, "/fork"),
            (Method::POST, "/resize"),
            (Method::POST, "/network-settings"),
            (Method::PUT, "/labels"),
            (Method::PUT, "/secrets"),
            (Method::POST, "/last-activity"),
            (Method::POST, "/autostop/1"),
            (Method::POST, "/autopause/1"),
            (Method::POST, "/ttl/1"),
            (Method::POST, "/autoarchive/1"),
            (Method::POST, "/autodelete/1"),
            (Method::POST, "/public/true"),
            (Method::GET, "/signing-key"),
            (Method::POST, "/signing-key/rotate"),
            (Method::GET, "/toolbox-proxy-url"),
            (Method::GET, "/build-logs"),
            (Method::GET, "/build-logs-url"),
        ] {
            asked.push((method, format!("/api/sandbox/{sandbox}{rest}"), None));
        }
        let snapshot = Some(json!({ "name": "stolen" }));
        asked.push((
            Method::POST,
            format!("/api/sandbox/{sandbox}/snapshot"),
            snapshot,
        ));
        for rest in [
            "/work-dir",
            "/files?path=.",
            "/files/download?path=file",
            "/process/session",
        ] {
            asked.push((Method::GET, format!("/toolbox/{sandbox}{rest}"), None));
        }
        let command = Some(json!({ "command": "id" }));
        asked.push((
            Method::POST,
            format!("/toolbox/{sandbox}/process/execute"),
            command,
        ));
    }
    for (method, path) in [
        (Method::GET, format!("/api/snapshots/{snapshot}")),
        (Method::GET, "/api/snapshots/mine".to_owned()),
        (Method::DELETE, format!("/api/snapshots/{snapshot}")),
        (Method::POST, format!("/api/snapshots/{snapshot}/activate")),
        (
            Method::POST,
            format!("/api/snapshots/{snapshot}/deactivate"),
        ),
        (Method::GET, format!("/api/snapshots/{snapshot}/build-logs")),
        (
            Method::GET,
            format!("/api/snapshots/{snapshot}/build-logs-url"),
        ),
        (Method::GET, format!("/api/volumes/{volume}")),
        (Method::GET, "/api/volumes/by-name/data".to_owned()),
        (Method::DELETE, format!("/api/volumes/{volume}")),
        (Method::GET, format!("/api/secret/{secret}")),
        (Method::DELETE, format!("/api/secret/{secret}")),
        (Method::GET, "/api/api-keys/ci".to_owned()),
        (Method::DELETE, "/api/api-keys/ci".to_owned()),
        (
            Method::GET,
            format!("/api/organizations/{}", organization.as_str().unwrap()),
        ),
    ] {
        asked.push((method, path, None));
    }
    asked.push((
        Method::PATCH,
        format!("/api/secret/{secret}"),
        Some(json!({ "hosts": ["evil.example"] })),
    ));
    for (method, path, body) in asked {
        let answer = server.ask_as(&theirs, method.clone(), &path, body);
        let shown = format!("{method} {path}: {answer:?}");
        assert_eq!(answer.status.as_u16(), 404, "{shown}");
        assert!(!answer.body.to_string().contains("Cannot "), "{shown}");
        assert!(answer.body["organizationId"].is_null(), "{shown}");
    }
    // Nor are they named in lists, nor can they be built upon.
    for path in [
        "/api/sandbox",
        "/api/sandbox/paginated",
        "/api/secret/paginated",
    ] {
        let listed = server.ask_as(&theirs, Method::GET, path, None).ok();
        assert_eq!(listed["items"], json!([]), "{path}");
    }
    assert_eq!(
        server
            .ask_as(&theirs, Method::GET, "/api/volumes", None)
            .ok(),
        json!([])
    );
    for request in [
        json!({ "snapshot": "mine" }),
        json!({ "snapshot": snapshot }),
        json!({ "volumes": [{ "volumeId": volume, "mountPath": "/mnt/v" }] }),
        json!({ "volumes": [{ "volumeId": "data", "mountPath": "/mnt/v" }] }),
        json!({ "secrets": [{ "TOKEN": "token" }] }),
    ] {
        let answer = server.ask_as(&theirs, Method::POST, "/api/sandbox", Some(request.clone()));
        assert!(
            [400, 404].contains(&answer.status.as_u16()),
            "{request}: {answer:?}"
        );
    }
    // The same names are free for them, and all is as it was.
    let made = server
        .ask_as(
            &theirs,
            Method::POST,
            "/api/sandbox",
            Some(json!({ "name": "web" })),
        )
        .ok();
    let their_id = made["id"].as_str().unwrap();
    assert_ne!(their_id, id);
    server
        .ask_as(&theirs, Method::DELETE, "/api/sandbox/web", None)
        .ok();
    assert_eq!(server.run(&id, "cat file"), "ours");
    assert_eq!(
        server.get(&format!("/api/sandbox/{id}/signing-key")).ok(),
        token
    );
}

#[test]
fn a_sandboxs_own_token_opens_its_toolbox_and_nothing_else() {
    let server = TestServer::new();
    let key = server.post("/api/api-keys", json!({ "name": "ci" })).ok();
    let key = key["value"].as_str().unwrap().to_owned();
    server.ask_as(&key, Method::GET, "/api/sandbox", None).ok();
    let listed = server.get("/api/api-keys").ok().to_string();
    assert!(!listed.contains(&key), "{listed}");
    server
        .post("/api/api-keys", json!({ "name": "ci" }))
        .refused(409);
    server.delete("/api/api-keys/ci").ok();
    server
        .ask_as(&key, Method::GET, "/api/sandbox", None)
        .refused(401);
    let id = server.sandbox();
    for wrong in ["", "holm_", "Bearer", &key] {
        let path = format!("/toolbox/{id}/work-dir?DAYTONA_SANDBOX_AUTH_KEY={wrong}");
        server.ask_as(wrong, Method::GET, &path, None).refused(401);
    }
}
