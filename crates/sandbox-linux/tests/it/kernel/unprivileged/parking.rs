//! What a host process leaves with a box for the one after it: commands that go on, and descriptors by name.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use holm_sandbox_linux::pump::Pump;
use holm_sandbox_linux::{Engine, EngineError, Exit, Lifetime, LinuxBox, Reach};

use super::life::Creator;
use crate::support::{
    TestBox, TestFolder, collect, command, pipe, probed, processes_with, read_until, sleeper,
    start_piped, start_silent, token, wait_until,
};

/// A command that runs until it gets a signal, and says so.
const UNTIL_SIGNAL: &str = "trap 'echo got; exit 7' USR1; echo ready; while :; do sleep 0.05; done";

fn pump(mut streams: Vec<OwnedFd>) -> Pump<'static> {
    let stderr = streams.pop().unwrap();
    Pump {
        stdout: streams.pop().unwrap(),
        stderr,
        deadline: None,
        interruptions: None,
    }
}

#[test]
fn a_parked_command_survives_its_host_and_is_found_again() {
    let directory = TestFolder::new();
    let mut creator = Creator::start(directory.path(), UNTIL_SIGNAL, "parked");
    creator.kill();
    let engine = Engine::start().unwrap();
    let inner = creator.attach(&engine, directory.path());
    assert_eq!(inner.parked().unwrap(), ["it"]);
    let (job, streams) = inner.resume("it").unwrap().unwrap();
    assert!(job.pid() > 1);
    assert_eq!(read_until(&streams[0], "\n"), "ready\n");
    job.signal(libc::SIGUSR1, Reach::Group).unwrap();
    let output = collect(&job, pump(streams));
    assert_eq!(
        (output.exit, output.stdout.as_str()),
        (Exit::Code(7), "got\n")
    );
    inner.stop().unwrap();
}

#[test]
fn an_exit_that_nobody_saw_is_told_to_everybody_who_asks() {
    let directory = TestFolder::new();
    let mut creator = Creator::start(directory.path(), "echo last words; exit 3", "parked");
    creator.kill();
    let engine = Engine::start().unwrap();
    let (first, streams) = {
        let inner = creator.attach(&engine, directory.path());
        inner.resume("it").unwrap().unwrap()
    };
    let output = collect(&first, pump(streams));
    assert_eq!(
        (output.exit, output.stdout.as_str()),
        (Exit::Code(3), "last words\n")
    );
    drop(first);
    // A host that died before it wrote the exit down asks again.
    let inner = creator.attach(&engine, directory.path());
    let (second, _) = inner.resume("it").unwrap().unwrap();
    assert_eq!(second.wait().unwrap(), Exit::Code(3));
    inner.unpark("it").unwrap();
    assert!(inner.resume("it").unwrap().is_none());
    inner.stop().unwrap();
}

#[test]
fn an_unparked_command_ends_with_its_last_holder() {
    let sandbox = TestBox::new();
    let token = token();
    let script = sleeper(&token);
    let job = start_silent(&sandbox.inner, &command(&["sh", "-c", &script])).unwrap();
    job.park(&sandbox.inner, "sleeper", &[]).unwrap();
    drop(job);
    wait_until("it sleeps", || !processes_with(&token).is_empty());
    let (job, extra) = sandbox.inner.resume("sleeper").unwrap().unwrap();
    assert!(extra.is_empty());
    sandbox.inner.unpark("sleeper").unwrap();
    sandbox.inner.unpark("sleeper").unwrap();
    assert_eq!(processes_with(&token).len(), 1);
    drop(job);
    wait_until("it is gone", || processes_with(&token).is_empty());
}

#[test]
fn a_parked_command_of_a_stopped_box_is_lost() {
    let sandbox = TestBox::new();
    let job = start_silent(&sandbox.inner, &command(&["sleep", "1000"])).unwrap();
    job.park(&sandbox.inner, "it", &[]).unwrap();
    let (again, _) = sandbox.inner.resume("it").unwrap().unwrap();
    sandbox.inner.stop().unwrap();
    assert_eq!(job.wait().unwrap(), Exit::Lost);
    assert_eq!(again.wait().unwrap(), Exit::Lost);
}

#[test]
fn descriptors_come_back_with_their_note() {
    let sandbox = TestBox::new();
    let (reader, writer) = pipe();
    let park = |note: &[u8]| {
        sandbox
            .inner
            .park("pipe", note, &[reader.as_fd(), writer.as_fd()])
    };
    park(b"first").unwrap();
    park(b"second").unwrap();
    let parked = sandbox.inner.fetch("pipe").unwrap().unwrap();
    assert_eq!(parked.note, b"second");
    rustix::io::write(&parked.descriptors[1], b"through init\n").unwrap();
    assert_eq!(read_until(&reader, "\n"), "through init\n");
    assert!(sandbox.inner.fetch("another").unwrap().is_none());
    // No command was parked there.
    assert!(matches!(
        sandbox.inner.resume("pipe"),
        Err(EngineError::Control { .. })
    ));
    // The last writer is init's: closed when it is unparked.
    drop((writer, parked));
    sandbox.inner.unpark("pipe").unwrap();
    assert_eq!(read_until(&reader, ""), "");
}

