//! `holm snapshot`, beside a server and without one.

use crate::support::TestEnvironment;

#[test]
fn without_a_server_there_is_nothing_to_work_on() {
    let env = TestEnvironment::new();
    let output = env.run(["snapshot", "list", "--data", "/nowhere"]);
    insta::assert_snapshot!(output, @r"
    exit code: 1
    ----- stderr
    error: there is no server's data in `/nowhere`

    hint: start the server once with `holm serve`, or name its folder with --data
    ");
}

#[test]
fn a_snapshot_is_made_from_exactly_one_thing() {
    let env = TestEnvironment::new();
    let none = env.run(["snapshot", "create", "a"]);
    assert!(none.errors().contains("required"), "{none}");
    let two = env.run([
        "snapshot",
        "create",
        "a",
        "--from-image",
        "x",
        "--debootstrap",
        "bookworm",
    ]);
    assert!(two.errors().contains("cannot be used with"), "{two}");
}
