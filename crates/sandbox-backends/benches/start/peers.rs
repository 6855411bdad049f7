//! The peers, each with isolation as near to ours as its options allow. What is not installed, or does
//! not answer, is left out and said.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::helper::Helper;
use crate::lab::{LIMITS, Lab, TRUE, find_program, make, run_quietly, time_process};
use crate::schedule::{Case, Rounds};

/// Rounds of peers that take a tenth of a second and more.
const SLOW_ROUNDS: usize = 40;
/// How long the containers live that commands are run in, if nobody removes them.
const CONTAINER_SECONDS: &str = "900";
/// The name of the container that commands are run in.
const LIVING: &str = "holm-bench-living";
const IMAGE: &str = "holm-bench";

pub(crate) struct Peers {
    /// Runs container programs in a mount namespace without the hybrid cgroup2 mount, which crun refuses.
    helper: Helper,
    engines: Vec<Engine>,
    living: Vec<Engine>,
    has_bwrap: bool,
}

/// A container program, as the beginning of its command line.
#[derive(Debug, Clone)]
struct Engine {
    key: &'static str,
    title: String,
    rounds: Rounds,
    run: Vec<String>,
    run_living: Vec<String>,
    exec: Vec<String>,
    remove: Vec<String>,
}

impl Peers {
    pub(crate) fn find(lab: &Lab, notes: &mut Vec<String>) -> Result<Self> {
        let folder = lab.directory.join("peers");
        let rootfs = folder.join("rootfs");
        make_rootfs(&rootfs)?;
        let has_bwrap = find_program("bwrap").is_some();
        if !has_bwrap {
            notes.push("bubblewrap is not installed".into());
        }
        let mut engines = Vec::new();
        type Find = fn(&Path, &Path) -> Result<Engine>;
        let candidates: [(&str, Find); 3] =
            [("crun", crun), ("podman", podman), ("docker", docker)];
        for (program, find) in candidates {
            if !rustix::process::geteuid().is_root() {
                notes.push(format!("{program} is measured as root only"));
            } else if find_program(program).is_none() {
                notes.push(format!("{program} is not installed"));
            } else {
                match find(&folder.join(program), &rootfs) {
                    Ok(engine) => engines.push(engine),
                    Err(error) => notes.push(format!("{program}: left out: {error:#}")),
                }
            }
        }
        let mut helper = Command::new(&lab.floor);
        if rustix::process::geteuid().is_root() {
            helper = Command::new("unshare");
            helper.args(["--mount", "--propagation", "private", "sh", "-c"]);
            let script = "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$0\" \"$@\"";
            helper.arg(script).arg(&lab.floor);
        }
        Ok(Self {
            helper: Helper::start(helper.arg("spawn"))?,
            engines,
            living: Vec::new(),
            has_bwrap,
        })
    }

    pub(crate) fn new_box_cases(peers: &RefCell<Self>) -> Vec<Case<'_>> {
        let mut cases = Vec::new();
        if peers.borrow().has_bwrap {
            let command = RefCell::new(bwrap(&[TRUE]));
            cases.push(Case::new("bwrap", "bubblewrap", Rounds::All, move || {
                time_process(&mut command.borrow_mut())
            }));
        }
        if rustix::process::geteuid().is_root() {
            let title = "unshare(1), all namespaces, own `/proc`, nothing else";
            cases.push(Case::new("unshare", title, Rounds::All, || {
                time_process(Command::new("unshare").args(UNSHARE).arg(TRUE))
            }));
        }
        let engines = peers.borrow().engines.clone();
        for engine in engines {
            let title = format!("{} run", engine.title);
            cases.push(Case::new(engine.key, &title, engine.rounds, move || {
                peers.borrow_mut().helper.run(&engine.run)
            }));
        }
        cases
    }

    /// Starts a container of each kind and gives the cases that run a command in it.
    pub(crate) fn living_cases<'a>(
        peers: &'a RefCell<Self>,
        notes: &mut Vec<String>,
    ) -> Vec<Case<'a>> {
        let mut cases = Vec::new();
        let engines = peers.borrow().engines.clone();
        for engine in engines {
            let started = peers.borrow_mut().helper.run(&engine.run_living);
            if let Err(error) = started {
                notes.push(format!("{} exec: left out: {error:#}", engine.title));
                continue;
            }
            peers.borrow_mut().living.push(engine.clone());
            let key = format!("{}-exec", engine.key);
            let title = format!("{} exec", engine.title);
            cases.push(Case::new(&key, &title, engine.rounds, move || {
                peers.borrow_mut().helper.run(&engine.exec)
            }));
        }
        cases
    }

    pub(crate) fn end_living(&mut self, notes: &mut Vec<String>) {
        for engine in std::mem::take(&mut self.living) {
            if let Err(error) = self.helper.run(&engine.remove) {
                notes.push(format!(
                    "{}: container not removed: {error:#}",
                    engine.title
                ));
            }
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.end_living(&mut Vec::new());
        // Only there if podman was.
        drop(fs::remove_dir_all(run_folder()));
    }
}

