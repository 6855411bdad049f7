//! SSH into sandboxes, by the real client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{TestServer, wait_until};

/// A server that also speaks SSH, with a sandbox and a token for it.
pub(super) struct Ssh {
    pub(super) server: TestServer,
    id: String,
    pub(super) token: String,
    pub(super) port: String,
}

impl Ssh {
    pub(super) fn new() -> Self {
        let server = TestServer::with(|config| {
            config.ssh_listen = Some("127.0.0.1:0".parse().unwrap());
            config.limits.tick = Duration::from_millis(50);
        });
        let id = server.sandbox();
        let access = server.post(&format!("/api/sandbox/{id}/ssh-access"), json!({}));
        let access = access.ok();
        let command = access["sshCommand"].as_str().unwrap();
        let token = access["token"].as_str().unwrap().to_owned();
        let port = command
            .strip_prefix("ssh -p ")
            .and_then(|rest| rest.strip_suffix(&format!(" {token}@127.0.0.1")))
            .unwrap_or_else(|| panic!("{command}"))
            .to_owned();
        Self {
            server,
            id,
            token,
            port,
        }
    }

    fn path(&self, more: &str) -> String {
        format!("/api/sandbox/{}/ssh-access{more}", self.id)
    }

    pub(super) fn client_as(&self, program: &str, user: &str) -> Command {
        let mut command = Command::new(program);
        for option in [
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "BatchMode=yes",
            "LogLevel=ERROR",
        ] {
            command.args(["-o", option]);
        }
        command.args(["-F", "none", "-o", &format!("Port={}", self.port)]);
        command.args(["-o", &format!("User={user}")]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(super) fn client(&self) -> Command {
        self.client_as("ssh", &self.token)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.client()
            .arg("127.0.0.1")
            .args(arguments)
            .output()
            .unwrap()
    }

    #[track_caller]
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn execute(&self, command: &str) -> Value {
        let path = format!("/toolbox/{}/process/execute", self.id);
        self.server.post(&path, json!({ "command": command })).ok()
    }
}

#[test]
fn commands_have_streams_codes_and_an_environment() {
    let ssh = Ssh::new();
    let output = ssh.run(&["echo out; echo err >&2; pwd; id -un; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "out\n/home/daytona\ndaytona\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), "err\n");
    assert_eq!(ssh.run(&["kill -TERM $$"]).status.code(), Some(143));
    let mut command = ssh.client();
    command.args(["-o", "SetEnv=COLOUR=blue", "127.0.0.1", "echo $COLOUR"]);
    assert_eq!(command.output().unwrap().stdout, b"blue\n");
}

#[test]
fn much_is_carried_in_both_directions() {
    let ssh = Ssh::new();
    let mut child = ssh
        .client()
        .args(["127.0.0.1", "cat; echo end"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent: Vec<u8> = (0..3_000_000_u32)
        .map(|index| index.to_le_bytes()[1])
        .collect();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&copy).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.stdout.len(), sent.len() + 4);
    assert!(output.stdout.starts_with(&sent));
    // What is left in the background does not hold the end back.
    assert_eq!(ssh.text(&["sleep 60 & echo done"]), "done\n");
}

#[test]
fn a_shell_has_a_terminal() {
    let ssh = Ssh::new();
    let mut child = ssh
        .client()
        .args(["-tt", "127.0.0.1"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"tty; echo $TERM; stty size; exit 3\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("/dev/pts/"), "{text}");
    drop(stdin);
}

#[test]
fn what_a_client_started_ends_with_it() {
    let ssh = Ssh::new();
    let mut child = ssh
        .client()
        .args(["127.0.0.1", "echo started; exec sleep 987"])
        .spawn()
        .unwrap();
    let mut started = [0; 8];
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut started).unwrap();
    let runs = || ssh.execute("pgrep -cf 'sleep 98[7]'")["result"] != "0\n";
    assert!(runs());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("it has ended", || !runs());
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn ports_of_the_sandbox_are_forwarded_and_no_others() {
    let ssh = Ssh::new();
    ssh.execute("cd /tmp && echo hello > file && python3 -m http.server 8000 >/dev/null 2>&1 &");
    let forward = |target: &str| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let local = free.local_addr().unwrap().to_string();
        drop(free);
        let mut command = ssh.client();
        command.args(["-N", "-L", &format!("{local}:{target}"), "127.0.0.1"]);
        let child = Ended(command.spawn().unwrap());
        wait_until("the client listens", || TcpStream::connect(&local).is_ok());
        (child, local)
    };
    let ask = |local: &str| {
        let mut stream = TcpStream::connect(local).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        drop(stream.write_all(b"GET /file HTTP/1.0\r\n\r\n"));
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer));
        answer
    };
    let (_child, local) = forward("127.0.0.1:8000");
    wait_until("the program answers", || ask(&local).ends_with("hello\n"));
    // The host's own ports, and other machines.
    let own = ssh.server.url.rsplit(':').next().unwrap().to_owned();
    for target in [format!("127.0.0.1:{own}"), "10.0.0.1:80".to_owned()] {
        let (_child, local) = forward(&target);
        assert_eq!(ask(&local), "", "{target}");
    }
}

#[test]
fn tokens_open_one_sandbox_until_they_are_revoked() {
    let ssh = Ssh::new();
    let is_let_in = |user: &str| {
        let mut command = ssh.client_as("ssh", user);
        command
            .args(["127.0.0.1", "true"])
            .status()
            .unwrap()
            .success()
    };
    let validate = |token: &str, key: &str| {
        let path = format!("/api/sandbox/ssh-access/validate?token={token}");
        ssh.server.ask_as(key, Method::GET, &path, None).ok()
    };
    assert!(is_let_in(&ssh.token));
    for wrong in ["root", &ssh.token[1..], &ssh.id, &ssh.server.key] {
        assert!(!is_let_in(wrong), "{wrong}");
    }
    let ours = validate(&ssh.token, &ssh.server.key);
    assert_eq!(ours, json!({ "valid": true, "sandboxId": ssh.id }));
    let other = ssh.server.key_of("other");
    assert_eq!(validate(&ssh.token, &other)["valid"], false);
    for method in [Method::POST, Method::DELETE] {
        let answer = ssh.server.ask_as(&other, method, &ssh.path(""), None);
        assert_eq!(answer.status.as_u16(), 404);
    }
    let second = ssh
        .server
        .post(&ssh.path("?expiresInMinutes=5"), json!({}))
        .ok();
    let second = second["token"].as_str().unwrap();
    ssh.server
        .delete(&ssh.path(&format!("?token={}", ssh.token)))
        .ok();
    assert!(!is_let_in(&ssh.token) && is_let_in(second));
    ssh.server.delete(&ssh.path("")).ok();
    assert!(!is_let_in(second));
    assert_eq!(validate(second, &ssh.server.key)["valid"], false);
    for wrong in ["0", "-1", "x", "1e99", "NaN"] {
        let path = ssh.path(&format!("?expiresInMinutes={wrong}"));
        ssh.server.post(&path, json!({})).refused(400);
    }
}

#[test]
fn a_stopped_sandbox_says_so() {
    let ssh = Ssh::new();
    ssh.server
        .post(&format!("/api/sandbox/{}/stop", ssh.id), json!({}))
        .ok();
    let output = ssh.run(&["true"]);
    assert_eq!(output.status.code(), Some(255));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not started"), "{said}");
}

#[test]
fn without_a_door_the_flag_is_named() {
    let server = TestServer::new();
    let id = server.sandbox();
    let path = format!("/api/sandbox/{id}/ssh-access");
    let said = server.post(&path, json!({})).refused(501);
    assert!(said.contains("--ssh-listen"), "{said}");
}
