//! `holm thread` with a real server: what a user sees, and what survives kills of either side.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::server::{KEY, Serving};
use crate::support::{Output, TestEnvironment, read_until, wait_until};

/// An environment whose server, when there is one, is at a port of its own for the whole test.
struct Threads {
    env: TestEnvironment,
    address: String,
}

impl Threads {
    fn new() -> Self {
        // A free port, which is used again and again.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let env = TestEnvironment::new()
            .with("HOLM_API_KEY", KEY)
            .with("HOLM_API_URL", format!("http://{address}"));
        Self { env, address }
    }

    fn serve(&self) -> Serving<'_> {
        Serving::start(&self.env, &["--listen", &self.address])
    }

    #[track_caller]
    fn thread(&self, arguments: &[&str]) -> Output {
        let all: Vec<&str> = ["thread"].iter().chain(arguments).copied().collect();
        self.env.run(all)
    }

    #[track_caller]
    fn create(&self, id: &str) -> String {
        self.thread(&["create", "--id", id]).success()
    }

    /// The texts of a thread's chats.
    #[track_caller]
    fn chats(&self, id: &str) -> Vec<String> {
        let lines = self
            .thread(&["follow", id, "--no-wait", "--json"])
            .success();
        let entries = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let text = |entry: Value| entry["payload"]["text"].as_str().map(str::to_owned);
        entries.filter_map(text).collect()
    }

    /// A command in the background, with its output in pipes.
    fn start(&self, arguments: &[&str]) -> Running {
        let all: Vec<&str> = ["thread"].iter().chain(arguments).copied().collect();
        let mut command = self.env.holm(all);
        Running(command.stdin(Stdio::piped()).spawn().unwrap())
    }
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_thread_is_made_written_shown_and_listed() {
    let threads = Threads::new();
    let _server = threads.serve();
    let made = threads.thread(&[
        "create", "--id", "t-1", "--tag", "web", "--tag", "fix", "--idle",
    ]);
    assert_eq!(made.success(), "t-1");
    // Asked again, it is the same one.
    let again = threads.thread(&[
        "create", "--id", "t-1", "--tag", "web", "--tag", "fix", "--idle", "--json",
    ]);
    assert_eq!(again.json()["status"], "idle");
    let said = threads.thread(&[
        "append",
        "t-1",
        "hello there",
        "--author",
        "ann",
        "--id",
        "e1",
    ]);
    assert_eq!(said.success(), "e1");
    let repeated = threads.thread(&[
        "append",
        "t-1",
        "hello there",
        "--author",
        "ann",
        "--id",
        "e1",
        "--json",
    ]);
    assert_eq!(repeated.json(), json!({ "ids": ["e1"], "stored": 0 }));
    let piped = threads
        .env
        .run_with_input(["thread", "append", "t-1", "--id", "e2"], b"from a pipe\n");
    assert_eq!(piped.success(), "e2");
    assert_eq!(threads.chats("t-1"), ["hello there", "from a pipe"]);
    let shown = threads.thread(&["follow", "t-1", "--no-wait"]).success();
    let without_times: Vec<&str> = shown.lines().map(|line| &line[20..]).collect();
    assert_eq!(
        without_times,
        [
            "signal.thread.created status=idle tags=[\"web\",\"fix\"]",
            "chat ann: hello there",
            "chat from a pipe"
        ]
    );
    let shown = threads.thread(&["show", "t-1"]).success();
    assert!(shown.contains("status       idle"), "{shown}");
    assert!(shown.contains("tags         fix, web"), "{shown}");
    threads.create("t-2");
    let listed = threads.thread(&["list", "--tag", "web"]).success();
    assert!(listed.starts_with("ID   STATUS  RUN  TAGS"), "{listed}");
    assert!(
        listed.contains("t-1") && !listed.contains("t-2"),
        "{listed}"
    );
    let all = threads.thread(&["list", "--json", "--limit", "1"]).json();
    assert_eq!(all.as_array().unwrap().len(), 1);
    let verified = threads.thread(&["verify", "t-1"]).success();
    assert_eq!(verified, "thread t-1: 3 entries, all is well");
}

