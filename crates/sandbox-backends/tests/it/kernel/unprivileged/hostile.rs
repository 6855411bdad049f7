//! Traps that an agent sets in its repository, for a git on the host to walk into.

use std::fs;
use std::path::Path;

use holm_sandbox_backends::local::LocalSandbox;
use holm_testkit::{Fingerprint, TestRepository};

use crate::support::{COMMIT_ALL, TestHost, Use};

/// A trap writes here when it is sprung on the host.
fn trap_file(host: &TestHost) -> String {
    let path = host.folder.path().join("home/sprung");
    path.to_str().unwrap().to_owned()
}

fn scene() -> (TestHost, TestRepository, LocalSandbox, String) {
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sandbox = host.boxed(&repository, "work");
    let sprung = trap_file(&host);
    // The same path exists inside, so that a trap can only fail for the right reason.
    sandbox.sh(&format!("mkdir -p $(dirname {sprung}) 2>/dev/null || true"));
    (host, repository, sandbox, sprung)
}

/// Everything a user does with a branch that came home.
fn use_the_branch(repository: &TestRepository, branch: &str) {
    repository.git(["log", "--stat", branch]);
    repository.git(["diff", "main", branch]);
    repository.git(["status"]);
    repository.git(["fetch", "--quiet", "."]);
    repository.git(["checkout", "--quiet", branch]);
    repository.git(["status"]);
    repository.git(["commit", "--quiet", "--allow-empty", "-m", "on top"]);
    repository.git(["gc", "--quiet"]);
}

#[test]
fn hooks_and_settings_written_inside_never_run_on_the_host() {
    let (host, repository, sandbox, sprung) = scene();
    let program = format!("#!/bin/sh\necho sprung >> {sprung}\n");
    sandbox
        .write_blocking(Path::new("trap"), program.as_bytes())
        .unwrap();
    sandbox.sh("chmod +x trap; mkdir -p .git/hooks");
    for hook in [
        "pre-commit",
        "post-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-checkout",
        "post-merge",
        "pre-push",
        "pre-rebase",
        "post-rewrite",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "fsmonitor-watchman",
    ] {
        sandbox.sh(&format!("cp trap .git/hooks/{hook}"));
    }
    for (key, value) in [
        ("core.hooksPath", "$PWD/.git/hooks"),
        ("core.fsmonitor", "$PWD/trap"),
        ("core.sshCommand", "$PWD/trap"),
        ("core.pager", "$PWD/trap"),
        ("core.editor", "$PWD/trap"),
        ("core.askPass", "$PWD/trap"),
        ("core.alternateRefsCommand", "$PWD/trap"),
        ("credential.helper", "!$PWD/trap"),
        ("filter.trap.clean", "$PWD/trap; cat"),
        ("filter.trap.smudge", "$PWD/trap; cat"),
        ("diff.external", "$PWD/trap"),
        ("diff.trap.textconv", "$PWD/trap"),
        ("merge.trap.driver", "$PWD/trap"),
        ("alias.status", "!$PWD/trap"),
        ("gpg.program", "$PWD/trap"),
        ("commit.gpgSign", "true"),
        ("include.path", "$PWD/evil.config"),
        ("uploadpack.packObjectsHook", "$PWD/trap"),
    ] {
        sandbox.sh(&format!("git config {key} \"{value}\""));
    }
    sandbox.sh("printf '* filter=trap diff=trap merge=trap\\n' > .gitattributes");
    sandbox.sh("printf '[core]\\n\\thooksPath = /tmp\\n' > evil.config; echo x > file");
    let report = sandbox.end();
    assert!(report.leftovers.is_empty(), "{report:?}");
    let branch = &report.branches[0].name;
    assert!(repository.files_at(branch).contains(&"file".to_owned()));
    use_the_branch(&repository, branch);
    assert!(
        !Path::new(&sprung).exists(),
        "a trap was sprung on the host"
    );
    host.assert_nothing_is_left();
}

