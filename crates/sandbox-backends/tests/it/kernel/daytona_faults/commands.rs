//! Faults around the requests that a command needs.

use std::time::Duration;

use holm_daytona_client::wire::process::ExecuteRequest;
use holm_sandbox::SandboxError;
use holm_sandbox_backends::daytona::DaytonaSandbox;
use holm_testserver::{Fault, Times};

use super::{PATIENCE, Setting, sh, shown, told};

const SPAWN: &str = "/exec HTTP";
const SESSION: &str = "POST /toolbox/";

/// Waits until no process of the sandbox has this word in its command line.
fn assert_nothing_runs(setting: &Setting, sandbox: &DaytonaSandbox, word: &str) {
    // The pattern does not find itself.
    let (first, rest) = word.split_at(1);
    let request = ExecuteRequest {
        command: format!("grep -la '[{first}]{rest}' /proc/[0-9]*/cmdline 2>/dev/null; true"),
        ..ExecuteRequest::default()
    };
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let answer = setting.run(sandbox.toolbox().process().execute(&request));
        let found = answer.unwrap().result;
        if found.trim().is_empty() {
            return;
        }
        assert!(std::time::Instant::now() < until, "still runs: {found}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_lost_connection_is_told_and_the_next_command_works() {
    let mut setting = Setting::new();
    let sandbox = setting.create().unwrap();
    let Setting { proxy, server, .. } = &mut setting;
    server.block_on(proxy.refuse_connections());
    let error = setting.run(sh(&sandbox, "echo unheard")).unwrap_err();
    let text = shown(&error);
    assert!(text.contains("no connection to the server"), "{text}");
    assert!(text.contains("hint: see whether the server runs"), "{text}");
    let Setting { proxy, server, .. } = &mut setting;
    server.block_on(proxy.accept_connections());
    assert_eq!(setting.run(told(&sandbox, "echo heard")), "heard");
    setting.finish(&sandbox);
}

#[test]
fn a_refusal_before_a_command_began_is_told_or_survived() {
    let setting = Setting::new();
    for (fault, is_survived) in [
        (Fault::status(429), true),
        (Fault::status(500), false),
        (Fault::status(502), false),
        (Fault::Reset, false),
    ] {
        let sandbox = setting.create().unwrap();
        setting.proxy.fault(SPAWN, Times::Exactly(1), fault.clone());
        let outcome = setting.run(sh(&sandbox, "echo once >> count; echo works"));
        let expected = if is_survived {
            assert_eq!(outcome.unwrap().stdout_text(), "works\n");
            "once"
        } else {
            let error = outcome.unwrap_err();
            let text = shown(&error);
            assert!(
                text.starts_with("could not start a command"),
                "{fault:?}: {text}"
            );
            ""
        };
        // It was never run twice.
        assert_eq!(setting.run(told(&sandbox, "cat count || true")), expected);
        setting.finish(&sandbox);
    }
}

#[test]
fn a_command_whose_start_was_not_confirmed_is_ended() {
    let setting = Setting::new();
    for fault in [
        Fault::AnswerLost,
        Fault::AnswerReplaced { status: 502 },
        Fault::AnswerCut { body_bytes: 3 },
    ] {
        let sandbox = setting.create().unwrap();
        setting.proxy.once(SPAWN, fault);
        let script = "setsid sh -c 'sleep 7777' & exec sleep 7777";
        let error = setting.run(sh(&sandbox, script)).unwrap_err();
        assert!(matches!(error, SandboxError::Backend { .. }), "{error:?}");
        assert_nothing_runs(&setting, &sandbox, "7777");
        setting.finish(&sandbox);
    }
}

#[test]
fn a_timeout_ends_the_command_although_ending_it_fails_once() {
    let setting = Setting::new();
    for fault in [Fault::status(502), Fault::status(429), Fault::Reset] {
        let sandbox = setting.create().unwrap();
        setting.proxy.once("/process/execute", fault);
        // One of them leaves the session and the group of the command.
        let script = "echo begun; setsid sh -c 'sleep 8888' & exec sleep 8888";
        let exec = holm_sandbox::Exec::new(["sh", "-c", script]).timeout(Duration::from_secs(1));
        let outcome = setting
            .run(holm_sandbox::Sandbox::exec(&sandbox, exec))
            .unwrap();
        assert!(outcome.timed_out, "{outcome:?}");
        assert_eq!(outcome.stdout_text(), "begun\n");
        assert_nothing_runs(&setting, &sandbox, "8888");
        setting.finish(&sandbox);
    }
}

#[test]
fn a_session_that_cannot_be_made_is_told_and_one_that_stays_harms_nobody() {
    let setting = Setting::new();
    let sandbox = setting.create().unwrap();
    setting
        .proxy
        .once("/process/session HTTP", Fault::status(500));
    let error = setting.run(sh(&sandbox, "true")).unwrap_err();
    assert!(
        shown(&error).contains("a bad day (status 500)"),
        "{error:?}"
    );
    assert!(!setting.proxy.requests(SESSION).is_empty());
    setting.proxy.always("DELETE /toolbox/", Fault::status(500));
    assert_eq!(setting.run(told(&sandbox, "echo works")), "works");
    setting.finish(&sandbox);
}