#[test]
fn failures_say_what_to_do() {
    let threads = Threads::new();
    let address = threads.address.clone();
    let shown = |output: &Output| output.to_string().replace(&address, "[ADDRESS]");
    let down = threads.thread(&["show", "x"]);
    let text = shown(&down);
    assert_eq!(down.code(), Some(1));
    assert!(
        text.contains("error: could not look at thread `x`"),
        "{text}"
    );
    assert!(text.contains("hint: see whether the server runs"), "{text}");
    let _server = threads.serve();
    insta::assert_snapshot!(shown(&threads.thread(&["show", "x"])), @r"
    exit code: 1
    ----- stderr
    error: could not look at thread `x`: there is no thread `x` (status 404)

    hint: see whether the name is right; what belongs to others is not shown
    ");
    for command in ["follow", "export", "verify"] {
        let text = shown(&threads.thread(&[command, "x"]));
        assert!(
            text.contains("thread `x`") && text.contains("404"),
            "{text}"
        );
    }
    insta::assert_snapshot!(shown(&threads.thread(&["append", "../x", "y"])), @r"
    exit code: 1
    ----- stderr
    error: this id of a thread cannot be used: the id of a thread is 1 to 64 letters, digits, `-` and `_`
    ");
    threads.create("t");
    insta::assert_snapshot!(shown(&threads.env.run_with_input(["thread", "append", "t", "--ndjson"], b"{\"type\":\"nonsense\"}\n")), @r"
    exit code: 1
    ----- stderr
    error: line 1 of standard input cannot be appended: the payload's `type` is `nonsense`: it has to be `chat` or to begin with `pi.`, `codex.`, `claude.` or `signal.`

    hint: each line is an entry or a payload; see `holm thread append --help`
    ");
    let without = TestEnvironment::new();
    insta::assert_snapshot!(without.run(["thread", "list"]), @r"
    exit code: 1
    ----- stderr
    error: there is no key to ask the server with: HOLM_API_KEY is not set

    hint: set it to the key that `holm serve` showed at its first start, or to one from `holm key create`
    ");
    let wrong = TestEnvironment::new()
        .with("HOLM_API_KEY", "a-wrong-key-a-wrong-key")
        .with("HOLM_API_URL", format!("http://{address}/api"));
    let refused = wrong.run(["thread", "list"]);
    assert!(refused.errors().contains("holm key create"), "{refused}");
    assert!(!refused.errors().contains("a-wrong-key"), "{refused}");
}

#[test]
fn a_follower_survives_kills_of_the_server() {
    let threads = Threads::new();
    let mut server = threads.serve();
    threads.create("t");
    let mut follower = threads.start(&["follow", "t", "--json"]);
    read_until(&mut follower.0, "thread-created");
    read_until(&mut follower.0, "\n");
    for round in 0..4 {
        let text = format!("round {round}");
        threads.thread(&["append", "t", &text]).success();
        let line = read_until(&mut follower.0, "\n");
        assert!(line.contains(&text), "{line}");
        server.kill();
        server = threads.serve();
    }
    assert_eq!(threads.chats("t").len(), 4);
    drop(server);
}

#[test]
fn a_follower_with_a_cursor_goes_on_where_it_was() {
    let threads = Threads::new();
    let _server = threads.serve();
    threads.create("t");
    let follow = || {
        let lines = threads.thread(&["follow", "t", "--no-wait", "--json", "--cursor", "seen"]);
        lines.success().lines().count()
    };
    assert_eq!(follow(), 1);
    assert_eq!(follow(), 0);
    threads.thread(&["append", "t", "one"]).success();
    threads.thread(&["append", "t", "two"]).success();
    assert_eq!(follow(), 2);
    assert_eq!(follow(), 0);
    threads.create("other");
    let mistaken = threads.thread(&["follow", "other", "--cursor", "seen"]);
    assert_eq!(mistaken.code(), Some(1));
    assert!(
        mistaken.errors().contains("could not use the cursor"),
        "{mistaken}"
    );
}

/// Entries go into the spool while there is no server, and arrive once when there is one.
#[test]
fn a_spool_outlives_an_outage() {
    let threads = Threads::new();
    let server = threads.serve();
    threads.create("t");
    server.kill();
    for text in ["one", "two"] {
        let kept = threads.thread(&[
            "append",
            "t",
            text,
            "--spool",
            "spool",
            "--patience",
            "200ms",
        ]);
        assert_eq!(kept.code(), Some(1));
        assert!(
            kept.errors().contains("left, which the spool keeps"),
            "{kept}"
        );
        assert!(kept.errors().contains("--flush"), "{kept}");
    }
    let _server = threads.serve();
    threads
        .thread(&["append", "t", "--spool", "spool", "--flush"])
        .success();
    threads
        .thread(&["append", "t", "--spool", "spool", "--flush"])
        .success();
    assert_eq!(threads.chats("t"), ["one", "two"]);
}

/// Producer and server are killed again and again; every line arrives once and in order.
#[test]
fn kills_of_both_sides_lose_and_double_nothing() {
    const ENTRIES: usize = 400;
    let threads = Threads::new();
    let mut server = Some(threads.serve());
    threads.create("t");
    let spool = threads.env.path("spool");
    // Whoever is killed may be asked again with the same lines: their ids are theirs.
    let lines: Vec<String> = (0..ENTRIES)
        .map(|number| json!({ "id": format!("n{number}"), "ts": number, "payload": { "type": "chat", "text": number.to_string() } }).to_string())
        .collect();
    let input = lines.join("\n") + "\n";
    let arguments = [
        "thread", "append", "t", "--ndjson", "--spool", "spool", "--json",
    ];
    for round in 0..8_u64 {
        if round % 3 == 2 {
            if let Some(server) = server.take() {
                server.kill();
            }
        } else if server.is_none() {
            server = Some(threads.serve());
        }
        let mut child = threads
            .env
            .holm(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let feeding = input.clone();
        let feeder = std::thread::spawn(move || {
            // It ends when the child does.
            drop(std::io::Write::write_all(&mut stdin, feeding.as_bytes()));
        });
        // Some way into it: after different numbers of bytes in the spool.
        let wanted = 2_000 + round * 3_000;
        let mut child = Running(child);
        wait_until("the spool grows, or the command ends", || {
            let size = fs::metadata(spool.join("spool.log")).map_or(0, |found| found.len());
            size > wanted || child.0.try_wait().unwrap().is_some()
        });
        drop(child);
        feeder.join().unwrap();
    }
    if server.is_none() {
        server = Some(threads.serve());
    }
    let last = threads.env.run_with_input(arguments, input.as_bytes());
    assert_eq!(last.code(), Some(0), "{last}");
    let expected: Vec<String> = (0..ENTRIES).map(|number| number.to_string()).collect();
    assert_eq!(threads.chats("t"), expected);
    let verified = threads.thread(&["verify", "t", "--json"]).json();
    assert_eq!(verified["is_well"], true, "{verified}");
    drop(server);
}

#[test]
fn an_export_is_whole_and_makes_the_thread_again() {
    let threads = Threads::new();
    let _server = threads.serve();
    threads
        .thread(&["create", "--id", "t", "--tag", "a"])
        .success();
    let entries = [
        json!({ "type": "signal.thread.status_changed", "status": "running", "runId": "r1" }),
        json!({ "type": "pi.assistant", "text": "done\nhere" }),
        json!({ "type": "signal.thread.usage", "inputTokens": 7, "costMicroUsd": 3 }),
        json!({ "type": "signal.thread.pi_failed", "runId": "r1", "exitCode": 3 }),
    ];
    let input: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    threads
        .env
        .run_with_input(["thread", "append", "t", "--ndjson"], input.as_bytes())
        .success();
    let end = threads
        .thread(&["export", "t", "--output", "t.ndjson", "--json"])
        .json();
    assert_eq!(end["entries"], 5);
    let exists = threads.thread(&["export", "t", "--output", "t.ndjson"]);
    assert!(exists.errors().contains("exists already"), "{exists}");
    let piped = threads.thread(&["export", "t"]).success();
    assert_eq!(
        piped,
        fs::read_to_string(threads.env.path("t.ndjson"))
            .unwrap()
            .trim_end()
    );
    let verified = threads.thread(&["verify", "--file", "t.ndjson"]).success();
    assert_eq!(verified, "thread t: 5 entries, all is well");
    // Twice, as after an import that was cut off.
    for _ in 0..2 {
        let made = threads.thread(&["import", "t.ndjson", "--as", "copy"]);
        assert_eq!(made.success(), "copy");
    }
    let row = |id: &str| {
        let mut row = threads.thread(&["show", id, "--json"]).json();
        for name in ["id", "createdAt", "updatedAt", "lastSeenAt", "stream"] {
            row.as_object_mut().unwrap().remove(name);
        }
        row
    };
    assert_eq!(row("copy"), row("t"));
    assert_eq!(row("copy")["run"]["endReason"], "pi_failed");
    assert_eq!(row("copy")["usage"]["inputTokens"], 7);
    let all = |id: &str| {
        threads
            .thread(&["follow", id, "--no-wait", "--json"])
            .success()
    };
    assert_eq!(all("copy"), all("t"));
    let verified = threads.thread(&["verify", "copy"]).success();
    assert_eq!(verified, "thread copy: 5 entries, all is well");
    // A file that was changed is found out, and nothing of it is sent.
    let text = fs::read_to_string(threads.env.path("t.ndjson")).unwrap();
    fs::write(threads.env.path("bad.ndjson"), text.replace("done", "gone")).unwrap();
    let refused = threads.thread(&["import", "bad.ndjson", "--as", "never"]);
    assert!(refused.errors().contains("was changed"), "{refused}");
    assert_eq!(threads.thread(&["show", "never"]).code(), Some(1));
    let cut: String = text
        .lines()
        .take(3)
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(threads.env.path("cut.ndjson"), cut).unwrap();
    let refused = threads.thread(&["verify", "--file", "cut.ndjson"]);
    assert!(refused.errors().contains("cut off"), "{refused}");
}

/// A thread is written and followed through the proxy, which reaches nothing else.
#[test]
fn streams_are_reached_through_a_proxy() {
    let threads = Threads::new();
    let mut server = threads.serve();
    threads.create("t");
    let upstream = format!("http://{}", threads.address);
    let arguments = [
        "stream-proxy",
        "--upstream",
        &upstream,
        "--listen",
        "127.0.0.1:0",
        "--json",
    ];
    let mut proxy = Running(threads.env.holm(arguments).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(proxy.0.stdout.as_mut().unwrap())
        .read_line(&mut said)
        .unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    let behind = TestEnvironment::new().with("HOLM_API_KEY", KEY).with(
        "HOLM_API_URL",
        format!("http://{}/api", said["address"].as_str().unwrap()),
    );
    // A producer and a reader need nothing but the stream.
    behind
        .run(["thread", "append", "t", "through", "--spool", "spool"])
        .success();
    let lines = behind
        .run(["thread", "follow", "t", "--no-wait", "--json"])
        .success();
    assert!(lines.contains("through"), "{lines}");
    let refused = behind.run(["thread", "list"]);
    assert!(
        refused.errors().contains("leads to streams only"),
        "{refused}"
    );
    // A server that is away for a while is waited for.
    server.kill();
    let kept = behind.run([
        "thread",
        "append",
        "t",
        "later",
        "--spool",
        "spool",
        "--patience",
        "200ms",
    ]);
    assert!(
        kept.errors().contains("behind this proxy is not reached"),
        "{kept}"
    );
    server = threads.serve();
    behind
        .run(["thread", "append", "t", "--spool", "spool", "--flush"])
        .success();
    assert_eq!(threads.chats("t"), ["through", "later"]);
    drop(server);
    let wrong = threads
        .env
        .run(["stream-proxy", "--upstream", "http://a/api/stream"]);
    insta::assert_snapshot!(wrong, @r"
    exit code: 1
    ----- stderr
    error: `http://a/api/stream` is no address of a server: it has a path

    hint: write it as `https://holm.example.org`: the paths of requests are added to it as they are
    ");
}
