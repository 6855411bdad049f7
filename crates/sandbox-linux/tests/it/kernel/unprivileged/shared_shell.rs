//! A shell that runs one command after the other for different callers.

use holm_sandbox_linux::{Exit, Reach, ticks_now};

use crate::support::{
    TestBox, command, processes_with, read_until, shell_with, sleeper, start_piped, token,
    wait_until,
};

#[test]
fn a_signal_reaches_what_started_since_and_nothing_else() {
    let sandbox = TestBox::new();
    let (older, younger, deaf, led_away) = (token(), token(), token(), token());
    let script = format!(
        "mkfifo /tmp/go; {} & echo ready; read line < /tmp/go; \
         sh -c '{} & {} & wait' & setsid {} & echo started; wait; echo shell goes on; exec sleep 1000",
        sleeper(&older),
        // Quotes within quotes: each is ended, written, and begun again.
        sleeper(&younger).replace('\'', "'\\''"),
        shell_with("trap \"\" TERM; sleep 1000; sleep 1000", &deaf).replace('\'', "'\\''"),
        sleeper(&led_away),
    );
    let (job, stdout, _stderr) = start_piped(&sandbox.inner, &command(&["sh", "-c", &script]));
    assert_eq!(read_until(&stdout, "\n"), "ready\n");
    wait_until("the older one runs", || processes_with(&older).len() == 1);
    let ready = ticks_now();
    wait_until("a tick is over", || ticks_now() > ready);
    let since = Reach::StartedSince { ticks: ticks_now() };
    // Nothing has started since, so nobody is meant.
    job.signal(libc::SIGKILL, since).unwrap();
    sandbox.sh("echo > /tmp/go").success();
    assert_eq!(read_until(&stdout, "\n"), "started\n");
    wait_until("the younger ones run", || {
        [&younger, &deaf, &led_away]
            .iter()
            .all(|token| processes_with(token).len() == 1)
    });
    assert_eq!(processes_with(&older).len(), 1);

    job.signal(libc::SIGTERM, since).unwrap();
    wait_until("those that listen are gone", || {
        processes_with(&younger).is_empty() && processes_with(&led_away).is_empty()
    });
    assert_eq!(processes_with(&older).len(), 1);
    job.signal(libc::SIGKILL, Reach::Tree).unwrap();
    assert_eq!(job.wait().unwrap(), Exit::Signal(libc::SIGKILL));
    wait_until("all are gone", || {
        processes_with(&older).is_empty() && processes_with(&deaf).is_empty()
    });
}

#[test]
fn a_tree_that_keeps_forking_is_killed_and_its_shell_is_not() {
    let sandbox = TestBox::new();
    let (older, younger) = (token(), token());
    // Each one starts the next and goes on for a while.
    let forking = shell_with("while :; do sleep 0.01 & sleep 0.01; done", &younger);
    let script = format!(
        "mkfifo /tmp/go; {} & echo ready; read line < /tmp/go; {forking}; echo shell goes on; exit 5",
        sleeper(&older)
    );
    let (job, stdout, _stderr) = start_piped(&sandbox.inner, &command(&["sh", "-c", &script]));
    assert_eq!(read_until(&stdout, "\n"), "ready\n");
    let ready = ticks_now();
    wait_until("a tick is over", || ticks_now() > ready);
    let since = Reach::StartedSince { ticks: ticks_now() };
    sandbox.sh("echo > /tmp/go").success();
    wait_until("it forks", || processes_with(&younger).len() == 1);
    job.signal(libc::SIGKILL, since).unwrap();
    assert_eq!(read_until(&stdout, "\n"), "shell goes on\n");
    assert_eq!(processes_with(&older).len(), 1);
    assert_eq!(processes_with(&younger), []);
    assert_eq!(job.wait().unwrap(), Exit::Code(5));
}

#[test]
fn processes_are_counted_without_init() {
    let sandbox = TestBox::new();
    assert_eq!(sandbox.inner.process_count().unwrap(), 0);
    let token = token();
    let script = format!("{} & {} & wait", sleeper(&token), sleeper(&token));
    let (job, _stdout, _stderr) = start_piped(&sandbox.inner, &command(&["sh", "-c", &script]));
    // The shell, two shells in it, and what those run.
    wait_until("all run", || sandbox.inner.process_count().unwrap() == 5);
    job.signal(libc::SIGKILL, Reach::Tree).unwrap();
    wait_until("none is left", || {
        sandbox.inner.process_count().unwrap() == 0
    });
    sandbox.inner.stop().unwrap();
    sandbox.inner.process_count().unwrap_err();
}