#[test]
fn a_git_folder_that_points_at_the_host_finds_nothing_there() {
    let (host, repository, sandbox, _) = scene();
    let git_dir = repository.git_dir();
    let before = Fingerprint::of(repository.path());
    let shown = git_dir.display();
    let seen = sandbox.sh(&format!("ls {shown} 2>&1 || true"));
    assert!(seen.contains("No such file"), "{seen}");
    for script in [
        format!("echo new > new; rm -rf .git; echo 'gitdir: {shown}' > .git"),
        format!("rm -rf .git; ln -s {shown} .git"),
    ] {
        sandbox.sh(&script);
    }
    let report = sandbox.end();
    assert!(report.leftovers.is_empty(), "{report:?}");
    assert_eq!(repository.file_at("work", "new"), b"new\n");
    let changes = before.changes_to(&Fingerprint::of(repository.path()));
    let expected = [
        ".git/objects",
        ".git/worktrees",
        ".git/refs/heads/work",
        ".git/logs/refs/heads",
    ];
    for change in changes {
        let path = &change[1..];
        assert!(
            expected.iter().any(|start| path.starts_with(start)),
            "{change}"
        );
    }
    host.assert_nothing_is_left();
}

#[test]
fn borrowed_objects_of_the_host_cannot_be_named() {
    // A commit of another repository on the same host must not be smuggled home by its id.
    let (host, repository, sandbox, _) = scene();
    let other = TestRepository::builder()
        .file("secret", "another's secret")
        .build();
    let objects = other.git_dir().join("objects");
    let secret = other.head();
    sandbox.sh(&format!(
        "echo {} >> .git/objects/info/alternates; echo {secret} > .git/refs/heads/work; true",
        objects.display()
    ));
    let report = sandbox.end();
    assert!(report.leftovers.is_empty(), "{report:?}");
    let known = repository.try_git(["cat-file", "-e", &secret]);
    assert!(!known.status.success());
    repository.assert_sound();
    host.assert_nothing_is_left();
}

#[test]
fn a_corrupt_pack_is_refused_and_files_are_saved() {
    let (host, repository, sandbox, _) = scene();
    let before = Fingerprint::of(&repository.git_dir());
    sandbox.sh(&format!(
        "echo new > new; {COMMIT_ALL} -m new; git repack -adq"
    ));
    sandbox.sh(
        "for pack in .git/objects/pack/*.pack; do chmod u+w $pack; \
         printf '\\377\\377\\377\\377\\377\\377\\377\\377' | dd of=$pack bs=1 seek=20 conv=notrunc 2>/dev/null; done",
    );
    let report = sandbox.end();
    assert!(report.leftovers.is_empty(), "{report:?}");
    assert_eq!(repository.file_at("work", "new"), b"new\n");
    repository.assert_sound();
    assert_no_debris(&before, &repository);
    host.assert_nothing_is_left();
}

/// Half a pack or a temporary file would stay in the user's repository for ever.
fn assert_no_debris(before: &Fingerprint, repository: &TestRepository) {
    let changes = before.changes_to(&Fingerprint::of(&repository.git_dir()));
    let debris: Vec<_> = changes
        .iter()
        .filter(|change| change.contains("tmp_"))
        .collect();
    assert!(debris.is_empty(), "{debris:?}");
}

#[test]
fn trees_with_forbidden_names_do_not_come_home() {
    for name in [".git", ".GIT", "..", ".", "a/b", "git~1"] {
        let (host, repository, sandbox, sprung) = scene();
        let before = Fingerprint::of(&repository.git_dir());
        // Written by hand: git itself refuses such names.
        let script = format!(
            "echo new > new; blob=$(printf '#!/bin/sh\\necho sprung >> {sprung}\\n' | git hash-object -w --stdin); \
             raw=$(printf $blob | sed 's/../\\\\x&/g'); \
             inner=$(printf '100755 post-checkout\\0'\"$raw\" | git hash-object -w -t tree --stdin --literally); \
             hooks=$(printf $inner | sed 's/../\\\\x&/g'); \
             git=$(printf '40000 hooks\\0'\"$hooks\" | git hash-object -w -t tree --stdin --literally); \
             top=$(printf $git | sed 's/../\\\\x&/g'); \
             tree=$(printf '40000 {name}\\0'\"$top\" | git hash-object -w -t tree --stdin --literally); \
             commit=$(git commit-tree -p HEAD -m evil $tree); echo $commit > .git/refs/heads/work; echo $commit"
        );
        let exec = holm_sandbox::Exec::new(["bash", "-c", &script]);
        let outcome = sandbox.exec_blocking(exec, None).unwrap();
        assert!(outcome.success(), "{outcome:?} {}", outcome.stderr_text());
        let evil = outcome.stdout_text().trim().to_owned();
        assert_eq!(evil.len(), 40, "{outcome:?} {}", outcome.stderr_text());
        let report = sandbox.end();
        assert!(report.leftovers.is_empty(), "{name}: {report:?}");
        let is_known = repository
            .try_git(["cat-file", "-e", &evil])
            .status
            .success();
        assert!(!is_known, "{name}: the commit came home: {report:?}");
        assert!(!repository.git_dir().join("hooks/post-checkout").exists());
        assert_eq!(repository.file_at("work", "new"), b"new\n", "{name}");
        assert_no_debris(&before, &repository);
        use_the_branch(&repository, "work");
        assert!(!Path::new(&sprung).exists(), "{name}");
        host.assert_nothing_is_left();
    }
}

