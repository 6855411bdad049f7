//! Sizes of sandboxes, as the kernel enforces them.

use serde_json::json;

use crate::support::{TestServer, wait_until};

/// Touches so many mebibytes of memory, and holds them until its input ends.
fn eat(mebibytes: u32) -> String {
    format!("python3 -c \"b = bytearray({mebibytes} << 20); print('eaten', len(b) >> 20)\"")
}

#[test]
fn a_small_sandbox_has_one_gibibyte_and_survives_a_glutton() {
    let server = TestServer::new();
    let id = server.sandbox();
    assert_eq!(server.run(&id, &eat(100)), "eaten 100");
    let (code, printed) = server.execute(&id, &eat(2_048));
    assert_ne!(code, 0, "{printed}");
    assert!(!printed.contains("eaten 2048"), "{printed}");
    assert_eq!(server.run(&id, "echo still here"), "still here");
}

#[test]
fn a_running_sandbox_grows() {
    let server = TestServer::new();
    let id = server.sandbox();
    let path = format!("/api/sandbox/{id}/resize");
    let grown = server
        .post(&path, json!({ "cpu": 2, "memory": 2, "disk": 5 }))
        .ok();
    assert_eq!(
        (&grown["cpu"], &grown["memory"], &grown["disk"]),
        (&json!(2), &json!(2), &json!(5))
    );
    assert_eq!(server.run(&id, &eat(1_400)), "eaten 1400");
    // And keeps its size when it is started again.
    server.turn(&id, "stop");
    server.turn(&id, "start");
    assert_eq!(server.run(&id, &eat(1_400)), "eaten 1400");
    let refused = server.post(&path, json!({ "memory": 0 })).refused(400);
    assert!(refused.contains("`memory`"), "{refused}");
}

#[test]
fn memory_in_use_is_not_taken_away() {
    let server = TestServer::new();
    let id = server.sandbox();
    let path = format!("/api/sandbox/{id}/resize");
    server.post(&path, json!({ "memory": 2 })).ok();
    server.run(
        &id,
        "setsid python3 -c \"b = bytearray(1300 << 20); open('ready', 'w'); import time; time.sleep(60)\" >/dev/null 2>&1 </dev/null &",
    );
    wait_until("it is eaten", || {
        server.execute(&id, "test -e ready").0 == 0
    });
    let refused = server.post(&path, json!({ "memory": 1 })).refused(409);
    assert!(refused.contains("more memory than 1 GiB"), "{refused}");
    let shown = server.get(&format!("/api/sandbox/{id}")).ok();
    assert_eq!(shown["memory"], 2);
    assert_eq!(server.run(&id, "echo alive"), "alive");
}

#[test]
fn a_fork_bomb_ends_at_the_sandboxs_own_limit() {
    let server = TestServer::new();
    let id = server.sandbox();
    let bomb = "python3 -c \"
import os, time
made = 0
try:
    while made < 6000:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made)
\"; pkill -9 -f time.sleep; true";
    let (_, printed) = server.execute(&id, bomb);
    let made: u32 = printed.lines().next().unwrap().parse().unwrap();
    assert!((1..4_096).contains(&made), "{printed}");
    server.turn(&id, "stop");
    server.turn(&id, "start");
    assert_eq!(server.run(&id, "echo alive"), "alive");
}

#[test]
fn a_paused_sandbox_stands_still_and_goes_on_where_it_was() {
    let server = TestServer::new();
    let id = server.sandbox();
    server.run(
        &id,
        "setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.01; done' >/dev/null 2>&1 </dev/null &",
    );
    let count = server
        .box_directory(&id)
        .join("root-upper/home/daytona/count");
    let read = || std::fs::read_to_string(&count).unwrap_or_default();
    wait_until("it counts", || !read().is_empty());
    assert_eq!(server.turn(&id, "pause")["state"], "paused");
    let refused = server.get(&format!("/toolbox/{id}/work-dir")).refused(400);
    assert!(refused.contains("paused"), "{refused}");
    let paused = read();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(read(), paused);

    // A server that is restarted finds it as it was.
    let server = TestServer::at(server.stop(), |_| {});
    let count = server
        .box_directory(&id)
        .join("root-upper/home/daytona/count");
    let read = || std::fs::read_to_string(&count).unwrap_or_default();
    let shown = server.get(&format!("/api/sandbox/{id}")).ok();
    assert_eq!(shown["state"], "paused");
    let paused = read();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(read(), paused);
    assert_eq!(server.turn(&id, "start")["state"], "started");
    wait_until("it counts again", || read() != paused);
}
