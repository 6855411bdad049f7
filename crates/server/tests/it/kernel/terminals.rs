//! Shells on terminals.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::sockets::Socket;
use crate::support::{TestServer, wait_until};

const EXIT_CONTROL: (&str, &str) = ("Sec-WebSocket-Protocol", "X-Daytona-Pty-Exit-Control");

fn path(id: &str, rest: &str) -> String {
    format!("/toolbox/{id}/process/pty{rest}")
}

/// Opens a terminal; the first frame says that it is there.
#[track_caller]
fn open<'a>(server: &'a TestServer, path: &str) -> Socket<'a> {
    let mut socket = Socket::open(server, path, &[EXIT_CONTROL]).unwrap();
    assert_eq!(socket.chosen.as_deref(), Some(EXIT_CONTROL.1));
    let first = socket.next().unwrap();
    assert_eq!(
        control(&first),
        json!({ "type": "control", "status": "connected" })
    );
    socket
}

#[track_caller]
fn control(message: &Message) -> Value {
    assert!(message.is_text(), "{message:?}");
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

fn typed(socket: &mut Socket<'_>, text: &str) {
    socket.send(Message::Binary(text.as_bytes().to_vec().into()));
}

/// Reads until this was shown.
#[track_caller]
fn shown(socket: &mut Socket<'_>, until: &str) -> String {
    let mut all = String::new();
    while !all.contains(until) {
        let message = socket.next().expect(&all);
        assert!(message.is_binary(), "{message:?} after {all}");
        all.push_str(&String::from_utf8_lossy(&message.into_data()));
    }
    all
}

/// The last control frame and the close.
#[track_caller]
fn end(socket: Socket<'_>) -> (Value, u16, String) {
    let (messages, close) = socket.rest();
    let (code, reason) = close.unwrap();
    (control(messages.last().unwrap()), code, reason)
}

#[test]
fn a_terminal_is_typed_into_and_resized() {
    let server = TestServer::new();
    let id = server.sandbox();
    let mut socket = open(
        &server,
        &path(&id, "/create-connect?id=p1&cols=100&rows=30&cwd=/tmp"),
    );
    typed(&mut socket, "stty size; pwd; tty; echo $TERM\n");
    let screen = shown(&mut socket, "xterm-256color");
    assert!(
        screen.contains("30 100") && screen.contains("/tmp"),
        "{screen}"
    );
    assert!(screen.contains("/dev/pts/"), "{screen}");
    let resized = server
        .post(&path(&id, "/p1/resize"), json!({ "cols": 77, "rows": 11 }))
        .ok();
    assert_eq!(
        (&resized["cols"], &resized["rows"]),
        (&json!(77), &json!(11))
    );
    // A program on it hears of the next change, as an editor would, and of Ctrl-C.
    let program = "bash -c 'trap \"stty size; echo heard\" WINCH; stty size; echo rea-dy; \
                   while :; do sleep 0.05; done'\n";
    typed(&mut socket, &program.replace("rea-dy", "rea\"\"dy"));
    shown(&mut socket, "11 77\r\nready");
    server
        .post(&path(&id, "/p1/resize"), json!({ "cols": 55, "rows": 22 }))
        .ok();
    shown(&mut socket, "22 55\r\nheard");
    typed(&mut socket, "\u{3}");
    shown(&mut socket, "^C");
    typed(&mut socket, "echo back-$((40 + 2))\n");
    shown(&mut socket, "back-42");
    let listed = server.get(&path(&id, "")).ok();
    let one = &listed["sessions"][0];
    assert_eq!(
        (&one["id"], &one["cwd"], &one["active"]),
        (&json!("p1"), &json!("/tmp"), &json!(true))
    );
    typed(&mut socket, "exit\n");
    let (exited, code, reason) = end(socket);
    assert_eq!(
        exited,
        json!({ "type": "control", "status": "exited", "exitCode": 0 })
    );
    assert_eq!((code, reason.as_str()), (1000, "{\"exitCode\":0}"));
    server.get(&path(&id, "/p1")).refused(404);
}

#[test]
fn several_clients_see_the_same_and_those_who_come_later_see_what_was() {
    let server = TestServer::new();
    let id = server.sandbox();
    let mut first = open(&server, &path(&id, "/create-connect?id=p1"));
    typed(&mut first, "echo be-$((1 + 1))-gun\n");
    shown(&mut first, "be-2-gun");
    let mut second = open(&server, &path(&id, "/p1/connect"));
    shown(&mut second, "be-2-gun");
    typed(&mut second, "echo sec-$((1 + 1))-ond\n");
    shown(&mut first, "sec-2-ond");
    shown(&mut second, "sec-2-ond");
    // The terminal stays when all are gone.
    drop((first, second));
    let mut third = open(&server, &path(&id, "/p1/connect"));
    shown(&mut third, "sec-2-ond");
    typed(&mut third, "exit 3\n");
    let (exited, code, reason) = end(third);
    assert_eq!((&exited["exitCode"], code), (&json!(3), 1011));
    assert_eq!(reason, "{\"exitCode\":3}");
}

#[test]
fn a_killed_terminal_ends_with_137() {
    let server = TestServer::new();
    let id = server.sandbox();
    let mut socket = open(&server, &path(&id, "/create-connect?id=p1"));
    typed(&mut socket, "sleep 4718 & echo be-$((1 + 1))-gun\n");
    shown(&mut socket, "be-2-gun");
    server.delete(&path(&id, "/p1")).ok();
    let (exited, code, _) = end(socket);
    assert_eq!((&exited["exitCode"], code), (&json!(137), 1011));
    server.delete(&path(&id, "/p1")).refused(404);
    let execute = format!("/toolbox/{id}/process/execute");
    wait_until("nothing of it runs", || {
        let count = server.post(&execute, json!({ "command": "pgrep -fc '^sleep 4718'" }));
        count.body["result"] == "0\n"
    });
}

#[test]
fn terminals_are_made_without_a_client_and_started_when_that_is_wanted() {
    let server = TestServer::with(|config| config.limits.terminals_max = 2);
    let id = server.sandbox();
    let create = |request: Value| server.post(&path(&id, ""), request);
    let made = create(json!({ "id": "lazy", "lazyStart": true, "envs": { "A": "b" } }));
    assert_eq!(
        (made.status.as_u16(), &made.body["sessionId"]),
        (201, &json!("lazy"))
    );
    let info = server.get(&path(&id, "/lazy")).ok();
    assert_eq!(
        (&info["active"], &info["lazyStart"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(info["envs"], json!({ "A": "b" }));
    create(json!({ "id": "now" })).ok();
    assert_eq!(server.get(&path(&id, "/now")).ok()["active"], true);
    create(json!({ "id": "now" })).refused(409);
    create(json!({ "id": "third" })).refused(429);
    let mut socket = open(&server, &path(&id, "/lazy/connect"));
    typed(&mut socket, "echo $A-$((1 + 1))\n");
    shown(&mut socket, "b-2");
    assert_eq!(server.get(&path(&id, "/lazy")).ok()["active"], true);
}

#[test]
fn bad_requests_are_refused_before_the_upgrade() {
    let server = TestServer::new();
    let id = server.sandbox();
    let refused = |rest: &str| Socket::open(&server, &path(&id, rest), &[]).err();
    assert_eq!(refused("/create-connect"), Some(400));
    assert_eq!(refused("/create-connect?id=a%2Fb"), Some(400));
    assert_eq!(refused("/create-connect?id=a&cols=0"), Some(400));
    assert_eq!(refused("/create-connect?id=a&rows=100000"), Some(400));
    assert_eq!(refused("/create-connect?id=a&cwd=/no/such"), Some(400));
    assert_eq!(refused("/nothing/connect"), Some(404));
    // A failed start leaves the name free, and no subprotocol is chosen when none was offered.
    let socket = Socket::open(&server, &path(&id, "/create-connect?id=a"), &[]);
    assert_eq!(socket.ok().unwrap().chosen, None);
    assert_eq!(refused("/create-connect?id=a"), Some(409));
    server.get(&path(&id, "/a/connect")).refused(400);
}

#[test]
fn an_environment_comes_in_a_subprotocol_that_is_not_repeated() {
    let server = TestServer::new();
    let id = server.sandbox();
    let offered = "X-Daytona-Pty-Exit-Control, X-Daytona-Pty-Envs~eyJGT08iOiAiYmFyIn0";
    let header = ("Sec-WebSocket-Protocol", offered);
    let mut socket = Socket::open(&server, &path(&id, "/create-connect?id=a"), &[header]).unwrap();
    assert_eq!(socket.chosen.as_deref(), Some(EXIT_CONTROL.1));
    socket.next().unwrap();
    typed(&mut socket, "echo $FOO-$((1 + 1))\n");
    shown(&mut socket, "bar-2");
}

#[test]
fn a_client_that_does_not_read_is_dropped_and_too_much_input_is_refused() {
    let server = TestServer::new();
    let id = server.sandbox();
    let mut slow = open(&server, &path(&id, "/create-connect?id=p1"));
    // Few lines: the kernel works through each of them.
    typed(
        &mut slow,
        "head -c 16000000 /dev/zero | tr '\\0' x; touch done\n",
    );
    let execute = format!("/toolbox/{id}/process/execute");
    wait_until("the terminal has gone on without it", || {
        server.post(&execute, json!({ "command": "ls done" })).body["exitCode"] == 0
    });
    let (_, close) = slow.rest();
    assert_eq!(close.map(|close| close.0), Some(1008));
    let mut other = open(&server, &path(&id, "/p1/connect"));
    typed(&mut other, &"x".repeat(100_000));
    let (_, close) = other.rest();
    assert_ne!(close.map(|close| close.0), Some(1000));
    assert_eq!(server.get(&path(&id, "/p1")).ok()["active"], true);
}

#[test]
fn terminals_live_on_when_the_server_is_started_again() {
    let server = TestServer::new();
    let id = server.sandbox();
    {
        let mut socket = open(&server, &path(&id, "/create-connect?id=p1&cols=90&rows=20"));
        typed(&mut socket, "cd /tmp; A=kept; echo be-$((1 + 1))-gun\n");
        shown(&mut socket, "be-2-gun");
    }
    let data = server.stop();
    let server = TestServer::at(data, |_| {});
    let info = server.get(&path(&id, "/p1")).ok();
    assert_eq!((&info["active"], &info["cols"]), (&json!(true), &json!(90)));
    let mut socket = open(&server, &path(&id, "/p1/connect"));
    typed(&mut socket, "echo $A-$((1 + 1)); pwd; exit 4\n");
    let screen = shown(&mut socket, "kept-2");
    let (exited, _, _) = end(socket);
    assert_eq!(exited["exitCode"], 4, "{screen}");
    server.get(&path(&id, "/p1")).refused(404);
}
