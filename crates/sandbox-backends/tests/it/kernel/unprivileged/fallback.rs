//! Hosts that allow no boxes.

use holm_sandbox::{Isolation, Sandbox};
use holm_sandbox_backends::local::{IsolationChoice, LocalRuntime};
use holm_testkit::TestRepository;

use crate::support::{Child, TestHost, Use, child_scene, config_in, on_repository, told};

#[test]
#[ignore = "started by other tests, on a host without namespaces"]
fn child() {
    let (_, folder, repository) = child_scene();
    let runtime = LocalRuntime::start(config_in(&folder)).unwrap();
    let refused = runtime.create(&on_repository(
        IsolationChoice::Namespaces,
        &repository,
        "boxed",
    ));
    told(&format!(
        "namespaces: {}",
        refused.map_or_else(|error| error.to_string(), |_| "made".into())
    ));
    let sandbox = runtime
        .create(&on_repository(IsolationChoice::Auto, &repository, "auto"))
        .unwrap();
    told(&format!("auto: {:?}", sandbox.capabilities().isolation));
    told(&format!("warning: {}", sandbox.warnings().join(" ")));
    sandbox.sh("echo x > x");
    sandbox.end_cleanly();
    told("ended");
}

#[test]
fn auto_falls_back_with_a_warning_and_namespaces_refuses() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let name = "kernel::unprivileged::fallback::child";
    let started = Child::start_without_namespaces(name, "", host.folder.path(), repository.path());
    let Some(mut child) = started else {
        eprintln!("SKIPPED: this host does not let a test forbid user namespaces to a child");
        return;
    };
    assert_eq!(child.hear(), "namespaces: could not make an isolated box");
    assert_eq!(child.hear(), "auto: None");
    let warning = child.hear();
    assert!(warning.contains("commands run unprotected"), "{warning}");
    assert_eq!(child.hear(), "ended");
    child.wait();
    assert_eq!(repository.branches(), ["auto", "main"]);
    assert_eq!(repository.file_at("auto", "x"), b"x\n");
    host.assert_nothing_is_left();
}

#[test]
fn auto_takes_a_box_where_it_can() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.sandbox(IsolationChoice::Auto, &repository, "auto");
    assert_eq!(sandbox.capabilities().isolation, Isolation::Namespaces);
    assert_eq!(sandbox.warnings(), Vec::<String>::new());
    sandbox.end_cleanly();
}
