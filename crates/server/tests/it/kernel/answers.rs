//! What the toolbox of a real sandbox answers to operations that it does not have.

use holm_daytona_wire::routes::{Operation, Plane, Support, operations};
use reqwest::Method;

use crate::routes::ask_of;
use crate::support::TestServer;

/// What is wrong with an answer, if anything is.
fn problem(server: &TestServer, operation: &Operation, id: &str) -> Option<String> {
    let wanted = match operation.support {
        Support::Supported | Support::Shim => return None,
        Support::NotImplemented { instead } => (501, "NOT_IMPLEMENTED", instead),
        // As Daytona's daemon without its plugin.
        Support::Unavailable => (503, "SERVICE_UNAVAILABLE", "computer-use plugin"),
    };
    let answer = ask_of(server, &server.key, operation, id);
    let message = answer.body["message"].as_str().unwrap_or_default();
    let is_right = answer.status.as_u16() == wanted.0
        && answer.body["statusCode"] == wanted.0
        && answer.body["code"] == wanted.1
        && message.contains(wanted.2);
    let name = format!("{} {}", operation.method.as_str(), operation.path);
    (!is_right).then(|| format!("{name}: {answer:?}"))
}

#[test]
fn what_is_not_there_says_so() {
    let server = TestServer::new();
    let id = server.sandbox();
    let all = operations(Plane::Toolbox).iter();
    let wrong: Vec<String> = all
        .filter_map(|operation| problem(&server, operation, &id))
        .collect();
    assert_eq!(wrong, [""; 0]);
    // What Daytona does not know either is no operation; below `computeruse` everything needs the plugin.
    let path = format!("/toolbox/{id}/no/such/thing");
    assert_eq!(server.get(&path).refused(404), format!("Cannot GET {path}"));
    server
        .get(&format!("/toolbox/{id}/computeruse/new-thing"))
        .refused(503);
    // Who may not ask learns nothing of it.
    let other = server.key_of("other");
    let path = format!("/toolbox/{id}/computeruse/screenshot");
    let foreign = server.ask_as(&other, Method::GET, &path, None);
    let unknown = path.replace(&id, "00000000-0000-4000-8000-000000000000");
    let unknown = server.ask_as(&other, Method::GET, &unknown, None);
    assert_eq!(foreign.status, unknown.status);
    foreign.refused(404);
}
