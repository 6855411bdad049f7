//! Two boxes at once know nothing of each other.

use std::os::fd::AsFd;

use holm_sandbox_linux::{Exit, OnDisconnect, Streams};

use crate::support::{TestBox, pipe, probe_command, probed, read_until, token};

#[test]
fn files_are_apart() {
    let (one, two) = (TestBox::new(), TestBox::new());
    let secret = token();
    let places = "/tmp /run /dev/shm /var/tmp /home/holm";
    one.sh(&format!(
        "for p in {places}; do echo {secret} > $p/{secret}; done"
    ))
    .success();
    let output = two.sh(&format!(
        "ls -A {places}; find / -name {secret} 2>/dev/null; true"
    ));
    assert!(!output.stdout.contains(&secret), "{}", output.stdout);
}

#[test]
fn boxes_on_one_base_do_not_see_each_others_changes() {
    let one = TestBox::new();
    let base = one.directory.path().join("base");
    let two = TestBox::with(|spec| {
        let engine = &one.engine;
        spec.base = engine
            .host_base(&crate::support::base_options(&base))
            .unwrap()
            .into();
    });
    one.sh("echo one > ~/file").success();
    two.sh("echo two > ~/file").success();
    assert_eq!(one.sh("cat ~/file").success(), "one\n");
    assert_eq!(two.sh("cat ~/file").success(), "two\n");
}

#[test]
fn processes_are_apart() {
    let (one, two) = (TestBox::new(), TestBox::new());
    let secret = token();
    let job = one.start(&format!("sleep 1000; : {secret}"), OnDisconnect::Kill);
    assert!(one.sh("cat /proc/*/cmdline").stdout.contains(&secret));
    assert!(!two.sh("cat /proc/*/cmdline").stdout.contains(&secret));
    // The same number there is the asking shell itself, or nobody.
    let others = two.sh(&format!("[ $$ = {0} ] || kill -0 {0}", job.pid()));
    assert!(
        others.exit == Exit::Code(1) || two.sh("echo $$").stdout.trim() == job.pid().to_string()
    );
}

#[test]
fn sockets_and_shared_memory_are_apart() {
    let (one, two) = (TestBox::with(probed), TestBox::with(probed));
    let name = token();
    let (gate_read, gate_write) = pipe();
    let (out_read, out_write) = pipe();
    let null = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .unwrap();
    let streams = Streams::Descriptors([gate_read.as_fd(), null.as_fd(), out_write.as_fd()]);
    let job = one
        .inner
        .start(&probe_command("bind_abstract", &name), &streams)
        .unwrap();
    assert_eq!(read_until(&out_read, "\n"), "bound\n");
    assert_eq!(one.probe("connect_abstract", &name), "connect: done\n");
    assert_eq!(
        two.probe("connect_abstract", &name),
        "connect: Connection refused (os error 111)\n"
    );
    drop(gate_write);
    job.wait().unwrap();

    let made = "shared memory: done\nPOSIX shared memory: done\nmessage queue: done\n";
    assert_eq!(one.probe("make_shared_memory", ""), made);
    assert_eq!(one.probe("find_shared_memory", ""), made);
    let missing = "No such file or directory (os error 2)";
    assert_eq!(
        two.probe("find_shared_memory", ""),
        format!(
            "shared memory: {missing}\nPOSIX shared memory: {missing}\nmessage queue: {missing}\n"
        )
    );
}
