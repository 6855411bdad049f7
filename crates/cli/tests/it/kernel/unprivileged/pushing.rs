//! `holm exec --push` on this machine: a real git, a bare repository as the remote, and a `gh` that tells what it was asked.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::support::{Output, TestEnvironment};

const TOKEN: &str = "ghp_token-of-the-user";
const URL: &str = "https://github.com/acme/widgets/pull/7";

/// A project whose origin is a bare repository.
fn environment() -> TestEnvironment {
    let env = TestEnvironment::new().with("GITHUB_TOKEN", TOKEN);
    env.repository("project");
    env.git("", &["clone", "--quiet", "--bare", "project", "origin.git"]);
    let origin = env.path("origin.git");
    env.git(
        "project",
        &["remote", "add", "origin", origin.to_str().unwrap()],
    );
    env
}

/// With a `gh` of the host that does this, and before that writes down where it is and what it was told.
fn with_gh(env: TestEnvironment, script: &str) -> TestEnvironment {
    let (folder, said) = (env.path("bin"), env.path("gh-said"));
    fs::create_dir(&folder).unwrap();
    let gh = folder.join("gh");
    let text = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$PWD\" \"$GITHUB_TOKEN\" \"$@\" > {}\n{script}\n",
        said.display()
    );
    fs::write(&gh, text).unwrap();
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    env.with("PATH", path)
}

fn run(env: &TestEnvironment, more: &[&str], script: &str) -> Output {
    let mut arguments = vec!["exec", "--repo", "project", "--branch", "work", "--push"];
    arguments.extend(more);
    arguments.extend(["--", "sh", "-c", script]);
    env.run(arguments)
}

#[test]
fn ac_15_a_local_run_is_pushed_with_all_its_work_and_gh_opens_a_pull_request() {
    let env = with_gh(environment(), &format!("echo Creating; echo {URL}"));
    // Some of the work is committed and some is not.
    let script = "echo 1 > one; git add one; git commit -qm one; echo 2 > two";
    let output = run(&env, &["--intent", "fix it", "--json"], script);
    assert_eq!(output.code(), Some(0), "{output}");
    let said = output.json();
    assert_eq!(said["pushResult"], json!({ "pushed": true, "prUrl": URL }));
    assert_eq!(
        env.git(
            "origin.git",
            &["log", "--name-only", "--format=", "main..work"]
        ),
        "two\none"
    );
    let tip = |folder| env.git(folder, &["rev-parse", "work"]);
    assert_eq!(tip("origin.git"), tip("project"));
    assert_eq!(said["branches"][0]["commit"], tip("project").as_str());
    assert!(
        output
            .errors()
            .ends_with(&format!("pushed branch work\nopened pull request {URL}")),
        "{output}"
    );
    // On the machine itself, in the user's repository: in the box the token could be read by what an agent left there.
    let asked = fs::read_to_string(env.path("gh-said")).unwrap();
    let run_id = said["sandbox"]["id"].as_str().unwrap();
    let project = env.path("project");
    let expected = format!(
        "{}\n{TOKEN}\npr\ncreate\n--title\n[harness] fix it\n--body\nBlueprint: exec\nBranch: work\nRun: {run_id}\n\
         --head\nwork\n",
        project.display()
    );
    assert_eq!(asked, expected);
    assert!(!output.to_string().contains(TOKEN));
    let config = fs::read_to_string(project.join(".git/config")).unwrap();
    assert!(!config.contains(TOKEN), "{config}");
    env.assert_clean();
}

#[test]
fn ac_16_what_cannot_be_pushed_is_told_once_and_the_run_goes_on() {
    let env = environment();
    env.git(
        "project",
        &["remote", "set-url", "origin", "/nowhere/at/all.git"],
    );
    let output = run(&env, &[], "echo new > new; exit 3");
    assert_eq!(output.code(), Some(3), "{output}");
    let errors = output.errors();
    assert_eq!(errors.matches("git push failed: ").count(), 1, "{errors}");
    assert!(errors.contains("/nowhere/at/all.git"), "{errors}");
    assert!(
        errors.contains("kept your changes on branch work"),
        "{errors}"
    );
    assert_eq!(env.git("project", &["show", "work:new"]), "new");
    env.assert_clean();
}

#[test]
fn a_pull_request_that_fails_is_told_and_the_push_stays() {
    let env = environment();
    let output = run(&env, &["--json"], "echo new > new");
    assert_eq!(
        output.json()["pushResult"],
        json!({ "pushed": true, "error": "PR creation failed: gh is not installed" })
    );
    let script = format!("echo 'no rights for {TOKEN}' >&2; exit 1");
    let env = with_gh(environment(), &script);
    let output = run(&env, &[], "echo new > new");
    insta::assert_snapshot!(output, @r#"
    exit code: 0
    ----- stderr
    kept your changes on branch work (1 commit)
    hint: see them: git -C project diff HEAD...work
    pushed branch work
    warning: PR creation failed: no rights for [REDACTED:TOKEN]
    "#);
    assert_eq!(env.git("origin.git", &["show", "work:new"]), "new");
}

#[test]
fn ac_21_without_a_token_nothing_is_pushed_and_thrown_away_work_never_is() {
    let env = environment();
    let output = run(
        &env,
        &["--discard"],
        "echo 1 > one; git add one; git commit -qm one; echo 2 > two",
    );
    assert_eq!(output.code(), Some(0), "{output}");
    assert_eq!(
        env.git(
            "origin.git",
            &["log", "--name-only", "--format=", "main..work"]
        ),
        "one"
    );
    let env = environment().without("GITHUB_TOKEN");
    let output = run(&env, &[], "echo new > new");
    insta::assert_snapshot!(output, @r#"
    exit code: 0
    ----- stderr
    kept your changes on branch work (1 commit)
    hint: see them: git -C project diff HEAD...work
    warning: GITHUB_TOKEN required for push
    "#);
    assert_eq!(env.git("origin.git", &["branch", "--list", "work"]), "");
}
