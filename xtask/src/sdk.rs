//! `cargo xtask sdk`: the official Daytona SDKs, from their registries, against a server of ours.
//!
//! The SDKs are installed below the target folder and stay there. Without a registry the step is skipped, loudly.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::{Context as _, Failure, Outcome, cargo, program, run};
use crate::workspace;

/// What the surface programs were written for; the newest runs too.
const PYTHON_PINNED: &str = "0.226.1";
const TYPESCRIPT_PINNED: &str = "0.218.0";
/// One release of each generation of the protocol, and what it cannot do anywhere (wire.md, section 14).
const PYTHON_OLD: [(&str, &[&str]); 9] = [
    ("0.27.1", &["-list"]),
    ("0.103.0", &["-list"]),
    ("0.112.0", &[]),
    ("0.125.0", &[]),
    ("0.140.0", &[]),
    ("0.155.0", &[]),
    ("0.168.0", &[]),
    ("0.190.0", &[]),
    ("0.207.0", &[]),
];
const NEWEST: &str = "newest";
const START_PATIENCE: Duration = Duration::from_secs(30);
const KEY: &str = "sdk-test-key-0123456789abcdef";

/// Installs the SDKs, starts a server and runs every program against it.
pub(crate) fn run_all() -> Outcome {
    let folder = workspace::target().join("sdk");
    fs::create_dir_all(&folder).context("make the folder of the SDKs")?;
    let Some(installed) = install(&folder)? else {
        return Ok(());
    };
    run(&mut cargo(&["build", "--package", "holm"]))?;
    let registry = Registry::start(&folder)?;
    let server = Server::start()?;
    let mut failed = Vec::new();
    for suite in suites(&installed) {
        eprintln!("--- {}", suite.name);
        let mut command = Command::new(&suite.program);
        command
            .args(&suite.arguments)
            .env("SDK_IMAGE", &registry.image);
        if let Err(failure) = run(server.client(&mut command)) {
            eprintln!("{failure}");
            failed.push(suite.name);
        }
    }
    // Boxes outlive their server: none may be left, also where a check failed half-way.
    if let Some((_, python)) = installed.python.last() {
        run(server.client(Command::new(python).arg("python/cleanup.py")))?;
    }
    server.stop()?;
    registry.stop()?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("SDKs failed: {}", failed.join(", "))))
    }
}

#[derive(Debug)]
struct Suite {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
}

/// Interpreters by the version of the SDK that they see.
#[derive(Debug, Default)]
struct Installed {
    python: Vec<(String, PathBuf)>,
    typescript: Vec<(String, PathBuf)>,
}

fn suites(installed: &Installed) -> Vec<Suite> {
    let mut suites = Vec::new();
    for (version, python) in &installed.python {
        let old = PYTHON_OLD.iter().find(|(known, _)| known == version);
        if let Some((_, left_out)) = old {
            let mut arguments = vec!["python/smoke.py".to_owned()];
            arguments.extend(left_out.iter().map(|word| (*word).to_owned()));
            suites.push(Suite {
                name: format!("Python {version}, smoke"),
                program: python.clone(),
                arguments,
            });
            continue;
        }
        for mode in ["sync", "async"] {
            suites.push(Suite {
                name: format!("Python {version}, {mode}"),
                program: python.clone(),
                arguments: vec!["python/surface.py".to_owned(), mode.to_owned()],
            });
        }
    }
    for (version, script) in &installed.typescript {
        suites.push(Suite {
            name: format!("TypeScript {version}"),
            program: "node".into(),
            arguments: vec![script.display().to_string()],
        });
    }
    suites
}

