//! What a command says, and how much of it is kept.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use holm_sandbox::{Exec, OutputStream, TRUNCATION_MARKER};

use super::{Backend, PATIENCE, at};

pub async fn the_two_outputs_are_kept_apart(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let outcome = super::run(
        &*subject,
        "echo out; echo err >&2; echo out2; echo err2 >&2",
    )
    .await;
    assert_eq!(outcome.stdout, b"out\nout2\n");
    assert_eq!(outcome.stderr, b"err\nerr2\n");
    subject.finish(backend).await;
}

pub async fn output_beyond_the_cap_is_cut_and_marked(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let script = "head -c 5000 /dev/zero | tr '\\0' x; printf 0123456789 >&2";
    let exec = |bytes_max| Exec::new(["sh", "-c", script]).output_bytes_max(bytes_max);
    let outcome = subject.exec(exec(1000)).await.unwrap();
    let expected = format!("{}{TRUNCATION_MARKER}", "x".repeat(1000));
    assert!(outcome.truncated && outcome.success());
    assert_eq!(outcome.stdout_text(), expected);
    assert_eq!(outcome.stderr, b"0123456789");
    let outcome = subject.exec(exec(5000)).await.unwrap();
    assert!(!outcome.truncated && outcome.stdout.len() == 5000);
    // Characters stay whole.
    let exec = Exec::new(["printf", "äääää"]).output_bytes_max(5);
    let outcome = subject.exec(exec).await.unwrap();
    assert_eq!(outcome.stdout_text(), format!("ää{TRUNCATION_MARKER}"));
    subject.finish(backend).await;
}

pub async fn endless_output_takes_no_memory(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let before = resident_kib();
    let exec = Exec::new(["sh", "-c", "yes & yes >&2"]).timeout(Duration::from_millis(700));
    let outcome = subject.exec(exec).await.unwrap();
    assert!(outcome.timed_out && outcome.truncated, "{outcome:?}");
    assert!(outcome.stdout.ends_with(TRUNCATION_MARKER.as_bytes()));
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 32 * 1024, "grew by {grown} KiB");
    subject.finish(backend).await;
}

/// The most memory that this process ever had.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

pub async fn output_that_is_no_text_arrives_as_it_is(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let outcome = super::run(&*subject, r"printf '\377\000\376a\r\n'").await;
    assert_eq!(outcome.stdout, b"\xff\0\xfea\r\n");
    subject.finish(backend).await;
}

pub async fn streamed_output_is_whole_and_in_order(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let seen = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let sink = seen.clone();
    let sink = move |stream: OutputStream, chunk: &[u8]| {
        let index = usize::from(stream == OutputStream::Stderr);
        sink.lock().unwrap()[index].extend_from_slice(chunk);
    };
    let script = "i=0; while [ $i -lt 20000 ]; do echo $i; echo e$i >&2; i=$((i+1)); done";
    let exec = Exec::new(["sh", "-c", script])
        .timeout(PATIENCE)
        .output_bytes_max(100);
    let outcome = subject.exec_streamed(exec, Box::new(sink)).await.unwrap();
    // The outcome is capped, the stream is not.
    assert!(outcome.success() && outcome.truncated);
    let lines = |prefix: &str| -> String {
        let lines = (0..20_000).map(|number| format!("{prefix}{number}\n"));
        lines.collect()
    };
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(seen[0] == lines("").as_bytes() && seen[1] == lines("e").as_bytes());
    subject.finish(backend).await;
}

pub async fn streamed_output_comes_while_the_command_runs(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let (sender, seen) = std::sync::mpsc::sync_channel(16);
    let sink = move |_: OutputStream, chunk: &[u8]| sender.send(chunk.to_vec()).unwrap();
    let script = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second";
    let exec = Exec::new(["sh", "-c", script]).timeout(PATIENCE);
    let command = subject.exec_streamed(exec, Box::new(sink));
    let answer = async {
        while seen.try_recv().is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        subject.write_file(at("go"), b"").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(command, answer);
    assert_eq!(outcome.unwrap().stdout, b"first\nsecond\n");
    assert_eq!(seen.try_recv().unwrap(), b"second\n");
    subject.finish(backend).await;
}
