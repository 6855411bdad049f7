//! What an agent must not see of the user's repository and home.

use std::fs;
use std::path::Path;

use holm_testkit::TestRepository;

use crate::support::{TestHost, Use};

#[test]
fn credentials_in_the_repository_are_not_inside() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    for (key, value) in [
        (
            "remote.origin.url",
            "https://user:hunter2-url@example.org/a/b.git",
        ),
        (
            "remote.other.pushurl",
            "https://user:hunter2-pushurl@example.org/a/b.git",
        ),
        ("url.https://hunter2-instead@example.org/.insteadOf", "gh:"),
        (
            "http.https://example.org/.extraheader",
            "Authorization: Basic hunter2-header",
        ),
        ("http.extraheader", "Authorization: hunter2-plain"),
        ("credential.helper", "!echo password=hunter2-helper"),
        ("sendemail.smtppass", "hunter2-mail"),
        ("core.sshCommand", "ssh -i hunter2-key"),
    ] {
        repository.git(["config", key, value]);
    }
    fs::write(repository.git_dir().join("hunter2-file"), "hunter2-content").unwrap();
    let log = "hunter2-reflog";
    repository.git(["update-ref", "-m", log, "refs/heads/main", "HEAD"]);
    let sandbox = host.boxed(&repository, "work");
    assert_eq!(sandbox.sh("grep -r hunter2 . || true"), "");
    assert_eq!(sandbox.sh("git config --list | grep hunter2 || true"), "");
    assert_eq!(
        sandbox.sh("git remote get-url origin"),
        "https://example.org/a/b.git"
    );
    sandbox.end_cleanly();
}

#[test]
fn stash_reflogs_and_other_worktrees_are_not_inside() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    repository.write("README.md", "stashed");
    repository.git(["stash", "push", "--quiet", "-m", "private"]);
    repository.linked_worktree("linked");
    repository.git(["update-ref", "refs/private/thing", "HEAD"]);
    let sandbox = host.boxed(&repository, "work");
    assert_eq!(sandbox.sh("git stash list"), "");
    assert_eq!(sandbox.sh("git worktree list | wc -l"), "1");
    assert_eq!(sandbox.sh("git reflog | wc -l"), "0");
    let refs = sandbox.sh("git for-each-ref --format='%(refname)'");
    assert_eq!(refs, "refs/heads/linked\nrefs/heads/main\nrefs/heads/work");
    sandbox.end_cleanly();
}

#[test]
fn what_the_user_can_read_inside_is_the_history() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let first = repository.head();
    repository.with_bare_origin();
    repository.git(["tag", "-a", "v1", "-m", "one"]);
    repository.write("second", "2");
    repository.commit("second");
    let sandbox = host.boxed(&repository, "work");
    assert_eq!(sandbox.sh("git log --format=%s"), "second\nfirst");
    assert_eq!(
        sandbox.sh("git rev-parse v1^{commit} origin/main main~1"),
        format!("{first}\n{first}\n{first}")
    );
    assert_eq!(
        sandbox
            .sh("git describe; git blame -s README.md | wc -l; git fsck")
            .lines()
            .last(),
        Some("1")
    );
    sandbox.end_cleanly();
}

#[test]
fn the_users_other_files_are_not_inside() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let home = host.folder.path().join("home");
    fs::create_dir(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/id_ed25519"), "hunter2").unwrap();
    fs::write(repository.path().join("uncommitted"), "hunter2").unwrap();
    let beside = repository.folder().join("beside");
    fs::write(&beside, "hunter2").unwrap();
    let sandbox = host.boxed(&repository, "work");
    let candidates = [
        home.join(".ssh/id_ed25519"),
        repository.path().join("uncommitted"),
        repository.path().join("README.md"),
        repository.git_dir().join("config"),
        beside,
        host.data("boxes"),
        host.data("checkouts"),
    ];
    for path in candidates {
        let exec = holm_sandbox::Exec::new([Path::new("ls"), Path::new("-d"), &path]);
        let outcome = sandbox.exec_blocking(exec, None).unwrap();
        assert!(!outcome.success(), "{} is inside", path.display());
    }
    sandbox.end_cleanly();
}

#[test]
fn the_environment_of_the_caller_is_not_inside() {
    let host = TestHost::with(|config| {
        let variables = [
            ("MY_API_KEY", "hunter2"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("LANG", "C.UTF-8"),
        ];
        config
            .environment
            .extend(variables.map(|(key, value)| (key.into(), value.into())));
    });
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "work");
    let environment = sandbox.sh("env");
    assert!(
        !environment.contains("hunter2") && !environment.contains("SSH_AUTH"),
        "{environment}"
    );
    assert!(environment.contains("LANG=C.UTF-8"), "{environment}");
    assert_eq!(sandbox.sh("id -un; echo $HOME"), "holm\n/home/holm");
    sandbox.end_cleanly();
}

#[test]
fn objects_of_the_user_cannot_be_written() {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "work");
    let place = sandbox.sh("head -1 .git/objects/info/alternates");
    for command in [
        "touch new",
        "rm -rf *",
        "chmod -R u+w .",
        "mkdir x",
        "mv pack pack2",
    ] {
        let before = holm_testkit::Fingerprint::of(&repository.git_dir().join("objects"));
        drop(sandbox.try_sh(&format!("cd {place} && {command}")));
        let after = holm_testkit::Fingerprint::of(&repository.git_dir().join("objects"));
        assert_eq!(before.changes_to(&after), Vec::<String>::new(), "{command}");
    }
    sandbox.end_cleanly();
}
