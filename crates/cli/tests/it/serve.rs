//! `holm serve` and `holm key`, from the first start on.

use crate::server::Serving;
use crate::support::{Output, TestEnvironment, read_until, stable};

/// Replaces what differs from run to run: the port, and keys.
fn shown(output: &Output, address: &str) -> String {
    let text = output.to_string().replace(address, "[ADDRESS]");
    let mut words = text.split("holm_");
    let mut shown = words.next().unwrap_or_default().to_owned();
    for word in words {
        let end = word
            .find(|letter: char| !letter.is_ascii_hexdigit() && letter != '…')
            .unwrap_or(word.len());
        shown += "[KEY]";
        shown += &word[end..];
    }
    shown
}

#[test]
fn the_first_key_is_shown_once_and_opens_the_server() {
    let env = TestEnvironment::new();
    let mut server = Serving::start(&env, &[]);
    let lines = read_until(server.child(), "API_KEY=") + &read_until(server.child(), "\n");
    let key = lines.trim().rsplit('=').next().unwrap().to_owned();
    let address = server.address.clone();
    assert_eq!(
        lines.replace(&key, "[KEY]"),
        format!("  export DAYTONA_API_URL=http://{address}/api\n  export DAYTONA_API_KEY=[KEY]\n")
    );
    assert_eq!(server.status_line("/api/sandbox", &key), "HTTP/1.1 200 OK");
    assert_eq!(
        server.status_line("/api/sandbox", "holm_wrong"),
        "HTTP/1.1 401 Unauthorized"
    );
    let stopped = server.stop();
    assert!(!String::from_utf8_lossy(&stopped.stderr).contains(&key));
    insta::assert_snapshot!(shown(&stopped, &address), @r"
    exit code: 0
    ----- stderr
    serving Daytona's API at http://[ADDRESS]/api, with data in `[ROOT]/data/server`

    This is your first API key. It is shown this once; `holm key create` makes others.


    stopping: requests in flight may end, sandboxes go on; press Ctrl-C again to stop at once
    ");
    let server = Serving::start(&env, &[]);
    assert_eq!(server.status_line("/api/sandbox", &key), "HTTP/1.1 200 OK");
    let address = server.address.clone();
    insta::assert_snapshot!(shown(&server.stop(), &address), @r"
    exit code: 0
    ----- stderr
    serving Daytona's API at http://[ADDRESS]/api, with data in `[ROOT]/data/server`
    stopping: requests in flight may end, sandboxes go on; press Ctrl-C again to stop at once
    ");
}

#[test]
fn a_given_key_is_taken_and_not_printed() {
    let key = "a-key-for-unattended-setup";
    let env = TestEnvironment::new().with("HOLM_API_KEY", key);
    for _ in 0..2 {
        let server = Serving::start(&env, &["--log-format", "json", "--data", "elsewhere"]);
        assert_eq!(server.status_line("/api/sandbox", key), "HTTP/1.1 200 OK");
        let output = server.stop();
        assert_eq!(output.text(), "");
        assert!(!output.errors().contains(key), "{output}");
        for line in output.errors().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line["timestamp"].is_string(), "{line}");
        }
    }
    let env = env.with("HOLM_API_KEY", "weak");
    insta::assert_snapshot!(env.run(["serve", "--listen", "127.0.0.1:0"]), @r"
    exit code: 1
    ----- stderr
    error: the given key is shorter than 16 characters, or holds spaces

    hint: let `holm key create` make one: its keys cannot be guessed
    ");
}

#[test]
fn keys_are_made_and_revoked_beside_a_running_server() {
    let env = TestEnvironment::new();
    let server = Serving::start(&env, &[]);
    let made = env.run(["key", "create", "ci", "--organization", "team"]);
    insta::assert_snapshot!(shown(&made, &server.address), @r"
    exit code: 0
    ----- stdout
    [KEY]
    ----- stderr
    note: this key is not shown again
    ");
    let key = made.success();
    assert_eq!(server.status_line("/api/sandbox", &key), "HTTP/1.1 200 OK");
    insta::assert_snapshot!(env.run(["key", "create", "ci", "--organization", "team"]), @r"
    exit code: 1
    ----- stderr
    error: a key named `ci` exists already

    hint: choose another name, or revoke that key first
    ");
    let listed = env.run(["key", "list"]);
    let rows = listed.text();
    let rows: Vec<Vec<&str>> = rows
        .lines()
        .map(|row| row.split_whitespace().take(2).collect())
        .collect();
    assert_eq!(
        rows,
        [
            ["NAME", "ORGANIZATION"],
            ["first", "default"],
            ["ci", "team"]
        ]
    );
    assert!(!listed.text().contains(&key));
    let revoked = env.run(["key", "revoke", "ci", "--organization", "team", "--json"]);
    assert_eq!(revoked.json()["name"], "ci");
    assert_eq!(
        server.status_line("/api/sandbox", &key),
        "HTTP/1.1 401 Unauthorized"
    );
    insta::assert_snapshot!(env.run(["key", "revoke", "ci"]), @r"
    exit code: 1
    ----- stderr
    error: there is no key named `ci`

    hint: `holm key list` shows those that exist
    ");
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn keys_need_the_data_of_a_server() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.run(["key", "list"]), @r"
    exit code: 1
    ----- stderr
    error: there is no server's data in `[ROOT]/data/server`

    hint: start the server once with `holm serve`, or name its folder with --data
    ");
    assert!(!env.path("data").exists());
}

#[test]
fn data_and_address_belong_to_one_server() {
    let env = TestEnvironment::new();
    let server = Serving::start(&env, &[]);
    insta::assert_snapshot!(env.run(["serve", "--listen", "127.0.0.1:0"]), @r"
    exit code: 1
    ----- stderr
    error: another server uses the data folder `[ROOT]/data/server`

    hint: stop the other server, or give this one its own `--data`
    ");
    let taken = env.run(["serve", "--listen", &server.address, "--data", "other"]);
    insta::assert_snapshot!(shown(&taken, &server.address), @r"
    exit code: 1
    ----- stderr
    error: could not listen at [ADDRESS]
      caused by: Address already in use (os error 98)

    hint: choose another address with `--listen`
    ");
    // The key that nobody was shown was not made either.
    assert_eq!(
        env.run(["key", "list", "--data", "other", "--json"])
            .success(),
        "[]"
    );
}

#[test]
fn being_reachable_without_tls_is_told_loudly() {
    let env = TestEnvironment::new().with("HOLM_API_KEY", "a-key-for-unattended-setup");
    let server = Serving::start(&env, &["--listen", "0.0.0.0:0"]);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let said = server.stop().errors().replace(&port, "[PORT]");
    insta::assert_snapshot!(stable(&said, &env.path("").to_string_lossy()), @r"
    serving Daytona's API at http://127.0.0.1:[PORT]/api, with data in `[ROOT]data/server`
    warning: others on the network reach 0.0.0.0:[PORT], and there is no TLS: they can read keys and all that is sent
    hint: give --tls-cert and --tls-key, or listen at 127.0.0.1 behind a proxy that speaks TLS
    stopping: requests in flight may end, sandboxes go on; press Ctrl-C again to stop at once
    ");
}

#[test]
fn wrong_flags_are_told_with_the_right_form() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.run(["serve", "--public-url", "holm.example.org"]), @r"
    exit code: 2
    ----- stderr
    error: invalid value 'holm.example.org' for '--public-url <URL>': write it as `https://holm.example.org`

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(env.run(["serve", "--tls-cert", "chain.pem"]), @r"
    exit code: 2
    ----- stderr
    error: the following required arguments were not provided:
      --tls-key <FILE>

    Usage: holm serve --tls-cert <FILE> --tls-key <FILE>

    For more information, try '--help'.
    ");
}
