//! How commands end: by themselves, by their timeout, by an interrupt, by being forgotten.

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use holm_sandbox::{Exec, Interrupt, OutputStream};

use super::{Backend, PATIENCE, sleepers, unusual_seconds, wait_until_gone};

/// Children in the background, in another session, with the streams closed and with them open.
fn family(seconds: &str) -> String {
    format!(
        "sleep {seconds} & (setsid sleep {seconds} >/dev/null 2>&1 </dev/null &) ; \
         (sh -c 'sleep {seconds} & wait' &) ;"
    )
}

pub async fn a_timeout_keeps_the_output_and_ends_the_whole_tree(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let seconds = unusual_seconds();
    let family = family(&seconds);
    let script = format!("echo so far; echo and here >&2; {family} sleep {seconds}");
    let exec = Exec::new(["sh", "-c", &script]).timeout(Duration::from_millis(300));
    let outcome = subject.exec(exec).await.unwrap();
    assert!(outcome.timed_out && !outcome.success(), "{outcome:?}");
    assert_ne!(outcome.exit_code, 0);
    assert_eq!(outcome.stdout, b"so far\n");
    assert_eq!(outcome.stderr_text().lines().next(), Some("and here"));
    assert!(outcome.duration >= Duration::from_millis(300));
    assert_eq!(sleepers(&*subject, &seconds).await, "");
    subject.finish(backend).await;
}

pub async fn a_command_that_ignores_signals_is_killed(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let seconds = unusual_seconds();
    let script = format!("trap '' TERM INT HUP; echo deaf; sleep {seconds}; sleep {seconds}");
    let exec = Exec::new(["sh", "-c", &script]).timeout(Duration::from_millis(100));
    let outcome = subject.exec(exec).await.unwrap();
    assert!(outcome.timed_out, "{outcome:?}");
    assert_eq!(outcome.stdout, b"deaf\n");
    assert!(outcome.duration < PATIENCE);
    assert_eq!(sleepers(&*subject, &seconds).await, "");
    subject.finish(backend).await;
}

pub async fn a_dropped_command_is_killed(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let seconds = unusual_seconds();
    let (sender, started) = sync_channel(1);
    let sink = move |_: OutputStream, _: &[u8]| {
        let _full = sender.try_send(());
    };
    let script = format!("{} echo started; sleep {seconds}", family(&seconds));
    let command = subject.exec_streamed(Exec::new(["sh", "-c", &script]), Box::new(sink));
    let abandoned = tokio::time::timeout(PATIENCE, async {
        tokio::select! {
            outcome = command => panic!("ended by itself: {outcome:?}"),
            () = async { while started.try_recv().is_err() { tokio::task::yield_now().await; } } => {}
        }
    });
    abandoned.await.unwrap();
    wait_until_gone(&*subject, &seconds).await;
    subject.finish(backend).await;
}

pub async fn an_interrupt_reaches_the_command(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let (sender, interrupts) = sync_channel(1);
    let script = "trap 'echo tidied; exit 7' INT; echo ready; while :; do sleep 0.05; done";
    let sink = move |_: OutputStream, chunk: &[u8]| {
        if chunk.starts_with(b"ready") {
            sender.send(Interrupt::Drain).unwrap();
        }
    };
    let exec = Exec::new(["sh", "-c", script])
        .timeout(PATIENCE)
        .interrupts(interrupts);
    let outcome = subject.exec_streamed(exec, Box::new(sink)).await.unwrap();
    assert_eq!(outcome.exit_code, 7, "{outcome:?}");
    assert_eq!(outcome.stdout, b"ready\ntidied\n");
    assert!(!outcome.timed_out);
    subject.finish(backend).await;
}

pub async fn a_kill_ends_the_command_at_once(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let seconds = unusual_seconds();
    let (sender, interrupts) = sync_channel(2);
    let family = family(&seconds);
    let script = format!("trap '' INT TERM; {family} echo ready; sleep {seconds}");
    let sink = move |_: OutputStream, _: &[u8]| {
        for interrupt in [Interrupt::Drain, Interrupt::Kill] {
            let _full = sender.try_send(interrupt);
        }
    };
    let exec = Exec::new(["sh", "-c", &script])
        .timeout(PATIENCE * 3)
        .interrupts(interrupts);
    let began = Instant::now();
    let outcome = subject.exec_streamed(exec, Box::new(sink)).await.unwrap();
    assert!(!outcome.success() && !outcome.timed_out, "{outcome:?}");
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(sleepers(&*subject, &seconds).await, "");
    subject.finish(backend).await;
}

pub async fn children_end_with_the_sandbox_at_the_latest(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let seconds = unusual_seconds();
    let script = format!("{} echo done", family(&seconds));
    let exec = Exec::new(["sh", "-c", &script]).timeout(PATIENCE);
    let outcome = subject.exec(exec).await.unwrap();
    assert!(
        outcome.success() && outcome.stdout == b"done\n",
        "{outcome:?}"
    );
    // Whoever stays in the background does not hold the caller.
    assert!(outcome.duration < PATIENCE / 2);
    subject.finish(backend).await;
    assert_eq!(host_processes_with(&seconds), Vec::<String>::new());
}

/// Processes of this machine that have the word on their command line.
fn host_processes_with(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(word))
        .collect()
}

pub async fn a_talkative_child_does_not_hold_its_command(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let exec = Exec::new(["sh", "-c", "yes & echo done"])
        .timeout(Duration::from_secs(2))
        .output_bytes_max(1000);
    let outcome = tokio::time::timeout(PATIENCE, subject.exec(exec)).await;
    let outcome = outcome.expect("the command ended long ago").unwrap();
    assert_eq!(outcome.exit_code, 0, "{outcome:?}");
    subject.finish(backend).await;
}
