//! `--sandbox daytona`: the same words as for a local sandbox, over a real `holm serve`.

mod previews;
mod signals;

use std::fs;

use holm_testkit::{GitServer, Push, Served, TestRepository};
use holm_testserver::FaultyProxy;
use serde_json::json;

use crate::server::{KEY, Serving};
use crate::support::{Output, TestEnvironment, processes_with, read_until, token, wait_until};

const TOKEN: &str = "ghp_token-of-the-user";

/// The server's machine; and the user's, which knows the server and GitHub by its configuration.
struct Scene {
    server_env: TestEnvironment,
    git: GitServer,
    repository: TestRepository,
}

impl Scene {
    fn new() -> Self {
        let git = GitServer::new();
        let repository = TestRepository::new();
        let served = Served {
            path: repository.path().to_path_buf(),
            token: Some(TOKEN.to_owned()),
            push: Push::Allowed,
        };
        git.serve("acme/widgets", served);
        Self {
            server_env: TestEnvironment::new().with("HOLM_API_KEY", KEY),
            git,
            repository,
        }
    }

    fn user(&self, server: &Serving<'_>) -> TestEnvironment {
        let env = TestEnvironment::new();
        let configuration = json!({
            "sandboxType": "daytona.cloud",
            "daytona": { "networkAllowList": format!("{}/32", self.git.address().ip()) },
            "github": { "gitUrl": self.git.url(), "apiUrl": self.git.url() },
        });
        fs::create_dir_all(env.path("home/.config/holm")).unwrap();
        let path = env.path("home/.config/holm/config.json");
        fs::write(path, configuration.to_string()).unwrap();
        env.with("DAYTONA_API_KEY", KEY)
            .with("DAYTONA_API_URL", format!("http://{}/api", server.address))
            .with("GITHUB_TOKEN", TOKEN)
    }
}

/// A network before the server that does what a test says.
struct BadDay {
    proxy: FaultyProxy,
    _runtime: tokio::runtime::Runtime,
}

impl BadDay {
    fn before(server: &Serving<'_>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let address = server.address.parse().unwrap();
        Self {
            proxy: runtime.block_on(FaultyProxy::start(address)),
            _runtime: runtime,
        }
    }
}

/// Cells of a table without what differs from run to run.
fn table(output: &Output) -> Vec<Vec<String>> {
    let text = output.text();
    let row = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    text.lines().map(row).collect()
}

