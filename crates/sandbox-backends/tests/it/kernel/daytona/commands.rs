//! Seed 000: commands.

use std::time::{Duration, Instant};

use holm_sandbox::{ErrorKind, Exec, Sandbox, TRUNCATION_MARKER};
use holm_sandbox_backends::daytona::{ExecWay, create_daytona_sandbox};
use holm_testkit::TestRepository;
use holm_testkit::conformance::{sh, sleepers, unusual_seconds};

use super::recorded;
use crate::support::PATIENCE;
use crate::support::daytona::DaytonaBackend;

#[tokio::test(flavor = "multi_thread")]
async fn ac_03_a_command_has_its_folder_and_both_outputs_apart() {
    let (_backend, recorder, sandbox) = recorded().await;
    sh(&sandbox, "mkdir -p deep/er").await;
    let script = "pwd; echo \"it's\" >&2; exit 3";
    let exec = Exec::new(["sh", "-c", script])
        .cwd("deep/er")
        .timeout(PATIENCE);
    let outcome = sandbox.exec(exec).await.unwrap();
    assert_eq!(outcome.exit_code, 3);
    assert_eq!(
        outcome.stdout_text(),
        "/home/daytona/workspace/widgets/deep/er\n"
    );
    assert_eq!(outcome.stderr_text(), "it's\n");
    assert!(!outcome.duration.is_zero());
    let sent = recorder.sent();
    assert!(sent.contains("POST /toolbox/") && sent.contains("/process/session "));
    assert!(!sent.contains("/process/execute"), "{sent}");
    assert_eq!(sent.matches("DELETE /toolbox/").count(), 2, "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_04_a_folder_outside_is_refused_before_any_request() {
    let (_backend, recorder, sandbox) = recorded().await;
    for cwd in [
        "/etc",
        "..",
        "a/../../x",
        "/home/daytona/workspace/widgets-evil",
    ] {
        let error = sandbox.exec(Exec::new(["pwd"]).cwd(cwd)).await.unwrap_err();
        assert!(error.to_string().starts_with("path confinement violation"));
        assert_eq!(error.kind(), ErrorKind::Confinement);
    }
    assert_eq!(recorder.sent(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_05_a_timeout_ends_the_command_with_all_its_children() {
    let (_backend, _recorder, sandbox) = recorded().await;
    let seconds = unusual_seconds();
    let script = format!("echo so far; (setsid sleep {seconds} &); sleep {seconds}");
    let exec = Exec::new(["sh", "-c", &script]).timeout(Duration::from_millis(400));
    let began = Instant::now();
    let outcome = sandbox.exec(exec).await.unwrap();
    assert!(outcome.timed_out && !outcome.success(), "{outcome:?}");
    assert_eq!(outcome.stdout_text(), "so far\n");
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(sleepers(&sandbox, &seconds).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_leaves_in_the_background_lives_on() {
    let (_backend, _recorder, sandbox) = recorded().await;
    let seconds = unusual_seconds();
    let exec = Exec::new(["sh", "-c", &format!("sleep {seconds} & echo started")]);
    let outcome = sandbox.exec(exec).await.unwrap();
    assert_eq!(outcome.stdout_text(), "started\n");
    sh(&sandbox, "true").await;
    assert_ne!(sleepers(&sandbox, &seconds).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_17_output_is_cut_at_the_limit() {
    let (_backend, _recorder, sandbox) = recorded().await;
    let exec = Exec::new(["sh", "-c", "yes | head -c 100000"]).output_bytes_max(1000);
    let outcome = sandbox.exec(exec).await.unwrap();
    assert!(outcome.truncated && outcome.success(), "{outcome:?}");
    assert_eq!(outcome.stdout.len(), 1000 + TRUNCATION_MARKER.len());
    assert!(outcome.stdout_text().ends_with(TRUNCATION_MARKER));
}

#[tokio::test(flavor = "multi_thread")]
async fn ac_24_names_of_variables_are_checked_before_any_request() {
    let (_backend, recorder, sandbox) = recorded().await;
    for key in ["", "A=B", "A B", "$(id)", "`id`", "A\nB", "1A"] {
        let error = Exec::new(["env"]).env(key, "v").unwrap_err().to_string();
        assert!(error.starts_with("Invalid env key \""), "{error}");
        assert!(error.ends_with("\" — must match [A-Za-z_][A-Za-z0-9_]*"));
    }
    assert_eq!(recorder.sent(), "");
    let exec = Exec::new(["sh", "-c", "echo $_A1"])
        .env("_A1", "$(id)")
        .unwrap();
    let outcome = sandbox.exec(exec).await.unwrap();
    assert_eq!(outcome.stdout_text(), "$(id)\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_variable_is_in_no_command() {
    let (_backend, recorder, sandbox) = recorded().await;
    let exec = Exec::new([
        "sh",
        "-c",
        "echo ${#TOKEN}; tr '\\0' ' ' </proc/$PPID/cmdline",
    ])
    .secret_env("TOKEN", "very-secret-value")
    .unwrap();
    let outcome = sandbox.exec(exec).await.unwrap();
    assert!(outcome.stdout_text().starts_with("17\n"), "{outcome:?}");
    assert!(!outcome.stdout_text().contains("REDACTED"), "{outcome:?}");
    let sent = recorder.sent();
    let commands = sent.split(r#""command":"#).skip(1);
    for command in commands {
        let command = command.split("runAsync").next().unwrap();
        assert!(!command.contains("very-secret"), "{command}");
    }
    // The file that brought it is gone.
    let look = "grep -rs very-secret /home/daytona/workspace /proc/[0-9]*/cmdline | head -n 1";
    assert_eq!(sh(&sandbox, &look.replace("very-s", "very[-]s")).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simple_command_has_its_outputs_merged() {
    let (backend, recorder) = DaytonaBackend::recorded();
    backend.serve(&TestRepository::new(), None);
    let mut options = backend.sandbox_options("work");
    options.daytona.exec = ExecWay::Simple;
    let sandbox = create_daytona_sandbox(options).await.unwrap();
    recorder.forget();
    let run = |script: &'static str| {
        let exec = Exec::new(["sh", "-c", script]).timeout(Duration::from_millis(1_500));
        sandbox.exec(exec)
    };
    let fine = run("pwd; echo err >&2").await.unwrap();
    let expected = "/home/daytona/workspace/widgets\nerr\n";
    assert_eq!(
        (fine.stdout_text(), fine.stderr_text()),
        (expected.into(), "".into())
    );
    let failed = run("echo bad; exit 4").await.unwrap();
    assert_eq!(failed.exit_code, 4);
    assert_eq!(
        (failed.stdout_text(), failed.stderr_text()),
        ("bad\n".into(), "bad\n".into())
    );
    let late = run("sleep 60").await.unwrap();
    assert!(late.timed_out && !late.success(), "{late:?}");
    let sent = recorder.sent();
    assert!(sent.contains(r#""timeout":2"#) && !sent.contains("/process/session"));
}
