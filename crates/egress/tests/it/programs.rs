//! Programs as they are in a box: curl, Python and git, which know the gateway by their environment.

use std::path::Path;
use std::process::{Command, Output};

use holm_egress::{Roots, bundle_pem, proxy_environment, trust_environment};

use crate::world::World;
use crate::world::origin::Origin;

const PLACEHOLDER: &str = "dtn_secret_a7f3b2c1";
const VALUE: &str = "sk-real-value";

struct Program {
    command: Command,
    _folder: tempfile::TempDir,
}

/// A program with the environment of a box, or `None` where it is not installed.
fn program(world: &World, name: &str) -> Option<Program> {
    if Command::new(name).arg("--version").output().is_err() {
        println!("skipped: `{name}` is not installed");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca.pem");
    let roots = Roots::none()
        .with_pem(&world.vouched.authority_pem)
        .unwrap();
    std::fs::write(&bundle, bundle_pem(&roots, &world.authority)).unwrap();
    let mut command = Command::new(name);
    command.env_clear();
    for keep in ["PATH", "PYENV_ROOT"] {
        if let Some(value) = std::env::var_os(keep) {
            command.env(keep, value);
        }
    }
    command.env("HOME", folder.path());
    command.envs(proxy_environment(world.proxy.port()));
    command.envs(trust_environment(bundle.to_str().unwrap()));
    Some(Program {
        command,
        _folder: folder,
    })
}

async fn run(mut program: Program) -> Output {
    tokio::task::spawn_blocking(move || program.command.output().unwrap())
        .await
        .unwrap()
}

fn text(output: &Output) -> String {
    let streams = [&output.stdout[..], b"\n", &output.stderr[..]].concat();
    String::from_utf8_lossy(&streams).into_owned()
}

#[tokio::test]
async fn curl_reaches_what_is_allowed() {
    let world = World::new().await;
    let plain = Origin::http().await;
    let encrypted = Origin::https(&world.vouched.config).await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    world.allow("", "api.test,other.test");
    let header = format!("Authorization: Bearer {PLACEHOLDER}");
    let cases = [
        (format!("http://{}/", plain.at("other.test")), PLACEHOLDER),
        (
            format!("https://{}/", encrypted.at("other.test")),
            PLACEHOLDER,
        ),
        (format!("https://{}/", encrypted.at("api.test")), VALUE),
    ];
    for (url, expected) in cases {
        let Some(mut curl) = program(&world, "curl") else {
            return;
        };
        curl.command.args([
            "-sS",
            "--fail-with-body",
            "-H",
            &header,
            "--data",
            "hello",
            &url,
        ]);
        let output = run(curl).await;
        assert!(output.status.success(), "{url}: {}", text(&output));
        assert!(
            text(&output).contains(&format!("authorization: Bearer {expected}")),
            "{url}"
        );
        assert!(text(&output).contains("\n\nhello"), "{url}");
    }
    let Some(mut curl) = program(&world, "curl") else {
        return;
    };
    curl.command
        .args(["-sS", &format!("http://{}/", plain.at("deep.sub.test"))]);
    assert!(text(&run(curl).await).contains("the name is not in `domainAllowList`"));
    let Some(mut curl) = program(&world, "curl") else {
        return;
    };
    curl.command
        .args(["-sS", &format!("https://{}/", encrypted.at("git.test"))]);
    let output = run(curl).await;
    assert!(text(&output).contains("403"), "{}", text(&output));
}

/// Large enough that curl asks first (`Expect: 100-continue`).
#[tokio::test]
async fn curl_uploads_what_is_large() {
    let world = World::new().await;
    let plain = Origin::http().await;
    let encrypted = Origin::https(&world.vouched.config).await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    let content: Vec<u8> = (0..3_000_000_u32)
        .map(|number| number.to_le_bytes()[0])
        .collect();
    std::fs::write(&path, &content).unwrap();
    let urls = [
        format!("http://{}/mirror", plain.at("api.test")),
        format!("https://{}/mirror", encrypted.at("api.test")),
        format!("https://{}/mirror", encrypted.at("other.test")),
    ];
    for url in urls {
        let Some(mut curl) = program(&world, "curl") else {
            return;
        };
        curl.command
            .args(["-sS", "--fail", "-T"])
            .arg(&path)
            .arg(&url);
        let output = run(curl).await;
        assert!(
            output.status.success(),
            "{url}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            output.stdout == content,
            "{url}: {} bytes",
            output.stdout.len()
        );
    }
}

#[tokio::test]
async fn python_reaches_what_is_allowed() {
    let world = World::new().await;
    let plain = Origin::http().await;
    let encrypted = Origin::https(&world.vouched.config).await;
    world.secret(PLACEHOLDER, VALUE, &["api.test"]);
    let script = "
import sys, urllib.request
for url in sys.argv[2:]:
    request = urllib.request.Request(url, headers={'X-Api-Key': sys.argv[1]})
    print('urllib', urllib.request.urlopen(request, timeout=20).read().decode())
try:
    import requests
except ImportError:
    sys.exit()
session = requests.Session()
for url in sys.argv[2:]:
    response = session.get(url, auth=('me', sys.argv[1]), timeout=20)
    response.raise_for_status()
    print('requests', response.text)
";
    let Some(mut python) = program(&world, "python3") else {
        return;
    };
    python.command.args(["-c", script, PLACEHOLDER]);
    python
        .command
        .arg(format!("http://{}/", plain.at("other.test")));
    python
        .command
        .arg(format!("https://{}/", encrypted.at("api.test")));
    let output = run(python).await;
    assert!(output.status.success(), "{}", text(&output));
    let said = text(&output);
    assert!(
        said.contains(&format!("x-api-key: {PLACEHOLDER}")),
        "{said}"
    );
    assert!(said.contains(&format!("x-api-key: {VALUE}")), "{said}");
}

fn git(folder: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
}

#[tokio::test]
async fn git_clones() {
    let world = World::new().await;
    let Some(mut clone) = program(&world, "git") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    git(&source, &["init", "--quiet"]);
    std::fs::write(source.join("hello.txt"), "hello").unwrap();
    git(&source, &["add", "."]);
    git(&source, &["commit", "--quiet", "-m", "one"]);
    git(&source, &["update-server-info"]);
    // Any server of files will do for git's simple protocol.
    let Some(mut server) = program(&world, "python3") else {
        return;
    };
    let script = "
import http.server, os, sys
os.chdir(sys.argv[1])
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
";
    server.command.args(["-c", script]).arg(source.join(".git"));
    server.command.stdout(std::process::Stdio::piped());
    server.command.stderr(std::process::Stdio::null());
    let mut child = server.command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();

    world.allow("", "git.test");
    let target = folder.path().join("clone");
    let url = format!("http://git.test:{}/", line.trim());
    clone.command.args(["clone", "--quiet", &url]).arg(&target);
    let output = run(clone).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(
        std::fs::read_to_string(target.join("hello.txt")).unwrap(),
        "hello"
    );
    assert_eq!(world.handle.counters().refusals, 0);
}
