//! Signals, while a sandbox on a server is made, used and taken away: nothing stays, and nothing waits for ever.

use std::time::{Duration, Instant};

use holm_testserver::Fault;
use rustix::process::Signal;

use super::{BadDay, Scene};
use crate::server::Serving;
use crate::support::{TestEnvironment, read_until, send, wait_until};

const CREATE: &str = "POST /api/sandbox HTTP";
/// What is left to do after a signal has a quarter of a minute in each of two phases, and a loaded machine needs some more.
const BOUND: Duration = Duration::from_secs(50);

fn user(scene: &Scene, server: &Serving<'_>, bad_day: &BadDay) -> TestEnvironment {
    let env = scene.user(server);
    env.with("DAYTONA_API_URL", bad_day.proxy.api_url())
}

#[test]
fn a_sandbox_that_is_just_being_made_is_deleted() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    // Its answer takes longer than the signal.
    let slow = Fault::AnswerSlow {
        piece_bytes: 100,
        pause: Duration::from_millis(300),
    };
    let create: &[&str] = &["sandbox", "create"];
    let exec: &[&str] = &["exec", "--", "touch", "it-ran"];
    for (arguments, signal) in [(create, Signal::INT), (exec, Signal::TERM)] {
        let bad_day = BadDay::before(&server);
        bad_day.proxy.always(CREATE, slow.clone());
        let env = user(&scene, &server, &bad_day);
        let child = env.holm(arguments).spawn().unwrap();
        wait_until("the server makes one", || {
            !server.client().sandboxes().is_empty()
        });
        send(&child, signal);
        let output = env.finish(child);
        assert_eq!(output.code(), Some(128 + signal.as_raw()), "{output}");
        assert!(
            output
                .errors()
                .starts_with("interrupted: deleting the sandbox"),
            "{output}"
        );
        assert_eq!(output.text(), "");
        assert!(server.client().sandboxes().is_empty(), "{output}");
    }
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn cloning_is_not_waited_for() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let bad_day = BadDay::before(&server);
    bad_day.proxy.always("/git/clone", Fault::Silence);
    let env = user(&scene, &server, &bad_day);
    let arguments = ["exec", "--repo", "acme/widgets", "--", "true"];
    let child = env.holm(arguments).spawn().unwrap();
    wait_until("it clones", || {
        !bad_day.proxy.requests("/git/clone").is_empty()
    });
    send(&child, Signal::INT);
    let output = env.finish(child);
    assert_eq!(output.code(), Some(130), "{output}");
    assert!(server.client().sandboxes().is_empty());
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_server_that_hangs_is_left_alone_after_a_while() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let bad_day = BadDay::before(&server);
    let env = user(&scene, &server, &bad_day);
    let script = "echo started; sleep 600";
    let mut child = env
        .holm(["exec", "--", "sh", "-c", script])
        .spawn()
        .unwrap();
    read_until(&mut child, "started\n");
    bad_day.proxy.always("", Fault::Silence);
    send(&child, Signal::TERM);
    let began = Instant::now();
    let status = child.wait().unwrap();
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    let output = env.finish(child);
    let errors = output.errors();
    assert_eq!(status.code(), Some(143), "{errors}");
    let name = server.client().sandboxes()[0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    for part in [
        "could not end the command",
        "the server did not answer in time",
        &format!("holm sandbox rm --sandbox daytona {name}"),
    ] {
        assert!(errors.contains(part), "{errors}");
    }
    // What was said to do can be done.
    bad_day.proxy.heal();
    env.run(["sandbox", "rm", "--sandbox", "daytona", &name])
        .success();
    assert!(server.client().sandboxes().is_empty());
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_server_that_hangs_while_it_makes_one_is_left_alone_after_a_while() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let bad_day = BadDay::before(&server);
    bad_day.proxy.always("", Fault::Silence);
    let env = user(&scene, &server, &bad_day);
    let mut child = env.holm(["exec", "--", "true"]).spawn().unwrap();
    wait_until("it asks", || !bad_day.proxy.requests(CREATE).is_empty());
    send(&child, Signal::INT);
    let began = Instant::now();
    let status = child.wait().unwrap();
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    let output = env.finish(child);
    assert_eq!(status.code(), Some(130), "{output}");
    let errors = output.errors();
    assert!(
        errors.contains("did not say whether sandbox `holm-"),
        "{errors}"
    );
    assert_eq!(server.stop().code(), Some(0));
}
