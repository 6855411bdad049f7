//! Faults of the WebSocket that a command's output comes by: every byte arrives once, wherever the connection broke.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holm_sandbox::{Exec, OutputStream, Sandbox as _};
use holm_sandbox_backends::daytona::DaytonaSandbox;
use holm_testserver::{Fault, Goodbye, Times};

use super::{PATIENCE, Setting, sh, shown, told};

const FOLLOW: &str = "/logs?follow=true";
/// Characters of two, three and four bytes, on both outputs, and bytes that look like the log's own markers.
const SCRIPT: &str =
    r"printf 'é€😀'; sleep 0.05; printf 'ä\001\001' >&2; sleep 0.05; printf '€\002ß'; exit 3";
const STDOUT: &[u8] = "é€😀€\u{2}ß".as_bytes();
const STDERR: &[u8] = "ä\u{1}\u{1}".as_bytes();

/// Runs [`SCRIPT`], and sees that it is told as it was, whole and as it came.
fn assert_all_is_told(setting: &Setting, sandbox: &DaytonaSandbox, what: &str) {
    let streamed: Arc<Mutex<[Vec<u8>; 2]>> = Arc::default();
    let seen = Arc::clone(&streamed);
    let sink = move |stream: OutputStream, bytes: &[u8]| {
        let mut streamed = seen.lock().unwrap();
        let [stdout, stderr] = &mut *streamed;
        match stream {
            OutputStream::Stdout => stdout.extend(bytes),
            OutputStream::Stderr => stderr.extend(bytes),
        }
    };
    let exec = Exec::new(["sh", "-c", SCRIPT]).timeout(PATIENCE);
    let outcome = setting.run(sandbox.exec_streamed(exec, Box::new(sink)));
    let outcome = outcome.unwrap();
    assert_eq!(outcome.stdout, STDOUT, "{what}");
    assert_eq!(outcome.stderr, STDERR, "{what}");
    assert_eq!(outcome.exit_code, 3, "{what}");
    assert_eq!(*streamed.lock().unwrap(), [STDOUT, STDERR], "{what}");
}

#[test]
fn a_log_that_breaks_off_anywhere_is_followed_to_its_end() {
    let setting = Setting::new();
    let sandbox = setting.create().unwrap();
    // Within the markers of the log, within the mark of the process, within characters.
    let places = [0, 1, 2, 3, 20, 33, 34, 35, 36, 37].into_iter();
    let goodbyes = [Goodbye::Reset, Goodbye::Close(1011)].into_iter().cycle();
    for (data_bytes, goodbye) in places.chain(40..50).zip(goodbyes) {
        let fault = Fault::SocketCut {
            data_bytes,
            goodbye,
        };
        setting.proxy.once(FOLLOW, fault);
        let what = format!("{goodbye:?} after {data_bytes} bytes");
        assert_all_is_told(&setting, &sandbox, &what);
        assert_eq!(setting.proxy.heal(), [1], "{what}");
    }
    setting.finish(&sandbox);
}

#[test]
fn a_goodbye_in_good_order_is_no_end_while_the_command_runs() {
    let setting = Setting::new();
    let sandbox = setting.create().unwrap();
    for data_bytes in [0, 20, 35, 45, 46, 47, 48] {
        let goodbye = Goodbye::Close(1000);
        setting.proxy.once(
            FOLLOW,
            Fault::SocketCut {
                data_bytes,
                goodbye,
            },
        );
        let what = format!("{goodbye:?} after {data_bytes} bytes");
        assert_all_is_told(&setting, &sandbox, &what);
        assert_eq!(setting.proxy.heal(), [1], "{what}");
    }
    setting.finish(&sandbox);
}

#[test]
fn a_log_that_always_breaks_off_is_told_and_its_command_ended() {
    let setting = Setting::new();
    let sandbox = setting.create().unwrap();
    setting.proxy.always(
        FOLLOW,
        Fault::SocketCut {
            data_bytes: 10,
            goodbye: Goodbye::Reset,
        },
    );
    let error = setting
        .run(sh(&sandbox, "echo $$ > pid; exec sleep 9999"))
        .unwrap_err();
    let text = shown(&error);
    assert!(text.starts_with("could not follow a command"), "{text}");
    setting.proxy.heal();
    let until = Instant::now() + PATIENCE;
    while setting.run(told(&sandbox, "kill -0 $(cat pid) 2>&1 && echo runs; true")) == "runs" {
        assert!(Instant::now() < until, "it still runs");
    }
    setting.finish(&sandbox);
}

#[test]
fn an_upgrade_that_is_refused_for_a_moment_is_asked_for_again() {
    let setting = Setting::new();
    for fault in [
        Fault::status(429),
        Fault::status(500),
        Fault::status(502),
        Fault::Reset,
    ] {
        let sandbox = setting.create().unwrap();
        setting
            .proxy
            .fault(FOLLOW, Times::Exactly(2), fault.clone());
        assert_all_is_told(&setting, &sandbox, &format!("{fault:?}"));
        setting.finish(&sandbox);
    }
}

#[test]
fn a_timeout_counts_although_the_log_is_silent() {
    let setting = Setting::new();
    let sandbox = setting.create().unwrap();
    setting
        .proxy
        .always(FOLLOW, Fault::SocketStalls { data_bytes: 5 });
    let began = Instant::now();
    let exec = Exec::new(["sleep", "6666"]).timeout(Duration::from_millis(500));
    let outcome = setting.run(sandbox.exec(exec)).unwrap();
    assert!(outcome.timed_out, "{outcome:?}");
    assert!(began.elapsed() < Duration::from_secs(10));
    setting.heal();
    assert_eq!(
        setting.run(told(
            &sandbox,
            "cat /proc/[0-9]*/cmdline | grep -c '[6]666' || true"
        )),
        "0"
    );
    setting.finish(&sandbox);
}
