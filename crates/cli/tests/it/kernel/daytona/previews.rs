//! What a command serves can be looked at, by a link that the user is told.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr};

use holm_testserver::Fault;
use rustix::process::Signal;

use super::{BadDay, Scene};
use crate::server::Serving;
use crate::support::{TestEnvironment, send};

/// The link to a port, as it is told on standard error.
fn told(stderr: &mut BufReader<ChildStderr>, port: u16) -> String {
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let start = format!("port {port} is served at ");
    assert!(line.starts_with(&start), "{line}");
    line.trim_end().replacen(&start, "", 1)
}

/// What a browser gets, which finds the host's name at the server's address.
fn page(link: &str, server: &Serving<'_>) -> String {
    let rest = link.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer.split(' ').nth(1), Some("200"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn start(env: &TestEnvironment, arguments: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut child = env.holm(arguments).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    (child, stderr)
}

#[test]
fn a_port_that_a_command_serves_is_told_with_a_link_that_works() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let env = scene.user(&server);
    let script = "echo served from afar > index.html; exec python3 -m http.server 8765 2>/dev/null";
    let (child, mut stderr) = start(&env, &["exec", "--", "sh", "-c", script]);
    let link = told(&mut stderr, 8765);
    assert_eq!(page(&link, &server), "served from afar\n");
    send(&child, Signal::TERM);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(env.finish(child).code(), Some(143));
    // Once, although it was served all the time.
    assert!(!rest.contains("8765"), "{rest}");
    assert!(server.client().sandboxes().is_empty());
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn links_stand_in_the_json_of_the_command_that_served_and_of_no_other() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let env = scene.user(&server);
    env.run(["sandbox", "create", "--name", "one"]).success();
    let script = "echo hello > index.html; python3 -m http.server 8766 2>/dev/null >&2 & \
                  until [ -e enough ]; do sleep 0.1; done; kill $!";
    let exec = ["sandbox", "exec", "one", "--json", "--"];
    let (child, mut stderr) = start(&env, &[&exec[..], &["sh", "-c", script]].concat());
    let link = told(&mut stderr, 8766);
    assert_eq!(page(&link, &server), "hello\n");
    // It was served before this one began, and is seen by several of its looks.
    let other = env.run([&exec[..], &["sh", "-c", "sleep 1; touch enough"]].concat());
    assert_eq!(other.json()["previews"], serde_json::json!([]), "{other}");
    let output = env.finish(child);
    let said = output.json();
    assert_eq!(said["exit_code"], 0, "{output}");
    let expected = serde_json::json!([{ "port": 8766, "url": link }]);
    assert_eq!(said["previews"], expected);
    env.run(["sandbox", "rm", "one"]).success();
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_server_that_answers_no_question_about_ports_holds_no_command_up() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let bad_day = BadDay::before(&server);
    bad_day.proxy.always("/port ", Fault::Silence);
    let env = scene.user(&server);
    let env = env.with("DAYTONA_API_URL", bad_day.proxy.api_url());
    // Longer than the first look.
    let output = env.run(["exec", "--", "sh", "-c", "sleep 1; echo done"]);
    assert_eq!(output.success(), "done");
    assert!(!bad_day.proxy.requests("/port ").is_empty());
    assert!(server.client().sandboxes().is_empty());
    assert_eq!(server.stop().code(), Some(0));
}
