//! `git status` in a large checkout: asked before looked, and never wrong.

use holm_testkit::TestRepository;

use crate::support::{TestHost, Use};

/// Large enough for git to ask whether anything has changed.
fn large() -> TestRepository {
    let repository = TestRepository::new();
    for number in 0..400 {
        repository.write(
            format!("src/d{}/f{number}.txt", number % 20),
            format!("{number}\n"),
        );
    }
    repository.commit("many files");
    repository
}

#[test]
fn an_untouched_checkout_is_clean_without_a_look_at_its_files() {
    let host = TestHost::new();
    let repository = large();
    let sandbox = host.boxed(&repository, "work");
    let trace = "GIT_TRACE2_PERF=1 git status --short 2>&1 | grep -o 'sum_lstat:[0-9]*' | sort -u";
    assert_eq!(sandbox.sh(trace), "sum_lstat:0");
    sandbox.end_cleanly();
}

#[test]
fn every_kind_of_change_is_seen() {
    let host = TestHost::new();
    let repository = large();
    let changes = [
        ("echo x > new", "?? new"),
        ("echo x > src/d1/new", "?? src/d1/new"),
        ("echo x >> src/d1/f1.txt", " M src/d1/f1.txt"),
        ("rm src/d1/f1.txt", " D src/d1/f1.txt"),
        ("touch '*'", "?? *"),
        ("ln -s /nonexistent .x", "?? .x"),
        ("echo x > ..y", "?? ..y"),
        ("chmod +x src/d1/f1.txt", " M src/d1/f1.txt"),
    ];
    for (number, (change, seen)) in changes.into_iter().enumerate() {
        let sandbox = host.boxed(&repository, &format!("work-{number}"));
        assert_eq!(sandbox.sh("git status --short"), "", "before {change}");
        assert_eq!(
            sandbox
                .sh(&format!("{change}; git status --short"))
                .trim_end(),
            seen.trim_end()
        );
        sandbox.end_cleanly();
    }
}

#[test]
fn a_folder_that_was_replaced_is_seen_file_by_file() {
    let host = TestHost::new();
    let repository = large();
    let sandbox = host.boxed(&repository, "work");
    sandbox.sh("rm -rf src/d2; mkdir src/d2; echo x > src/d2/other; mv src/d3 src/moved");
    let states = sandbox.sh("git status --short | cut -c1-2 | sort | uniq -c | tr -s ' '");
    assert_eq!(states.trim(), "40 D\n 2 ??");
    sandbox.end_cleanly();
}

#[test]
fn what_came_and_went_is_not_remembered_wrongly() {
    let host = TestHost::new();
    let repository = large();
    let sandbox = host.boxed(&repository, "work");
    assert_eq!(sandbox.sh("touch a; git status --short"), "?? a");
    assert_eq!(sandbox.sh("rm a; git status --short"), "");
    assert_eq!(
        sandbox.sh("touch b; git add b; rm b; git status --short"),
        "AD b"
    );
    assert_eq!(sandbox.sh("git reset -q; git status --short"), "");
    sandbox.end_cleanly();
}