/// Where podman keeps what lives as long as its containers: it takes no path above 50 characters.
fn run_folder() -> PathBuf {
    PathBuf::from(format!("/run/holm-bench-{}", std::process::id()))
}

const UNSHARE: [&str; 8] = [
    "--mount",
    "--pid",
    "--net",
    "--ipc",
    "--uts",
    "--cgroup",
    "--fork",
    "--mount-proc",
];

/// Bubblewrap with the namespaces, mounts and lock-down of our box; it has no limits and no overlay.
fn bwrap(argv: &[&str]) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session"]);
    command.args(["--cap-drop", "ALL", "--hostname", "bwrap"]);
    for name in [
        "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt",
    ] {
        let folder = Path::new("/").join(name);
        if let Ok(target) = fs::read_link(&folder) {
            command.arg("--symlink").arg(target).arg(folder);
        } else if folder.is_dir() {
            command.arg("--ro-bind").arg(&folder).arg(&folder);
        }
    }
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    command.args(["--tmpfs", "/dev/shm", "--tmpfs", "/tmp", "--tmpfs", "/run"]);
    command.arg("--").args(argv);
    command
}

fn crun(folder: &Path, rootfs: &Path) -> Result<Engine> {
    let bundles = [
        (folder.join("true"), vec![TRUE]),
        (folder.join("living"), vec!["/bin/sleep", CONTAINER_SECONDS]),
    ];
    for (bundle, argv) in &bundles {
        make(bundle)?;
        run_quietly(Command::new("crun").arg("spec").current_dir(bundle))?;
        let path = bundle.join("config.json");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        config["process"]["args"] = json!(argv);
        config["process"]["terminal"] = json!(false);
        config["root"]["path"] = json!(rootfs);
        config["linux"]["resources"]["memory"] = json!({ "limit": LIMITS.memory_bytes });
        config["linux"]["resources"]["pids"] = json!({ "limit": LIMITS.pids });
        let quota = LIMITS.cpu_millis.map(|millis| u64::from(millis) * 100);
        config["linux"]["resources"]["cpu"] = json!({ "quota": quota, "period": 100_000 });
        fs::write(&path, config.to_string())?;
    }
    let state = folder.join("state");
    let command = |arguments: &[&str]| {
        let mut line = vec!["crun".to_owned(), "--root".to_owned(), text(&state)];
        line.extend(arguments.iter().map(|&argument| argument.to_owned()));
        line
    };
    let [(bundle, _), (living, _)] = &bundles;
    Ok(Engine {
        key: "crun",
        title: version("crun")?,
        rounds: Rounds::All,
        run: command(&["run", "--bundle", &text(bundle), "holm-bench-true"]),
        run_living: command(&["run", "--detach", "--bundle", &text(living), LIVING]),
        exec: command(&["exec", LIVING, TRUE]),
        remove: command(&["delete", "--force", LIVING]),
    })
}