/// Installs what is missing. None where the registries cannot be reached.
fn install(folder: &Path) -> Outcome<Option<Installed>> {
    let Some(uv) = install_uv(folder) else {
        return Ok(None);
    };
    let mut installed = Installed::default();
    let versions = PYTHON_OLD.iter().map(|(version, _)| *version);
    for version in versions.chain([PYTHON_PINNED, NEWEST]) {
        let python = install_python(folder, &uv, version)?;
        installed.python.push((version.to_owned(), python));
    }
    for version in [TYPESCRIPT_PINNED, NEWEST] {
        let place = install_typescript(folder, version)?;
        // Modules are looked for beside the program that imports them.
        let programs = place.join("programs");
        copy_folder(&workspace::root().join("tests/sdk/typescript"), &programs)?;
        installed
            .typescript
            .push((version.to_owned(), programs.join("surface.mjs")));
    }
    Ok(Some(installed))
}

/// What installs Python packages. None, and said loudly, where the registries cannot be reached.
fn install_uv(folder: &Path) -> Option<PathBuf> {
    let tools = folder.join("tools");
    let uv = tools.join("bin/uv");
    if uv.exists() {
        return Some(uv);
    }
    let made = text(&tools).and_then(|place| {
        run(&mut program("python3", &["-m", "venv", &place]))?;
        run(Command::new(tools.join("bin/pip")).args(["install", "--quiet", "uv"]))
    });
    match made {
        Ok(()) => Some(uv),
        Err(failure) => {
            eprintln!(
                "SKIPPED: the SDKs were NOT installed, because the package index cannot be reached ({failure})"
            );
            None
        }
    }
}

/// Says which interpreter sees this version of the SDK.
fn install_python(folder: &Path, uv: &Path, version: &str) -> Outcome<PathBuf> {
    let place = folder.join(format!("python-{version}"));
    let python = place.join("bin/python");
    // The newest changes: it is asked for each time.
    if !place.join("complete").exists() || version == NEWEST {
        let package = match version {
            NEWEST => "daytona".to_owned(),
            pinned => format!("daytona=={pinned}"),
        };
        run(Command::new(uv)
            .args(["venv", "--quiet", "--clear"])
            .arg(&place))?;
        run(Command::new(uv)
            .args(["pip", "install", "--quiet", "--python"])
            .arg(&python)
            .arg(&package))?;
        fs::write(place.join("complete"), "").context("note that an SDK is installed")?;
    }
    Ok(python)
}

/// Says which folder has this version of the SDK.
fn install_typescript(folder: &Path, version: &str) -> Outcome<PathBuf> {
    let place = folder.join(format!("typescript-{version}"));
    fs::create_dir_all(&place).context("make the folder of an SDK")?;
    if !place.join("complete").exists() || version == NEWEST {
        let package = match version {
            NEWEST => "@daytonaio/sdk@latest".to_owned(),
            pinned => format!("@daytonaio/sdk@{pinned}"),
        };
        run(Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(&place)
            .arg(&package))?;
        fs::write(place.join("complete"), "").context("note that an SDK is installed")?;
    }
    Ok(place)
}

/// One SDK of each language, for measuring.
#[derive(Debug)]
pub(crate) struct ForBenchmarks {
    /// An interpreter that sees the SDK.
    pub(crate) python: PathBuf,
    /// A folder with the SDK's modules and with our programs in `programs`.
    pub(crate) typescript: PathBuf,
}

/// Installs them, where the registries can be reached.
pub(crate) fn install_for_benchmarks() -> Outcome {
    let folder = workspace::target().join("sdk");
    fs::create_dir_all(&folder).context("make the folder of the SDKs")?;
    let Some(uv) = install_uv(&folder) else {
        return Ok(());
    };
    install_python(&folder, &uv, PYTHON_PINNED)?;
    let place = install_typescript(&folder, TYPESCRIPT_PINNED)?;
    copy_folder(
        &workspace::root().join("tests/sdk/bench"),
        &place.join("programs"),
    )
}

