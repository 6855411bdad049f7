//! Commands: outputs apart, ends that are ends, and no way back to this machine.

use std::sync::mpsc::channel;
use std::time::Duration;

use holm_sandbox::{Exec, Interrupt, Stdin};

use super::{argv, file, sh, told, with_provider};

#[test]
fn seed_002_commands_run_with_folder_environment_and_standard_results() {
    with_provider(async |provider| {
        provider.upload(&[file("sub/x", "")]).await.unwrap();
        let exec = Exec::new(["sh", "-c", r#"pwd; echo "$GREETING" >&2; exit 3"#]);
        let exec = exec.cwd("sub").env("GREETING", "it's $HOME").unwrap();
        let outcome = provider.exec(exec).await.unwrap();
        assert_eq!(outcome.stdout_text(), "/home/daytona/workspace/sub\n");
        assert_eq!(outcome.stderr_text(), "it's $HOME\n");
        assert_eq!((outcome.exit_code, outcome.timed_out), (3, false));

        // An argv is no shell string, and no builtin either.
        let outcome = provider.exec(argv(["echo", "$HOME", "a;b", "*"])).await;
        assert_eq!(outcome.unwrap().stdout_text(), "$HOME a;b *\n");
        let outcome = provider.exec(argv(["exit", "0"])).await.unwrap();
        assert_eq!(outcome.exit_code, 127);
        // Bytes stay bytes, and stdin is closed unless there is one.
        let outcome = sh(provider, "cat; printf '\\377\\000\\n\\n'").await;
        assert_eq!(outcome.stdout, b"\xff\0\n\n");
        let exec = Exec::new(["cat"]).stdin(Stdin::Bytes(b"given\0".to_vec()));
        assert_eq!(provider.exec(exec).await.unwrap().stdout, b"given\0");
        let exec = Exec::new(["sh", "-c", "yes | head -c 100000"]).output_bytes_max(10);
        let outcome = provider.exec(exec).await.unwrap();
        assert_eq!(outcome.stdout_text(), "y\ny\ny\ny\ny\n[truncated]");
        assert!(outcome.truncated);
        // Its own, and none of those before.
        assert_eq!(told(provider, "ls -A .. | grep -c holm-command").await, "1");
        for folder in ["missing", ".."] {
            let refused = provider.exec(argv(["true"]).cwd(folder)).await;
            assert!(refused.is_err(), "{refused:?}");
        }
    });
}

#[test]
fn secrets_are_taken_out_of_the_output() {
    with_provider(async |provider| {
        let exec = Exec::new(["sh", "-c", r#"echo "key: $THE_KEY""#]);
        let exec = exec.secret_env("THE_KEY", "s3cr3t-value").unwrap();
        let outcome = provider.exec(exec).await.unwrap();
        assert_eq!(outcome.stdout_text(), "key: [REDACTED:THE_KEY]\n");
    });
}

#[test]
fn seed_002_timeouts_end_the_command_with_all_it_started_and_keep_the_output() {
    with_provider(async |provider| {
        let script = "echo before; echo error >&2; (setsid sh -c 'while :; do echo x >>alive; sleep 0.1; done' &) ; sleep 100";
        let exec = Exec::new(["sh", "-c", script]).timeout(Duration::from_secs(1));
        let outcome = provider.exec(exec).await.unwrap();
        assert!(outcome.timed_out, "{outcome:?}");
        assert_eq!(outcome.exit_code, 124);
        assert_eq!(outcome.stdout_text(), "before\n");
        assert_eq!(outcome.stderr_text(), "error\n");
        let grows = told(provider, "wc -c <alive; sleep 0.5; wc -c <alive").await;
        let sizes: Vec<&str> = grows.lines().collect();
        assert_eq!(sizes[0], sizes[1]);
    });
}

#[test]
fn interrupts_reach_the_command() {
    with_provider(async |provider| {
        let (sender, receiver) = channel();
        let script =
            "trap 'echo drained; exit 7' INT; echo ready >ready; while :; do sleep 0.1; done";
        let exec = Exec::new(["sh", "-c", script]).interrupts(receiver);
        let running = {
            let provider = provider.clone();
            tokio::spawn(async move { provider.exec(exec).await.unwrap() })
        };
        told(provider, "until [ -e ready ]; do sleep 0.05; done").await;
        sender.send(Interrupt::Drain).unwrap();
        let outcome = running.await.unwrap();
        assert_eq!(outcome.stdout_text(), "drained\n");
        assert_eq!(outcome.exit_code, 7);

        let (sender, receiver) = channel();
        let exec = Exec::new([
            "sh",
            "-c",
            "echo so far; echo 1 >stubborn; trap '' INT TERM; sleep 100",
        ]);
        let exec = exec.interrupts(receiver);
        let running = {
            let provider = provider.clone();
            tokio::spawn(async move { provider.exec(exec).await.unwrap() })
        };
        told(provider, "until [ -e stubborn ]; do sleep 0.05; done").await;
        sender.send(Interrupt::Kill).unwrap();
        let outcome = running.await.unwrap();
        assert_eq!(outcome.signal, Some(9));
        assert_eq!(outcome.stdout_text(), "so far\n");
        assert!(!outcome.timed_out);
    });
}

#[test]
fn a_future_that_is_dropped_ends_its_command() {
    with_provider(async |provider| {
        let running = {
            let provider = provider.clone();
            tokio::spawn(async move { sh(&provider, "echo $$ >pid; sleep 1000").await })
        };
        told(provider, "until [ -s pid ]; do sleep 0.05; done").await;
        running.abort();
        told(
            provider,
            "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done",
        )
        .await;
    });
}

#[test]
fn seed_002_commands_have_no_access_to_this_machine() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    with_provider(async |provider| {
        let script = format!("test -e '{}'", secret.path().display());
        assert_eq!(sh(provider, &script).await.exit_code, 1);
    });
}