#[test]
fn what_leads_to_files_is_not_parked() {
    let sandbox = TestBox::new();
    let folder = fs::File::open("/").unwrap();
    let file = tempfile::tempfile().unwrap();
    let device = fs::File::open("/dev/zero").unwrap();
    for refused in [&folder, &file, &device] {
        let error = sandbox
            .inner
            .park("x", b"", &[refused.as_fd()])
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("only pipes, sockets and terminals may be parked"),
            "{text}"
        );
    }
    assert!(sandbox.inner.parked().unwrap().is_empty());
}

#[test]
fn the_store_is_bounded_and_says_so() {
    let sandbox = TestBox::new();
    let (reader, _writer) = pipe();
    let refused = |name: &str, note: &[u8], count: usize| {
        let descriptors = vec![reader.as_fd(); count];
        let error = sandbox.inner.park(name, note, &descriptors).unwrap_err();
        assert!(matches!(error, EngineError::CannotPark { .. }), "{error:?}");
        error.to_string()
    };
    refused("", b"", 0);
    refused(&"n".repeat(129), b"", 0);
    refused("n", &[0; 4097], 0);
    refused("n", b"", 9);
    let longest = |number: usize| format!("{number:0>128}");
    for number in 0..1024 {
        sandbox
            .inner
            .park(&longest(number), &[7; 4096], &[])
            .unwrap();
    }
    assert!(refused("one more", b"", 0).ends_with("it keeps 1024 names already"));
    let names = sandbox.inner.parked().unwrap();
    assert_eq!(names, (0..1024).map(longest).collect::<Vec<_>>());
    // A full store is no reason not to run commands.
    assert_eq!(sandbox.sh("echo alive").success(), "alive\n");
}

#[test]
fn each_of_many_askers_gets_its_own_answer() {
    let sandbox = TestBox::new();
    let inner = &sandbox.inner;
    std::thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                let name = format!("name-{number}");
                for round in 0..50_u8 {
                    inner.park(&name, &[round], &[]).unwrap();
                    assert_eq!(inner.fetch(&name).unwrap().unwrap().note, [round]);
                    inner.root().unwrap();
                }
            });
        }
    });
    assert_eq!(inner.parked().unwrap().len(), 8);
}

#[test]
fn commands_reach_nothing_that_is_parked() {
    let sandbox = TestBox::with(probed);
    let (reader, writer) = pipe();
    sandbox
        .inner
        .park("secret", b"", &[reader.as_fd(), writer.as_fd()])
        .unwrap();
    // Not by inheritance: three streams, and the folder that is being listed.
    let own = sandbox.run(&["ls", "/proc/self/fd"]).success();
    assert_eq!(own, "0\n1\n2\n3\n");
    // Not through init's table, by listing or by guessing a number.
    let found = sandbox.probe("look_into_init", "");
    assert!(found.contains("fd: Permission denied"), "{found}");
    let guess =
        "for n in $(seq 0 200); do cat /proc/1/fd/$n && echo found $n; done 2>/dev/null; echo end";
    assert_eq!(sandbox.sh(guess).stdout, "end\n");
    // Not by taking a copy.
    let taken = sandbox.probe("take_descriptors_of_init", "");
    assert!(!taken.contains("done"), "{taken}");
    assert_eq!(taken.lines().count(), 65, "{taken}");
}

#[test]
fn commands_have_the_limit_of_open_files_that_the_host_has() {
    let sandbox = TestBox::new();
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let text = |limit: Option<u64>| limit.map_or("unlimited".into(), |limit| limit.to_string());
    assert_eq!(
        sandbox.sh("ulimit -Sn; ulimit -Hn").success(),
        format!("{}\n{}\n", text(own.current), text(own.maximum))
    );
}

#[test]
fn a_box_that_is_gone_says_so() {
    let sandbox = TestBox::with(|spec| spec.lifetime = Lifetime::UntilStopped);
    sandbox.inner.stop().unwrap();
    let is_gone = |inner: &LinuxBox| {
        let asked = inner.park("x", b"", &[]);
        matches!(asked, Err(EngineError::NotRunning { .. }))
    };
    assert!(is_gone(&sandbox.inner));
    let (job, _out, _err) = {
        let other = TestBox::new();
        start_piped(&other.inner, &command(&["true"]))
    };
    assert!(job.park(&sandbox.inner, "x", &[]).is_err());
}
