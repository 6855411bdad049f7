//! The scripts themselves, in the shells of this machine.

use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};

use super::*;

/// Each test has its own: they run at once, and look for each other's processes.
fn id() -> String {
    holm_sandbox_linux::random_hex()
}

fn run(id: &str, exec: &Exec, root: &Path, cwd: &Path) -> Output {
    let files = root.join(".stage").join(id);
    let script = super::command(exec, id, root, cwd, files.to_str().unwrap()).unwrap();
    Command::new("sh")
        .arg("-c")
        .arg(script.text)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn end(id: &str, code: &str) -> String {
    format!("\x1eholm:{id}:{code}\n")
}

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

#[test]
fn both_outputs_end_with_the_code() {
    let (_folder, root) = folder();
    let id = id();
    let exec = Exec::new(["sh", "-c", "printf out; printf err >&2; exit 7"]);
    let output = run(&id, &exec, &root, &root);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stdout, format!("out{}", end(&id, "end:7:alone")));
    let (pid, rest) = stderr.split_once('\n').unwrap();
    assert!(pid.starts_with(&format!("\x1eholm:{id}:pid:")), "{pid}");
    assert_eq!(rest, format!("err{}", end(&id, "end:7:alone")));
}

#[test]
fn what_a_shell_says_about_a_signal_is_not_in_the_output() {
    let (_folder, root) = folder();
    let id = id();
    let output = run(&id, &Exec::new(["sh", "-c", "kill -KILL $$"]), &root, &root);
    assert_eq!(output.stdout, end(&id, "end:137:alone").as_bytes());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("Killed"), "{stderr}");
}

#[test]
fn programs_and_folders_that_are_not_there_are_told() {
    let (_folder, root) = folder();
    let id = id();
    std::fs::write(root.join("plain"), "data").unwrap();
    std::os::unix::fs::symlink("/etc", root.join("out")).unwrap();
    let below = |name: &str| root.join(name);
    for (argv, cwd, code) in [
        (["no-such-program"], root.clone(), "fail:20"),
        (["echo hello"], root.clone(), "fail:20"),
        (["./missing"], root.clone(), "fail:20"),
        (["./plain"], root.clone(), "fail:21"),
        (["./"], root.clone(), "fail:21"),
        (["true"], below("missing"), "fail:11"),
        (["true"], below("plain"), "fail:12"),
        (["true"], below("plain/x"), "fail:12"),
        (["true"], below("out"), "fail:10"),
    ] {
        let output = run(&id, &Exec::new(argv), &root, &cwd);
        assert_eq!(output.stdout, end(&id, code).as_bytes(), "{argv:?} {cwd:?}");
    }
}

#[test]
fn variables_are_the_commands_alone() {
    let (_folder, root) = folder();
    let id = id();
    let value = std::ffi::OsStr::from_bytes(b"a'b\xff\n$(id)");
    let exec = Exec::new(["sh", "-c", "printf %s \"$VALUE\"; printf %s \"$PATH\""])
        .env("VALUE", value)
        .unwrap()
        .env("PATH", "/usr/bin:/bin:/odd")
        .unwrap();
    let output = run(&id, &exec, &root, &root);
    let expected = [
        value.as_bytes(),
        b"/usr/bin:/bin:/odd",
        end(&id, "end:0:alone").as_bytes(),
    ]
    .concat();
    assert_eq!(output.stdout, expected);
}

#[test]
fn whom_a_command_leaves_behind_is_known_and_can_be_ended() {
    let (_folder, root) = folder();
    let id = id();
    let script =
        "setsid sleep 98765 >/dev/null 2>&1 </dev/null & sleep 98765 >/dev/null 2>&1 & echo $!";
    let output = run(&id, &Exec::new(["sh", "-c", script]), &root, &root);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.ends_with(&end(&id, "end:0:left")), "{stdout}");
    let pid: u32 = stdout.lines().next().unwrap().parse().unwrap();
    let ended = Command::new("sh")
        .arg("-c")
        .arg(kill(&id).unwrap())
        .status();
    assert!(ended.unwrap().success());
    let left = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    assert!(left.is_empty(), "still there");
}

#[test]
fn secrets_are_known_to_be_there() {
    let exec = Exec::new(["true"]).secret_env("TOKEN", "hidden").unwrap();
    let script = super::command(&exec, "0a", Path::new("/w"), Path::new("/w"), "/s/x").unwrap();
    assert!(script.is_secret);
}
