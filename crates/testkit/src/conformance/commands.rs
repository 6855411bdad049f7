//! Starting a command: what it is given, and what it cannot be given.

use holm_sandbox::{ErrorKind, Exec, MAX_OUTPUT_BYTES, OutputStream, SandboxError, Stdin};
use std::sync::{Arc, Mutex};

use super::{Backend, PATIENCE, at, sh};

pub async fn a_command_that_succeeds_says_so(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let outcome = subject
        .exec(Exec::new(["echo", "hello"]).timeout(PATIENCE))
        .await
        .unwrap();
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!((outcome.exit_code, outcome.signal), (0, None));
    assert_eq!(outcome.stdout, b"hello\n");
    assert_eq!(outcome.stderr, b"");
    assert!(!outcome.timed_out && !outcome.truncated);
    assert!(!outcome.duration.is_zero() && outcome.duration < PATIENCE);
    subject.finish(backend).await;
}

pub async fn a_failing_command_is_an_outcome_with_its_exit_code(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let outcome = super::run(&*subject, "exit 42").await;
    assert_eq!((outcome.exit_code, outcome.signal), (42, None));
    assert!(!outcome.success());
    let killed = super::run(&*subject, "kill -KILL $$").await;
    assert_eq!((killed.exit_code, killed.signal), (137, Some(9)));
    subject.finish(backend).await;
}

pub async fn variables_arrive_as_given(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let value = "spaces and \"quotes\" and $(touch x)\nand a line";
    let exec = Exec::new(["sh", "-c", "printf %s \"$HOLM_TEST_VALUE\""])
        .env("HOLM_TEST_VALUE", value)
        .unwrap();
    let outcome = subject.exec(exec).await.unwrap();
    assert_eq!(outcome.stdout_text(), value);
    // The next command begins afresh.
    assert_eq!(
        sh(&*subject, "echo \"${HOLM_TEST_VALUE-unset}\"").await,
        "unset"
    );
    subject.finish(backend).await;
}

pub async fn an_invalid_variable_name_is_refused(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    for key in ["", "A=B", "1A", "A B", "A;id", "$(id)"] {
        let error = Exec::new(["env"]).env(key, "v").unwrap_err();
        assert!(matches!(error, SandboxError::InvalidEnvKey { .. }), "{key}");
    }
    let mut nul = Exec::new(["env"]).env("A", "b").unwrap();
    nul.env.values_mut().for_each(|value| value.push("\0"));
    let error = subject.exec(nul).await.unwrap_err();
    assert!(matches!(error, SandboxError::NulByte { .. }), "{error}");
    subject.finish(backend).await;
}

pub async fn a_secret_arrives_and_is_never_shown(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let secret = "correct-horse-battery";
    let script = "echo ${#HOLM_TEST_TOKEN}; echo a${HOLM_TEST_TOKEN}b; echo $HOLM_TEST_TOKEN >&2";
    let exec = || {
        Exec::new(["sh", "-c", script])
            .secret_env("HOLM_TEST_TOKEN", secret)
            .unwrap()
    };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let sink = move |_: OutputStream, chunk: &[u8]| sink.lock().unwrap().extend_from_slice(chunk);
    for outcome in [
        subject.exec(exec()).await.unwrap(),
        subject.exec_streamed(exec(), Box::new(sink)).await.unwrap(),
    ] {
        let stdout = outcome.stdout_text();
        assert!(stdout.starts_with("21\na"), "{stdout}");
        for text in [stdout, outcome.stderr_text()] {
            assert!(!text.contains("horse"), "{text}");
            assert!(text.contains("HOLM_TEST_TOKEN"), "{text}");
        }
    }
    let streamed = String::from_utf8(seen.lock().unwrap().clone()).unwrap();
    assert!(!streamed.contains("horse"), "{streamed}");
    assert!(!format!("{:?}", exec()).contains("horse"));
    subject.finish(backend).await;
}

pub async fn input_is_at_its_end_unless_given(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let outcome = subject
        .exec(Exec::new(["cat"]).timeout(PATIENCE))
        .await
        .unwrap();
    assert!(
        outcome.success() && outcome.stdout.is_empty(),
        "{outcome:?}"
    );
    subject.finish(backend).await;
}