#[test]
fn a_command_runs_and_its_work_comes_home() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let env = scene.user(&server);
    let script = "cat README.md; echo new > new; echo said >&2; exit 3";
    let output = env.run([
        "exec",
        "--sandbox",
        "daytona",
        "--repo",
        "acme/widgets",
        "--branch",
        "fix/it",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(output.code(), Some(3), "{output}");
    assert_eq!(output.text(), "# A test");
    let errors = output.errors();
    assert!(
        errors.starts_with("said\nkept your changes on branch fix/it (1 commit)\n"),
        "{errors}"
    );
    let fetch = errors.split("git fetch ").nth(1).unwrap().trim();
    let (bundle, branch) = fetch.split_once(' ').unwrap();
    scene
        .repository
        .git(["fetch", bundle, &format!("{branch}:{branch}")]);
    assert_eq!(scene.repository.file_at("fix/it", "new"), b"new\n");
    assert!(server.client().sandboxes().is_empty());
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn ac_15_a_finished_run_is_pushed_and_told() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let env = scene.user(&server);
    let commit = "git -c user.name=A -c user.email=a@b commit -q --allow-empty -m work";
    let arguments = [
        "exec",
        "--repo",
        "https://github.com/acme/widgets",
        "--branch",
        "work",
        "--push",
        "--intent",
        "fix it",
        "--json",
        "--",
        "sh",
        "-c",
        commit,
    ];
    let output = env.run(arguments);
    assert_eq!(output.code(), Some(0), "{output}");
    let said = output.json();
    assert_eq!(
        said["pushResult"],
        json!({ "pushed": true, "prUrl": "https://github.com/acme/widgets/pull/1" })
    );
    assert_eq!(said["sandbox"]["isolation"], "remote");
    assert_eq!(said["branches"][0]["name"], "work");
    // It is at GitHub: there is nothing to bring home.
    assert!(said["branches"][0].get("bundle").is_none(), "{said}");
    assert_eq!(
        scene.repository.git(["log", "-1", "--format=%s", "work"]),
        "work"
    );
    assert!(scene.git.seen().join("\n").contains("[harness] fix it"));
    assert!(!output.to_string().contains(TOKEN));
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn ac_21_without_a_token_a_push_is_refused_and_the_run_is_not() {
    let scene = Scene::new();
    // A public repository needs none to be cloned.
    let served = Served {
        path: scene.repository.path().to_path_buf(),
        token: None,
        push: Push::Allowed,
    };
    scene.git.serve("acme/widgets", served);
    let server = Serving::start(&scene.server_env, &[]);
    let env = scene.user(&server).without("GITHUB_TOKEN");
    let output = env.run(["exec", "--repo", "acme/widgets", "--push", "--", "true"]);
    assert_eq!(output.code(), Some(0), "{output}");
    assert_eq!(output.errors(), "warning: GITHUB_TOKEN required for push");
    // There is no flag for it, nor for the key of the server.
    for flag in ["--github-token", "--api-key", "--daytona-api-key"] {
        let output = env.run(["exec", flag, "x", "--", "true"]);
        assert_eq!(output.code(), Some(125));
        assert!(output.errors().contains("unexpected argument"), "{output}");
    }
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn sandboxes_that_stay_are_listed_used_and_removed() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let env = scene.user(&server);
    let empty = env.run(["sandbox", "list"]);
    assert!(empty.errors().contains("--sandbox daytona"), "{empty}");
    let made = env.run([
        "sandbox",
        "create",
        "--repo",
        "acme/widgets",
        "--name",
        "one",
    ]);
    assert_eq!(made.text(), "one", "{made}");

    let rows = table(&env.run(["sandbox", "list", "--sandbox", "daytona"]));
    assert_eq!(
        rows[0],
        ["NAME", "STATE", "RUN", "THREAD", "ENVIRONMENT", "CREATED"]
    );
    assert_eq!(
        (rows[1][0].as_str(), rows[1][1].as_str()),
        ("one", "started")
    );
    assert_eq!((rows[1][2].len(), rows[1][3].as_str()), (8, "-"));
    assert_eq!(rows[1][4], "daytona-medium");
    let listed = env.run(["sandbox", "list", "--json"]).json();
    let labels = &listed[0]["labels"];
    assert_eq!(labels["holm.run"], rows[1][2].as_str());
    assert_eq!(labels["holm.environment"], "daytona-medium");
    // Local ones are another matter.
    let local = env.run(["sandbox", "list", "--sandbox", "local", "--json"]);
    assert_eq!(local.json(), json!([]));

    fs::write(env.path("notes"), "from outside\n").unwrap();
    fs::create_dir_all(env.path("folder/deep")).unwrap();
    fs::write(env.path("folder/deep/file"), "deep\n").unwrap();
    env.run(["sandbox", "cp", "notes", "one:docs/"]).success();
    env.run(["sandbox", "cp", "folder", "one:"]).success();
    let read = [
        "sandbox",
        "exec",
        "one",
        "--cwd",
        "docs",
        "--",
        "cat",
        "notes",
        "../folder/deep/file",
    ];
    assert_eq!(env.run(read).success(), "from outside\ndeep");
    env.run(["sandbox", "cp", "one:docs/notes", "copy"])
        .success();
    assert_eq!(fs::read(env.path("copy")).unwrap(), b"from outside\n");
    env.run(["sandbox", "export", "one", "folder", "exported"])
        .success();
    assert_eq!(fs::read(env.path("exported/deep/file")).unwrap(), b"deep\n");
    let input = env.run_with_input(
        ["sandbox", "exec", "one", "--", "wc", "-c"],
        &[7; 1_000_000],
    );
    assert_eq!(input.success(), "1000000");

    let removed = env.run(["sandbox", "rm", "one"]);
    assert!(removed.errors().contains("(1 commit)"), "{removed}");
    assert!(server.client().sandboxes().is_empty());
    let missing = env.run(["sandbox", "rm", "one"]);
    assert_eq!(missing.code(), Some(1));
    assert!(
        missing
            .errors()
            .starts_with("error: there is no sandbox `one`"),
        "{missing}"
    );
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn interrupting_ends_the_command_and_the_sandbox() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let env = scene.user(&server);
    let word = token();
    let script = format!("echo started; bash -c 'sleep 600; :' {word}");
    let mut child = env
        .holm(["exec", "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    read_until(&mut child, "started\n");
    crate::support::send(&child, rustix::process::Signal::INT);
    let output = env.finish(child);
    assert_eq!(output.code(), Some(130), "{output}");
    wait_until("the command has ended", || processes_with(&word) == 0);
    assert!(server.client().sandboxes().is_empty());
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_log_shows_what_is_asked_and_never_a_key() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let env = scene.user(&server);
    let exec = ["exec", "--repo", "acme/widgets", "--", "true"];
    for (level, is_told) in [
        ("trace", true),
        ("5", true),
        ("tungstenite=trace,info", false),
    ] {
        let output = env.holm(exec).env("HOLM_LOG", level).output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{log}");
        assert_eq!(log.contains("TRACE"), is_told, "{log}");
        assert!(!log.contains(KEY) && !log.contains(TOKEN), "{log}");
    }
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn what_the_server_does_not_have_is_told_with_what_to_do() {
    let scene = Scene::new();
    let server = Serving::start(&scene.server_env, &[]);
    let env = scene.user(&server);
    let output = env.run(["exec", "--repo", "acme/nothing", "--", "true"]);
    let errors = output.errors();
    assert!(
        errors.starts_with("error: could not clone `acme/nothing` into the sandbox"),
        "{output}"
    );
    assert!(
        errors.ends_with(
            "hint: see whether its name is right; a private one needs a GITHUB_TOKEN that may read it"
        ),
        "{output}"
    );
    let root = format!("http://{}", server.address);
    let env = env.with("DAYTONA_API_URL", root);
    insta::assert_snapshot!(env.run(["exec", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: could not create a Daytona sandbox
      caused by: could not create a sandbox: Not Found (status 404)

    hint: see whether DAYTONA_API_URL is where the API is: it ends in `/api`
    "#);
    let env = env
        .with("DAYTONA_API_URL", format!("http://{}/api", server.address))
        .with("DAYTONA_API_KEY", "of-another-server");
    insta::assert_snapshot!(env.run(["exec", "--", "true"]), @r#"
    exit code: 125
    ----- stderr
    error: could not create a Daytona sandbox
      caused by: could not create a sandbox: the API key is not valid (status 401)

    hint: see whether DAYTONA_API_KEY is a key of this server
    "#);
    assert!(server.client().sandboxes().is_empty());
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    let env = TestEnvironment::new();
    let exec = |more: &[&str]| {
        let mut arguments = vec!["exec", "--sandbox", "daytona"];
        arguments.extend(more);
        arguments.extend(["--", "true"]);
        env.run(&arguments)
    };
    insta::assert_snapshot!(exec(&[]), @r#"
    exit code: 125
    ----- stderr
    error: Daytona API key required (set DAYTONA_API_KEY or pass opts.daytona.apiKey)

    hint: `holm key create` makes one for a server of your own
    "#);
    let env = TestEnvironment::new()
        .with("DAYTONA_API_KEY", "key")
        .with("DAYTONA_API_URL", "http://127.0.0.1:1/api");
    let exec = |more: &[&str]| {
        let mut arguments = vec!["exec", "--sandbox", "daytona"];
        arguments.extend(more);
        arguments.extend(["--", "true"]);
        env.run(&arguments)
    };
    insta::assert_snapshot!(exec(&[]), @r#"
    exit code: 125
    ----- stderr
    error: could not create a Daytona sandbox
      caused by: could not create a sandbox: no connection to the server
      caused by: error sending request
      caused by: client error (Connect)
      caused by: tcp connect error
      caused by: Connection refused (os error 111)

    hint: see whether the server runs, and what DAYTONA_API_URL says
    "#);
    let elsewhere = TestEnvironment::new()
        .with("DAYTONA_API_KEY", "key")
        .with("DAYTONA_API_URL", "nonsense");
    insta::assert_snapshot!(elsewhere.run(["sandbox", "list", "--sandbox", "daytona"]), @r#"
    exit code: 1
    ----- stderr
    error: could not use the settings for Daytona
      caused by: this API address cannot be used: relative URL without a base; an address like `https://host/api` is needed

    hint: see what DAYTONA_API_URL and DAYTONA_API_KEY say
    "#);
    insta::assert_snapshot!(exec(&["--repo", "."]), @r#"
    exit code: 125
    ----- stderr
    error: Daytona sandbox requires a GitHub repo URL (e.g. org/repo), not a local path

    hint: push the repository to GitHub, or use `--sandbox local`
    "#);
    insta::assert_snapshot!(exec(&["--memory", "4g"]), @r#"
    exit code: 125
    ----- stderr
    error: --memory means nothing with `--sandbox daytona`: the server decides

    hint: leave it out, or use `--sandbox local`
    "#);
    let config = env.path("config.json");
    fs::write(&config, r#"{ "daytona": { "apiKey": "hidden" } }"#).unwrap();
    let env = env.with("HOLM_CONFIG", config);
    insta::assert_snapshot!(env.run(["sandbox", "list"]), @r#"
    exit code: 1
    ----- stderr
    error: `[ROOT]/config.json` holds a key, and others may read it

    hint: chmod 600 [ROOT]/config.json
    "#);
}
