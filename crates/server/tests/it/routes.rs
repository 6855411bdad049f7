//! Every operation of Daytona is answered as the table says, from which `docs/reference/daytona-coverage.md` is made.

use holm_daytona_wire::routes::{Operation, Plane, Support, operations};
use reqwest::Method;
use serde_json::Value;

use crate::support::{Answer, TestServer};

/// No sandbox, snapshot or volume has this id.
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

fn path_of(operation: &Operation, sandbox: &str) -> String {
    let filled: Vec<&str> = operation
        .path
        .split('/')
        .map(|segment| match segment {
            "{port}" | "{interval}" | "{ttlMinutes}" | "{minutes}" => "1000",
            "{isPublic}" => "true",
            parameter if parameter.starts_with('{') => NOBODY,
            literal => literal,
        })
        .collect();
    let path = filled.join("/");
    match operation.plane {
        Plane::ControlPlane => format!("/api{path}"),
        Plane::Toolbox => format!("/toolbox/{sandbox}{path}"),
    }
}

fn ask(server: &TestServer, key: &str, operation: &Operation) -> Answer {
    ask_of(server, key, operation, NOBODY)
}

/// Asks for an operation of a sandbox.
pub(crate) fn ask_of(
    server: &TestServer,
    key: &str,
    operation: &Operation,
    sandbox: &str,
) -> Answer {
    let method = Method::from_bytes(operation.method.as_str().as_bytes()).unwrap();
    server.ask_as(key, method, &path_of(operation, sandbox), None)
}

fn reaches_nothing(answer: &Answer) -> bool {
    let message = answer.body["message"].as_str().unwrap_or_default();
    answer.status.as_u16() == 405
        || (answer.status.as_u16() == 404 && message.starts_with("Cannot "))
}

/// All operations whose answer is not as it should be.
fn wrong(
    plane: Plane,
    is_wrong: impl Fn(&TestServer, &Operation) -> Option<String>,
) -> Vec<String> {
    let server = TestServer::new();
    let all = operations(plane).iter();
    all.filter_map(|operation| {
        let why = is_wrong(&server, operation)?;
        Some(format!(
            "{} {}: {why}",
            operation.method.as_str(),
            operation.path
        ))
    })
    .collect()
}

fn check(server: &TestServer, operation: &Operation) -> Option<String> {
    let answer = ask(server, &server.key, operation);
    let status = answer.status.as_u16();
    match operation.support {
        Support::Supported | Support::Shim => {
            (reaches_nothing(&answer) || status == 501).then(|| format!("not there: {answer:?}"))
        }
        // The sandbox that is asked about does not exist, which comes first in the toolbox. One that does is in
        // `kernel::answers`.
        Support::NotImplemented { .. } | Support::Unavailable
            if operation.plane == Plane::Toolbox =>
        {
            (status != 404 || reaches_nothing(&answer)).then(|| format!("{answer:?}"))
        }
        Support::NotImplemented { instead } => {
            let message = answer.body["message"].as_str().unwrap_or_default();
            let is_right = status == 501
                && answer.body["code"] == "NOT_IMPLEMENTED"
                && message.contains(instead);
            (!is_right).then(|| format!("{answer:?}"))
        }
        Support::Unavailable => (status != 503).then(|| format!("{answer:?}")),
    }
}

#[test]
fn the_control_plane_has_what_the_table_says() {
    assert_eq!(wrong(Plane::ControlPlane, check), [""; 0]);
}

#[test]
fn the_toolbox_has_what_the_table_says() {
    assert_eq!(wrong(Plane::Toolbox, check), [""; 0]);
}

#[test]
fn without_a_key_nothing_but_health_and_configuration_answers() {
    for plane in [Plane::ControlPlane, Plane::Toolbox] {
        let open = wrong(plane, |server, operation| {
            let is_public = operation.plane == Plane::ControlPlane
                // Whoever connects to events shows the key later.
                && matches!(operation.path, "/health" | "/config" | "/socket.io/");
            let answer = ask(server, "holm_wrong", operation);
            (answer.status.as_u16() != 401 && !is_public).then(|| format!("{answer:?}"))
        });
        assert_eq!(open, [""; 0]);
    }
}

#[test]
fn what_is_unknown_is_told_in_daytonas_envelope() {
    let server = TestServer::new();
    let unknown = server.get("/api/no-such-thing");
    assert_eq!(unknown.body["path"], "/api/no-such-thing");
    assert_eq!(unknown.refused(404), "Cannot GET /api/no-such-thing");
    let malformed = server.post("/api/sandbox/x/autostop/soon", Value::Null);
    assert_eq!(malformed.body["statusCode"], 400);
    malformed.refused(400);
    server.put("/api/sandbox/x/start", Value::Null).refused(405);
    let list = server.post("/api/sandbox", serde_json::json!([]));
    assert_eq!(list.refused(400), "the body has to be a JSON object");
}