#[test]
fn a_commit_without_its_objects_does_not_come_home() {
    let (host, repository, sandbox, _) = scene();
    sandbox.sh(&format!("echo new > new; {COMMIT_ALL} -m new"));
    let blob = sandbox.sh("git rev-parse HEAD:new");
    let (folder, file) = blob.split_at(2);
    sandbox.sh(&format!("rm -f .git/objects/{folder}/{file}; rm new"));
    let report = sandbox.end();
    assert!(report.leftovers.is_empty(), "{report:?}");
    repository.assert_sound();
    host.assert_nothing_is_left();
}

#[test]
fn refs_that_are_no_refs_are_not_followed() {
    let (host, repository, sandbox, _) = scene();
    let huge = "a".repeat(200);
    sandbox.sh(&format!(
        "echo new > new; {COMMIT_ALL} -m new; mkdir -p .git/refs/heads/{huge}/{huge}; \
         for i in $(seq 200); do cp .git/refs/heads/work .git/refs/heads/{huge}/$i; done; \
         cp .git/refs/heads/work '.git/refs/heads/..evil'; ln -s /etc/passwd .git/refs/heads/link; \
         echo garbage > .git/refs/heads/garbage"
    ));
    let report = sandbox.end();
    assert!(report.leftovers.is_empty(), "{report:?}");
    assert_eq!(repository.file_at("work", "new"), b"new\n");
    assert!(repository.branches().len() < 300);
    repository.assert_sound();
    host.assert_nothing_is_left();
}

#[test]
fn a_branch_that_is_a_link_is_not_followed() {
    for content in ["ln -sf /etc/passwd", "ln -sf ../../HEAD"] {
        let (host, repository, sandbox, _) = scene();
        sandbox.sh(&format!(
            "echo new > new; rm .git/refs/heads/work; {content} .git/refs/heads/work"
        ));
        let report = sandbox.end();
        assert!(report.leftovers.is_empty(), "{report:?}");
        assert_eq!(repository.file_at("work", "new"), b"new\n");
        host.assert_nothing_is_left();
    }
}

#[test]
fn links_among_the_files_come_home_as_links() {
    let (host, repository, sandbox, _) = scene();
    sandbox.sh(
        "ln -s /etc/shadow secret; ln -s ../../../outside up; rm README.md; ln -s /etc README.md",
    );
    sandbox.end_cleanly();
    let modes = repository.git(["ls-tree", "--format=%(objectmode) %(path)", "work"]);
    for name in ["secret", "up", "README.md"] {
        assert!(modes.contains(&format!("120000 {name}")), "{modes}");
    }
    assert_eq!(repository.file_at("work", "secret"), b"/etc/shadow");
    host.assert_nothing_is_left();
}

#[test]
fn attributes_inside_do_not_choose_the_users_filters() {
    // The user's own filters run for the user's own repository alone.
    let host = TestHost::new();
    let repository = TestRepository::new();
    let sprung = trap_file(&host);
    fs::write(
        host.folder.path().join("home/.gitconfig"),
        format!("[filter \"user\"]\n\tclean = echo clean >> {sprung}; cat\n\tsmudge = echo smudge >> {sprung}; cat\n"),
    )
    .unwrap();
    let sandbox = host.boxed(&repository, "work");
    sandbox.sh(&format!(
        "echo '* filter=user' > .gitattributes; echo x > x; {COMMIT_ALL} -m x; echo y > y"
    ));
    sandbox.end_cleanly();
    assert!(!Path::new(&sprung).exists());
    assert_eq!(repository.file_at("work", "y"), b"y\n");
}
