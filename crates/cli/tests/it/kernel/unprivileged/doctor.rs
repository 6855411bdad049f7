//! `holm doctor` on a machine that can run these tests.

use crate::support::TestEnvironment;

#[test]
fn sandboxes_work_here() {
    let env = TestEnvironment::new();
    let screen = env.run(["doctor"]).success();
    assert!(
        screen.lines().count() <= 24,
        "more than a screen:\n{screen}"
    );
    assert!(screen.contains("✓ kernel"), "{screen}");
    assert!(
        screen.contains("✓ a real sandbox   made, used and removed in"),
        "{screen}"
    );
    assert!(
        screen.ends_with("\n\nsandboxes work on this machine"),
        "{screen}"
    );
    assert!(!screen.contains('\u{1b}'), "{screen}");
    env.assert_clean();
}

#[test]
fn json_names_every_check() {
    let env = TestEnvironment::new();
    let report = env.run(["doctor", "--json"]).json();
    assert_eq!(report["works"], true);
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let names: Vec<&str> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    insta::assert_snapshot!(names.join("\n"), @r#"
    kernel
    user
    user namespaces
    overlayfs
    seccomp
    git
    bubblewrap
    limits
    data folder
    a real sandbox
    "#);
}

#[test]
fn data_folder_that_cannot_be_is_a_finding() {
    let env = TestEnvironment::new();
    std::fs::write(env.path("file"), "").unwrap();
    let inside = env.path("file").join("data");
    let run = env.with("HOLM_DATA_DIR", inside).run(["doctor"]);
    assert_eq!(run.code(), Some(1), "{run}");
    assert!(run.text().contains("✗ a real sandbox"), "{run}");
}
