//! A server whoever starts it: sandboxes on the host's system, and the end of a server that has work.

use std::io::Write as _;
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::server::{Client, KEY, Serving, data, read_answer};
use crate::support::{TestEnvironment, is_root, names_in, processes_with, send, token, wait_until};

fn environment() -> TestEnvironment {
    TestEnvironment::new().with("HOLM_API_KEY", KEY)
}

fn create(client: &Client) -> String {
    let made = client.post("/api/sandbox", &json!({})).ok();
    assert_eq!(made["state"], "started", "{made}");
    made["id"].as_str().unwrap().to_owned()
}

fn delete(client: &Client, id: &str) {
    client.delete(&format!("/api/sandbox/{id}")).ok();
}

/// Sends a file as the SDKs do, in two parts: what is returned has to be sent to finish it.
fn begin_upload(client: &Client, id: &str, path: &str) -> (TcpStream, &'static str) {
    let begin =
        "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"file\"\r\n\r\nfirst ";
    let rest = "second\r\n--edge--\r\n";
    let about = (
        "multipart/form-data; boundary=edge",
        begin.len() + rest.len(),
    );
    let path = format!("/toolbox/{id}/files/upload?path={path}");
    let mut stream = client.begin("POST", &path, about).unwrap();
    stream.write_all(begin.as_bytes()).unwrap();
    (stream, rest)
}

#[test]
fn a_sandbox_lives_through_stops_and_restarts() {
    let env = environment();
    let server = Serving::start(&env, &[]);
    let client = server.client();
    let id = create(&client);
    assert_eq!(client.run(&id, "id -un; pwd"), "daytona\n/home/daytona");
    let (mut upload, rest) = begin_upload(&client, &id, "uploaded");
    upload.write_all(rest.as_bytes()).unwrap();
    read_answer(upload).unwrap().ok();
    assert_eq!(client.run(&id, "cat uploaded"), "first second");
    let file = client.get(&format!("/toolbox/{id}/files/download?path=uploaded"));
    assert_eq!(file.ok(), "first second");
    let path = format!("/api/sandbox/{id}");
    client.post(&format!("{path}/stop"), &Value::Null).ok();
    assert_eq!(client.get(&path).ok()["state"], "stopped");
    client.post(&format!("{path}/start"), &Value::Null).ok();
    assert_eq!(client.run(&id, "cat uploaded"), "first second");
    let word = token();
    client.run(
        &id,
        &format!("setsid bash -c 'exec -a {word} sleep 600' > /dev/null 2>&1 < /dev/null &"),
    );
    wait_until("the process runs", || processes_with(&word) == 1);
    server.kill();
    let server = Serving::start(&env, &[]);
    let client = server.client();
    assert_eq!(client.run(&id, "cat uploaded"), "first second");
    assert_eq!(processes_with(&word), 1);
    delete(&client, &id);
    assert_eq!(processes_with(&word), 0);
    wait_until("nothing is left", || {
        ["boxes", "trash"]
            .iter()
            .all(|folder| names_in(&data(&env).join(folder)).is_empty())
    });
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn what_needs_root_says_so() {
    if is_root() {
        eprintln!("skipped: this test needs an ordinary user");
        return;
    }
    let env = environment();
    let server = Serving::start(&env, &[]);
    let client = server.client();
    let image = json!({ "name": "debian", "imageName": "registry.example.org/debian:12" });
    let made = client.post("/api/snapshots", &image).ok();
    let path = format!("/api/snapshots/{}", made["id"].as_str().unwrap());
    wait_until("the pull fails", || {
        client.get(&path).ok()["state"] == "error"
    });
    let reason = client.get(&path).ok()["errorReason"].to_string();
    assert!(reason.contains("root"), "{reason}");
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_server_that_is_told_to_end_finishes_what_it_was_asked() {
    let env = environment();
    let mut server = Serving::start(&env, &[]);
    let client = server.client();
    let id = create(&client);
    let (word, background) = (token(), token());
    client.run(
        &id,
        &format!("setsid bash -c 'exec -a {background} sleep 600' > /dev/null 2>&1 < /dev/null &"),
    );
    let (mut upload, rest) = begin_upload(&client, &id, "uploaded");
    std::thread::scope(|scope| {
        // It ends when the test lets it: after the server was told.
        let slow = format!(
            "touch ready; bash -c 'while [ ! -e uploaded ]; do sleep 0.05; done' {word}; echo done"
        );
        let answer = scope.spawn({
            let (client, id) = (&client, &id);
            move || client.run(id, &slow)
        });
        wait_until("the command runs", || processes_with(&word) > 0);
        send(server.child(), Signal::TERM);
        wait_until("the server stops", || server.said().contains("stopping"));
        wait_until("nobody new is let in", || {
            TcpStream::connect(&server.address).is_err()
        });
        upload.write_all(rest.as_bytes()).unwrap();
        read_answer(upload).unwrap().ok();
        assert_eq!(answer.join().unwrap(), "done");
    });
    assert_eq!(server.ended().code(), Some(0));
    assert_eq!(processes_with(&background), 1);
    let server = Serving::start(&env, &[]);
    let client = server.client();
    assert_eq!(client.run(&id, "cat uploaded"), "first second");
    delete(&client, &id);
    assert_eq!(processes_with(&background), 0);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_second_signal_ends_the_server_at_once_and_no_box() {
    let env = environment();
    let mut server = Serving::start(&env, &[]);
    let client = server.client();
    let id = create(&client);
    let word = token();
    std::thread::scope(|scope| {
        let command = json!({ "command": format!("bash -c 'sleep 600; :' {word}") });
        let path = format!("/toolbox/{id}/process/execute");
        let asked = scope.spawn({
            let client = &client;
            move || client.ask("POST", &path, &command).is_ok()
        });
        wait_until("the command runs", || processes_with(&word) > 0);
        send(server.child(), Signal::TERM);
        wait_until("the server stops", || server.said().contains("stopping"));
        send(server.child(), Signal::TERM);
        assert_eq!(server.ended().code(), Some(130));
        assert!(!asked.join().unwrap(), "an answer came");
    });
    // Nobody reads its answer any more.
    wait_until("the command has ended", || processes_with(&word) == 0);
    let server = Serving::start(&env, &[]);
    let client = server.client();
    assert_eq!(client.run(&id, "echo here"), "here");
    delete(&client, &id);
    assert_eq!(server.stop().code(), Some(0));
}
