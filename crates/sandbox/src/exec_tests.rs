//! Building and checking commands.

use std::sync::mpsc::sync_channel;

use proptest::prelude::*;

use super::*;

#[test]
fn the_defaults_are_those_of_the_seeds() {
    let exec = Exec::new(["echo", "hello"]);
    assert_eq!(exec.timeout, Some(Duration::from_millis(600_000)));
    assert_eq!(DEFAULT_RUN_TIMEOUT, Duration::from_millis(3_600_000));
    assert_eq!(exec.output_bytes_max, 51_200);
    assert!(matches!(exec.stdin, Stdin::Closed));
    exec.validate().unwrap();
}

#[test]
fn every_setting_arrives() {
    let (_sender, receiver) = sync_channel(1);
    let exec = Exec::new(["cat"])
        .cwd("src")
        .env("A", "1")
        .unwrap()
        .secret_env("B", "2")
        .unwrap()
        .stdin(Stdin::Bytes(b"in".to_vec()))
        .timeout(Duration::from_secs(1))
        .output_bytes_max(7)
        .interrupts(receiver);
    assert_eq!(exec.cwd, Some(PathBuf::from("src")));
    assert_eq!(exec.env[&EnvKey::new("A").unwrap()], "1");
    assert_eq!(exec.secret_env[&EnvKey::new("B").unwrap()].expose(), "2");
    assert_eq!(
        (exec.timeout, exec.output_bytes_max),
        (Some(Duration::from_secs(1)), 7)
    );
    assert!(exec.interrupts.is_some());
    exec.validate().unwrap();
    assert_eq!(exec.no_timeout().timeout, None);
}

#[test]
fn ac_24_keys_that_a_shell_could_misread_are_refused() {
    for key in [
        "", "A=B", "A B", "$(id)", "`id`", "A\nB", "1A", "A-B", "É", "A;", "A\0",
    ] {
        assert!(Exec::new(["x"]).env(key, "v").is_err(), "{key:?}");
        assert!(Exec::new(["x"]).secret_env(key, "v").is_err(), "{key:?}");
    }
    for key in ["A", "_", "_1", "PATH", "a_B9"] {
        assert_eq!(key.parse::<EnvKey>().unwrap().to_string(), key);
    }
}

#[test]
fn the_last_value_of_a_key_counts() {
    let exec = Exec::new(["x"])
        .env("A", "1")
        .unwrap()
        .secret_env("A", "2")
        .unwrap();
    assert!(exec.env.is_empty());
    let exec = exec.env("A", "3").unwrap();
    assert!(exec.secret_env.is_empty());
    exec.validate().unwrap();
}

#[test]
fn what_cannot_run_is_refused() {
    let text = |exec: &Exec| exec.validate().unwrap_err().to_string();
    assert_eq!(text(&Exec::new(Vec::<String>::new())), "Empty argv");
    assert_eq!(text(&Exec::new(["", "a"])), "the program name is empty");
    assert_eq!(
        text(&Exec::new(["a", "b\0"])),
        "an argument contains a NUL byte"
    );
    assert_eq!(
        text(&Exec::new(["a"]).cwd("b\0")),
        "the working directory contains a NUL byte"
    );
    assert_eq!(
        text(&Exec::new(["a"]).env("A", "\0").unwrap()),
        "the value of an environment variable contains a NUL byte"
    );
    assert_eq!(
        text(&Exec::new(["a"]).secret_env("A", "\0").unwrap()),
        "the value of a secret variable contains a NUL byte"
    );
    let mut twice = Exec::new(["a"]).secret_env("A", "1").unwrap();
    twice.env.insert(EnvKey::new("A").unwrap(), "2".into());
    assert_eq!(
        text(&twice),
        "environment variable `A` is given twice, plain and secret"
    );
}

#[test]
fn debug_shows_no_values() {
    let exec = Exec::new(["cat"])
        .env("PLAIN", "value-one")
        .unwrap()
        .secret_env("HIDDEN", "value-two")
        .unwrap()
        .stdin(Stdin::Bytes(b"value-three".to_vec()));
    let text = format!("{exec:?}");
    assert!(text.contains("PLAIN") && text.contains("HIDDEN") && text.contains("Bytes(11 bytes)"));
    assert!(!text.contains("value"), "{text}");
    let reader = Stdin::Reader(Box::new(&b"value"[..]));
    assert_eq!(
        format!("{reader:?} {:?}", Stdin::default()),
        "Reader(..) Closed"
    );
}

#[test]
fn success_means_that_it_ended_well_by_itself() {
    let ended = ExecOutcome {
        exit_code: 0,
        signal: None,
        stdout: b"a\xffb".to_vec(),
        stderr: Vec::new(),
        duration: Duration::ZERO,
        timed_out: false,
        truncated: false,
    };
    assert!(ended.success());
    assert_eq!(ended.stdout_text(), "a\u{fffd}b");
    assert_eq!(ended.stderr_text(), "");
    assert!(
        !ExecOutcome {
            exit_code: 1,
            ..ended.clone()
        }
        .success()
    );
    assert!(
        !ExecOutcome {
            timed_out: true,
            ..ended.clone()
        }
        .success()
    );
    assert!(
        !ExecOutcome {
            signal: Some(9),
            exit_code: exit_code_for_signal(9),
            ..ended
        }
        .success()
    );
    assert_eq!(exit_code_for_signal(9), 137);
}

#[test]
fn a_closure_is_a_sink() {
    let (sender, receiver) = sync_channel(4);
    let mut sink: Box<dyn OutputSink> = Box::new(move |stream, chunk: &[u8]| {
        sender.send((stream, chunk.to_vec())).unwrap();
    });
    sink.output(OutputStream::Stderr, b"oh");
    assert_eq!(
        receiver.recv().unwrap(),
        (OutputStream::Stderr, b"oh".to_vec())
    );
}

#[test]
fn a_command_can_be_sent_to_another_thread() {
    fn assert_send<T: Send>(_: &T) {}
    assert_send(&Exec::new(["x"]));
}

proptest! {
    #[test]
    fn a_key_is_valid_exactly_when_it_matches(key in "[A-Za-z0-9_=$ -]{0,6}") {
        let first_is_fine = key.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
        let all_are_fine = key.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        prop_assert_eq!(EnvKey::new(&key).is_ok(), first_is_fine && all_are_fine);
    }
}