pub async fn input_bytes_arrive(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    // More than any pipe holds, and no text.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let exec = |argv: &[&str], stdin| {
        Exec::new(argv.to_vec())
            .stdin(stdin)
            .timeout(PATIENCE)
            .output_bytes_max(8 << 20)
    };
    let outcome = subject
        .exec(exec(&["cat"], Stdin::Bytes(bytes.clone())))
        .await
        .unwrap();
    assert!(outcome.stdout == bytes, "{} bytes", outcome.stdout.len());
    let reader = Stdin::Reader(Box::new(std::io::Cursor::new(b"from a reader".to_vec())));
    let outcome = subject.exec(exec(&["cat"], reader)).await.unwrap();
    assert_eq!(outcome.stdout, b"from a reader");
    // A command that does not read its input ends all the same.
    let outcome = subject
        .exec(exec(&["true"], Stdin::Bytes(bytes)))
        .await
        .unwrap();
    assert!(outcome.success(), "{outcome:?}");
    subject.finish(backend).await;
}

pub async fn no_shell_reads_the_arguments(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let arguments = [
        "$(touch x)",
        "`touch x`",
        "; touch x",
        "a b",
        "",
        "*",
        "'",
        "\"",
        "\n",
        "$HOME",
        "~",
        "&&",
        "--",
        "-n",
    ];
    let argv = ["printf", "[%s]"].into_iter().chain(arguments);
    let outcome = subject.exec(Exec::new(argv)).await.unwrap();
    let expected: String = arguments.iter().map(|text| format!("[{text}]")).collect();
    assert_eq!(outcome.stdout_text(), expected);
    assert!(subject.read_file(at("x")).await.is_err());
    // Neither is the program's name read by one.
    let error = subject.exec(Exec::new(["echo hello"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandNotFound, "{error}");
    subject.finish(backend).await;
}

pub async fn a_command_starts_in_the_chosen_directory(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let root = subject.work_dir().to_path_buf();
    assert_eq!(sh(&*subject, "pwd").await, root.to_str().unwrap());
    sh(&*subject, "mkdir -p 'a dir/b'").await;
    for cwd in [
        "a dir/b",
        "a dir/./b/../b",
        root.join("a dir/b").to_str().unwrap(),
    ] {
        let exec = Exec::new(["pwd"]).cwd(cwd);
        let outcome = subject.exec(exec).await.unwrap();
        let expected = format!("{}/a dir/b\n", root.display());
        assert_eq!(outcome.stdout_text(), expected);
    }
    subject.finish(backend).await;
}

pub async fn a_directory_outside_is_a_confinement_violation(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    let sibling = format!("{}-evil", subject.work_dir().display());
    for cwd in ["/", "/tmp", "..", "a/../..", sibling.as_str()] {
        let error = subject.exec(Exec::new(["pwd"]).cwd(cwd)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Confinement, "{cwd}: {error}");
        assert!(error.to_string().contains("path confinement violation"));
    }
    subject.finish(backend).await;
}

pub async fn a_missing_directory_is_not_found(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    subject.write_file(at("file"), b"").await.unwrap();
    for (cwd, kind) in [
        ("missing", ErrorKind::NotFound),
        ("file", ErrorKind::WrongFileKind),
        ("file/below", ErrorKind::WrongFileKind),
    ] {
        let error = subject.exec(Exec::new(["pwd"]).cwd(cwd)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{cwd}: {error}");
    }
    subject.finish(backend).await;
}

pub async fn a_command_that_is_not_there_is_named(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    for program in ["no-such-command", "./missing", "/no/such/program"] {
        let error = subject.exec(Exec::new([program])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CommandNotFound, "{error}");
        assert!(error.to_string().contains(program), "{error}");
    }
    subject.finish(backend).await;
}

pub async fn a_file_that_cannot_be_executed_is_told_from_a_missing_one(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    subject.write_file(at("plain"), b"data").await.unwrap();
    let error = subject.exec(Exec::new(["./plain"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandNotExecutable, "{error}");
    assert!(error.to_string().contains("./plain"), "{error}");
    let error = subject.exec(Exec::new(["./"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandNotExecutable, "{error}");
    // A script with an interpreter runs once it may.
    subject
        .write_file(at("script"), b"#!/bin/sh\necho ran\n")
        .await
        .unwrap();
    sh(&*subject, "chmod +x script").await;
    let outcome = subject.exec(Exec::new(["./script"])).await.unwrap();
    assert_eq!(outcome.stdout, b"ran\n");
    subject.finish(backend).await;
}

pub async fn what_cannot_run_is_refused_beforehand(backend: &dyn Backend) {
    let subject = backend.sandbox().await;
    assert_eq!(Exec::new(["x"]).output_bytes_max, MAX_OUTPUT_BYTES);
    for (exec, message) in [
        (Exec::new(Vec::<String>::new()), "Empty argv"),
        (Exec::new([""]), "the program name is empty"),
        (Exec::new(["a", "\0"]), "an argument contains a NUL byte"),
    ] {
        let error = subject.exec(exec).await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    subject.finish(backend).await;
}
