//! The table is complete, holds nothing twice, and finds what a request means.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

const DOCUMENTS: &str = include_str!("../../spec/operations.json");

fn row(operation: &Operation) -> [String; 4] {
    [
        operation.method.as_str(),
        operation.path,
        operation.id,
        operation.tag,
    ]
    .map(str::to_owned)
}

#[test]
fn the_table_has_every_operation_of_the_documents_and_no_other() {
    let documents: Value = serde_json::from_str(DOCUMENTS).unwrap();
    for (plane, key, count) in [
        (Plane::ControlPlane, "controlPlane", 196),
        (Plane::Toolbox, "toolbox", 103),
    ] {
        let expected: Vec<[String; 4]> = serde_json::from_value(documents[key].clone()).unwrap();
        assert_eq!(expected.len(), count);
        let expected: BTreeSet<_> = expected.into_iter().collect();
        let found: BTreeSet<_> = operations(plane)
            .iter()
            .filter(|operation| operation.origin == Origin::Specification)
            .map(row)
            .collect();
        let differing: Vec<_> = expected.symmetric_difference(&found).collect();
        assert!(differing.is_empty(), "{differing:#?}");
    }
}

#[test]
fn nothing_is_there_twice() {
    for plane in [Plane::ControlPlane, Plane::Toolbox] {
        let mut seen = BTreeSet::new();
        for operation in operations(plane) {
            let key = (operation.method.as_str(), operation.path);
            assert!(seen.insert(key), "{key:?}");
        }
    }
}

#[test]
fn a_request_finds_its_operation() {
    let id = |plane, method, path| find(plane, method, path).map(|operation| operation.id);
    let control = |method, path| id(Plane::ControlPlane, method, path);
    let toolbox = |method, path| id(Plane::Toolbox, method, path);
    assert_eq!(control(Method::Get, "/sandbox"), Some("listSandboxes"));
    assert_eq!(control(Method::Get, "/sandbox/a"), Some("getSandbox"));
    assert_eq!(
        control(Method::Get, "/sandbox/paginated"),
        Some("listSandboxesPaginated_deprecated")
    );
    assert_eq!(
        control(Method::Post, "/sandbox/a/autodelete/-1"),
        Some("setAutoDeleteInterval")
    );
    assert_eq!(
        toolbox(Method::Get, "/process/session/entrypoint"),
        Some("GetEntrypointSession")
    );
    assert_eq!(
        toolbox(Method::Get, "/process/pty/create-connect"),
        Some("CreateConnectPtySession")
    );
    for nothing in ["", "/", "/sandbox/", "/sandbox/a/b/c/d/e/f", "sandbox"] {
        assert_eq!(control(Method::Get, nothing), None, "{nothing}");
    }
    assert_eq!(control(Method::Patch, "/sandbox"), None);
}

#[test]
fn every_operation_is_found_by_its_own_path() {
    for plane in [Plane::ControlPlane, Plane::Toolbox] {
        for operation in operations(plane) {
            let path: Vec<&str> = operation
                .path
                .split('/')
                .map(|part| if part.starts_with('{') { "x" } else { part })
                .collect();
            let found = find(plane, operation.method, &path.join("/"));
            assert_eq!(found, Some(operation));
        }
    }
}

#[test]
fn the_page_has_every_operation() {
    let page = coverage_markdown();
    for plane in [Plane::ControlPlane, Plane::Toolbox] {
        for operation in operations(plane) {
            let cell = format!("| `{} {}`", operation.method.as_str(), operation.path);
            assert!(page.contains(&cell), "{cell}");
        }
    }
    assert_eq!(Method::parse("GET"), Some(Method::Get));
    assert_eq!(Method::parse("HEAD"), None);
}
