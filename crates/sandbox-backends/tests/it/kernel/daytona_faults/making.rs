//! Faults while a sandbox is made.

use std::time::{Duration, Instant};

use holm_testserver::{Fault, Times};

use super::{Setting, shown, told};

const CREATE: &str = "POST /api/sandbox HTTP";
const CLONE: &str = "/git/clone";

/// The sandbox is made exactly once, and works.
fn assert_one_works(setting: &Setting) {
    let sandbox = setting.create().unwrap();
    assert_eq!(setting.server.sandboxes(), [sandbox.id()]);
    assert_eq!(setting.run(told(&sandbox, "echo works")), "works");
    setting.finish(&sandbox);
}

#[test]
fn no_connection_says_what_to_look_at() {
    let mut setting = Setting::new();
    let server = &setting.server;
    server.block_on(setting.proxy.refuse_connections());
    let error = setting.create().unwrap_err();
    let text = shown(&error);
    for part in [
        "create a Daytona sandbox",
        "no connection to the server",
        "hint: see whether the server runs, and what DAYTONA_API_URL says",
    ] {
        assert!(text.contains(part), "{text}");
    }
    setting.assert_no_sandbox_is_left();
}

#[test]
fn a_server_that_is_back_soon_is_waited_for() {
    let mut setting = Setting::new();
    let Setting { proxy, server, .. } = &mut setting;
    server.block_on(proxy.refuse_connections());
    let options = setting.options();
    let Setting { proxy, server, .. } = &mut setting;
    let sandbox = server.block_on(async {
        let making = holm_sandbox_backends::daytona::create_daytona_sandbox(options);
        let back = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            proxy.accept_connections().await;
        };
        tokio::join!(making, back).0.unwrap()
    });
    setting.finish(&sandbox);
}

#[test]
fn a_create_whose_answer_is_lost_is_found_again() {
    let setting = Setting::new();
    for fault in [
        Fault::AnswerLost,
        Fault::AnswerReplaced { status: 502 },
        Fault::AnswerReplaced { status: 500 },
        Fault::AnswerCut { body_bytes: 40 },
    ] {
        let asked = setting.proxy.requests(CREATE).len();
        // Whatever is asked, no answer ever comes.
        setting.proxy.always(CREATE, fault.clone());
        assert_one_works(&setting);
        let asked = setting.proxy.requests(CREATE).len() - asked;
        assert_eq!(asked, 1, "{fault:?}");
    }
}

#[test]
fn a_create_that_never_arrived_is_asked_for_again() {
    let setting = Setting::new();
    for fault in [Fault::Reset, Fault::status(500), Fault::status(502)] {
        setting.proxy.once(CREATE, fault);
        assert_one_works(&setting);
    }
}

#[test]
fn a_create_that_is_too_much_at_the_moment_waits_as_it_is_told() {
    let setting = Setting::new();
    let busy = Fault::Status {
        status: 429,
        retry_after: Some(1),
    };
    setting.proxy.once(CREATE, busy);
    let began = Instant::now();
    assert_one_works(&setting);
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_server_that_always_refuses_is_quoted() {
    let setting = Setting::new();
    for (status, hint) in [
        (429, "\nhint: the server asks for patience: try again later"),
        (500, ""),
        (502, ""),
    ] {
        setting.proxy.always(CREATE, Fault::status(status));
        let error = setting.create().unwrap_err();
        let text = shown(&error);
        let end = format!("could not create a sandbox: a bad day (status {status}){hint}");
        assert!(text.ends_with(&end), "{text}");
        setting.heal();
        setting.assert_no_sandbox_is_left();
    }
}

#[test]
fn an_answer_that_comes_in_drops_is_waited_for() {
    let setting = Setting::new();
    let slow = Fault::AnswerSlow {
        piece_bytes: 64,
        pause: Duration::from_millis(20),
    };
    setting.proxy.once(CREATE, slow);
    assert_one_works(&setting);
}

#[test]
fn a_bootstrap_that_fails_leaves_no_sandbox() {
    let setting = Setting::with_repository();
    for (fault, why) in [
        (Fault::status(500), "a bad day (status 500)"),
        (Fault::AnswerLost, "the connection was lost"),
        (Fault::Reset, "the connection was lost"),
    ] {
        setting.proxy.always(CLONE, fault);
        let error = setting.create().unwrap_err();
        let text = shown(&error);
        assert!(
            text.contains("clone `acme/widgets` into the sandbox"),
            "{text}"
        );
        assert!(text.contains(why), "{text}");
        setting.heal();
        setting.assert_no_sandbox_is_left();
    }
}

#[test]
fn a_bootstrap_that_fails_leaves_no_sandbox_although_its_delete_fails_once() {
    let setting = Setting::with_repository();
    for fault in [
        Fault::status(500),
        Fault::status(502),
        Fault::status(429),
        Fault::Reset,
        Fault::AnswerLost,
    ] {
        setting.proxy.always(CLONE, Fault::status(500));
        setting.proxy.once("DELETE /api/sandbox/", fault);
        setting.create().unwrap_err();
        setting.heal();
        setting.assert_no_sandbox_is_left();
    }
}

#[test]
fn one_hiccup_at_any_step_of_the_bootstrap_is_survived_or_leaves_nothing() {
    let setting = Setting::with_repository();
    for step in [
        "GET /api/sandbox/",
        "/git/clone",
        "/git/branches",
        "/git/checkout",
        "/process/execute",
    ] {
        for fault in [Fault::status(429), Fault::status(502), Fault::Reset] {
            setting.proxy.fault(step, Times::Exactly(1), fault);
            if let Ok(sandbox) = setting.create() {
                assert_eq!(
                    setting.run(told(&sandbox, "git branch --show-current")),
                    "fix"
                );
                setting.proxy.heal();
                setting.finish(&sandbox);
            }
            setting.assert_no_sandbox_is_left();
        }
    }
}