/// Those that were installed.
pub(crate) fn installed_for_benchmarks() -> Option<ForBenchmarks> {
    let folder = workspace::target().join("sdk");
    let python = folder.join(format!("python-{PYTHON_PINNED}/bin/python"));
    let typescript = folder.join(format!("typescript-{TYPESCRIPT_PINNED}"));
    let is_there = python.exists() && typescript.join("programs/interactive.mjs").exists();
    is_there.then_some(ForBenchmarks { python, typescript })
}

fn text(path: &Path) -> Outcome<String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("`{}` is not text", path.display())))
}

fn copy_folder(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to).context("make a folder for programs")?;
    for entry in fs::read_dir(from).context("read the programs")? {
        let entry = entry.context("read the programs")?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            fs::copy(entry.path(), to.join(entry.file_name())).context("copy a program")?;
        }
    }
    Ok(())
}

/// A registry on loopback with one image in it.
#[derive(Debug)]
struct Registry {
    child: Child,
    data: PathBuf,
    image: String,
}

impl Registry {
    fn start(folder: &Path) -> Outcome<Self> {
        let data = folder.join("registry");
        fs::create_dir_all(&data).context("make a folder for the registry")?;
        let address = free_address()?;
        let settings = data.join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{address}'}}\n",
            data.join("storage").display()
        );
        fs::write(&settings, text).context("write the registry's settings")?;
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(&settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start docker-registry")?;
        wait_for(address, "the registry")?;
        let program_path = workspace::root().join("tests/sdk/python/push_image.py");
        let name = "sdk/base:1";
        run(Command::new("python3")
            .arg(program_path)
            .args([&format!("http://{address}"), name]))?;
        Ok(Self {
            child,
            data,
            image: format!("{address}/{name}"),
        })
    }

    fn stop(mut self) -> Outcome {
        self.child.kill().context("end the registry")?;
        self.child.wait().context("wait for the registry's end")?;
        fs::remove_dir_all(&self.data).context("remove the registry's data")
    }
}

/// Free a moment ago: nobody else on this machine takes ports for tests by number.
fn free_address() -> Outcome<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .context("find a free port")
}

fn wait_for(address: SocketAddr, what: &str) -> Outcome {
    let until = Instant::now() + START_PATIENCE;
    while TcpStream::connect(address).is_err() {
        if Instant::now() > until {
            return Err(Failure::new(format!("{what} did not start at {address}")));
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(())
}

/// A server of its own, with data that is thrown away.
#[derive(Debug)]
struct Server {
    child: Child,
    address: SocketAddr,
    data: PathBuf,
}

impl Server {
    fn start() -> Outcome<Self> {
        let data = std::env::temp_dir().join(format!("holm-sdk-{}", std::process::id()));
        fs::create_dir_all(&data).context("make a folder for the server")?;
        let address = free_address()?;
        let log = fs::File::create(data.join("log")).context("make the server's log")?;
        let child = Command::new(workspace::target().join("debug/holm"))
            .args(["serve", "--listen", &address.to_string()])
            .args(["--ssh-listen", "127.0.0.1:0", "--data"])
            .arg(data.join("data"))
            .env("HOLM_API_KEY", KEY)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("start the server")?;
        let server = Self {
            child,
            address,
            data,
        };
        wait_for(address, "the server")?;
        Ok(server)
    }

    /// A program that uses this server.
    fn client<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(workspace::root().join("tests/sdk"))
            .env("DAYTONA_API_URL", format!("http://{}/api", self.address))
            .env("DAYTONA_API_KEY", KEY)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("DAYTONA_TARGET")
    }

    /// Asks it to end, and removes what it kept.
    fn stop(mut self) -> Outcome {
        let id = self.child.id().to_string();
        run(&mut program("kill", &["-TERM", &id]))?;
        let status = self.child.wait().context("wait for the server's end")?;
        if !status.success() {
            return Err(Failure::new(format!("the server ended with {status}")));
        }
        fs::remove_dir_all(&self.data).context("remove the server's data")
    }
}