fn podman(folder: &Path, rootfs: &Path) -> Result<Engine> {
    let command = |arguments: &[&str]| {
        let mut line = vec!["podman".to_owned()];
        line.extend(["--root".to_owned(), text(&folder.join("root"))]);
        for name in ["runroot", "tmpdir"] {
            line.extend([format!("--{name}"), text(&run_folder().join(name))]);
        }
        let common = ["--cgroup-manager", "cgroupfs", "--events-backend", "none"];
        line.extend(common.iter().chain(arguments).map(|&it| it.to_owned()));
        line
    };
    let rootfs = text(rootfs);
    let options = [
        "--network=none",
        // Without CAP_SYS_RESOURCE its own defaults are refused.
        "--ulimit=nofile=1024:1024,nproc=1024:1024",
        "--memory=2g",
        "--cpus=2",
        "--pids-limit=1024",
        "--rootfs",
        &rootfs,
    ];
    let sleep = ["/bin/sleep", CONTAINER_SECONDS];
    Ok(Engine {
        key: "podman",
        title: version("podman")?,
        rounds: Rounds::AtMost(SLOW_ROUNDS),
        run: command(&[&["run", "--rm"], &options[..], &[TRUE]].concat()),
        run_living: command(
            &[&["run", "--detach", "--name", LIVING], &options[..], &sleep].concat(),
        ),
        exec: command(&["exec", LIVING, TRUE]),
        remove: command(&["rm", "--force", "--time", "0", LIVING]),
    })
}

fn docker(folder: &Path, rootfs: &Path) -> Result<Engine> {
    run_quietly(Command::new("docker").arg("info"))
        .map_err(|_| anyhow::anyhow!("its daemon does not answer"))?;
    make(folder)?;
    let archive = folder.join("rootfs.tar");
    run_quietly(
        Command::new("tar")
            .arg("--create")
            .arg("--file")
            .arg(&archive)
            .arg("--directory")
            .arg(rootfs)
            .arg("."),
    )?;
    run_quietly(
        Command::new("docker")
            .arg("import")
            .arg(&archive)
            .arg(IMAGE),
    )?;
    let command = |arguments: &[&str]| -> Vec<String> {
        let all = ["docker"].iter().chain(arguments);
        all.map(|&argument| argument.to_owned()).collect()
    };
    let options = [
        "--network=none",
        "--memory=2g",
        "--cpus=2",
        "--pids-limit=1024",
    ];
    let sleep = [IMAGE, "/bin/sleep", CONTAINER_SECONDS];
    Ok(Engine {
        key: "docker",
        title: version("docker")?,
        rounds: Rounds::AtMost(SLOW_ROUNDS),
        run: command(&[&["run", "--rm"], &options[..], &[IMAGE, TRUE]].concat()),
        run_living: command(
            &[&["run", "--detach", "--name", LIVING], &options[..], &sleep].concat(),
        ),
        exec: command(&["exec", LIVING, TRUE]),
        remove: command(&["rm", "--force", LIVING]),
    })
}

/// The first line of `--version`, which names the program too.
fn version(program: &str) -> Result<String> {
    let said = run_quietly(Command::new(program).arg("--version"))?;
    let line = said.lines().next().unwrap_or(program);
    let line = line.split(',').next().unwrap_or(line);
    Ok(line.replace(" version", ""))
}

/// A root with the two programs that the containers run, and the libraries that these need.
fn make_rootfs(rootfs: &Path) -> Result<()> {
    for name in ["dev", "etc", "proc", "run", "sys", "tmp"] {
        make(&rootfs.join(name))?;
    }
    for program in [TRUE, "/bin/sleep"] {
        // A static program has no list.
        let listed = run_quietly(Command::new("ldd").arg(program)).unwrap_or_default();
        let libraries = listed
            .split_ascii_whitespace()
            .filter(|word| word.starts_with('/'));
        for file in libraries.chain([program]) {
            let place = rootfs.join(file.trim_start_matches('/'));
            make(place.parent().context("a file has a folder")?)?;
            fs::copy(file, &place).with_context(|| format!("copy `{file}`"))?;
        }
    }
    if !rootfs.join("bin/true").exists() {
        bail!("`{}` has no `{TRUE}`", rootfs.display());
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
