//! `cargo xtask setup`: installs what the tests, or the benchmarks, call and this machine lacks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{self, Context as _, Failure, Outcome, cargo, program};
use crate::sdk;
use crate::workspace;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Tests,
    /// All of `Tests`, and the peers that the benchmarks compare with.
    Benchmarks,
}

/// A Debian package, and the program by which one sees that it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Package {
    name: &'static str,
    program: &'static str,
    purpose: Purpose,
}

const fn package(name: &'static str, program: &'static str, purpose: Purpose) -> Package {
    Package {
        name,
        program,
        purpose,
    }
}

const PACKAGES: &[Package] = &[
    package("git", "git", Purpose::Tests),
    // The allocator of the program is built with it.
    package("make", "make", Purpose::Tests),
    // A sandbox inside a box: the seccomp profile `nested` is tested with it.
    package("bubblewrap", "bwrap", Purpose::Tests),
    // Images: pulls are tested against a registry on loopback.
    package("docker-registry", "docker-registry", Purpose::Tests),
    package("debootstrap", "debootstrap", Purpose::Tests),
    package("buildah", "buildah", Purpose::Tests),
    // A language server that the toolbox starts; the SDK's programs and npm.
    package("python3-pylsp", "pylsp", Purpose::Tests),
    package("python3-venv", "python3", Purpose::Tests),
    package("npm", "npm", Purpose::Tests),
    package("openssh-client", "ssh", Purpose::Tests),
    // Threads of several servers: tests start servers of their own.
    package("postgresql", "postgres", Purpose::Tests),
    // Boxes on the host's system have the host's.
    package(
        "openssh-sftp-server",
        "/usr/lib/openssh/sftp-server",
        Purpose::Tests,
    ),
    // The root file system of many machines is not fit for measuring (see `bench`).
    package("xfsprogs", "mkfs.xfs", Purpose::Benchmarks),
    package("crun", "crun", Purpose::Benchmarks),
    package("podman", "podman", Purpose::Benchmarks),
    package("nginx-light", "nginx", Purpose::Benchmarks),
];

/// What has to be done about the missing packages on this machine.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Install(Vec<&'static str>),
    /// We may not: this is the command for someone who may.
    AskAdministrator(String),
    /// There is no apt: these are the packages' names on Debian.
    AskOwner(Vec<&'static str>),
}

#[derive(Debug, Clone, Copy)]
struct Machine {
    user: UserKind,
    installer: Installer,
}

#[derive(Debug, Clone, Copy)]
enum UserKind {
    Root,
    Ordinary,
}

#[derive(Debug, Clone, Copy)]
enum Installer {
    Apt,
    Unknown,
}

fn plan(missing: &[Package], machine: Machine) -> Plan {
    let names: Vec<&'static str> = missing.iter().map(|package| package.name).collect();
    if names.is_empty() {
        return Plan::Nothing;
    }
    match (machine.installer, machine.user) {
        (Installer::Apt, UserKind::Root) => Plan::Install(names),
        (Installer::Apt, UserKind::Ordinary) => Plan::AskAdministrator(format!(
            "sudo apt-get update && sudo apt-get install --yes --no-install-recommends {}",
            names.join(" ")
        )),
        (Installer::Unknown, UserKind::Root | UserKind::Ordinary) => Plan::AskOwner(names),
    }
}

fn is_for(package: Package, purpose: Purpose) -> bool {
    match purpose {
        Purpose::Tests => package.purpose == Purpose::Tests,
        Purpose::Benchmarks => true,
    }
}

pub(crate) fn run(purpose: Purpose) -> Outcome {
    let missing: Vec<Package> = PACKAGES
        .iter()
        .copied()
        .filter(|package| is_for(*package, purpose))
        .filter(|package| !is_there(*package))
        .collect();
    let machine = Machine {
        user: if workspace::is_root() {
            UserKind::Root
        } else {
            UserKind::Ordinary
        },
        installer: match workspace::find_program("apt-get") {
            Some(_) => Installer::Apt,
            None => Installer::Unknown,
        },
    };
    match plan(&missing, machine) {
        Plan::Nothing => {}
        Plan::Install(names) => install(&names)?,
        Plan::AskAdministrator(command) => {
            return Err(Failure::new(format!(
                "programs are missing; an administrator of this machine has to run\n\n    {command}\n"
            )));
        }
        Plan::AskOwner(names) => {
            return Err(Failure::new(format!(
                "programs are missing; install what Debian calls {}",
                names.join(", ")
            )));
        }
    }
    if purpose == Purpose::Benchmarks {
        sdk::install_for_benchmarks()?;
        install_stream_server()?;
    }
    ensure_nextest()
}

/// Debian keeps the programs of Postgres apart from all others, by version.
fn is_there(package: Package) -> bool {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut folders = versions.flatten().map(|version| version.path().join("bin"));
    workspace::find_program(package.program).is_some()
        || folders.any(|folder| folder.join(package.program).is_file())
}

/// While it is there, installing Postgres makes no database of the system and starts none: tests start their own.
const NO_CLUSTER: &str = "/etc/postgresql-common/createcluster.d/holm.conf";

fn install(names: &[&str]) -> Outcome {
    if !names.contains(&"postgresql") {
        return install_packages(names);
    }
    if let Some(folder) = Path::new(NO_CLUSTER).parent() {
        fs::create_dir_all(folder).context(format_args!("create `{}`", folder.display()))?;
    }
    fs::write(NO_CLUSTER, "create_main_cluster = false\n")
        .context(format_args!("write `{NO_CLUSTER}`"))?;
    let outcome = install_packages(names);
    fs::remove_file(NO_CLUSTER).context(format_args!("remove `{NO_CLUSTER}`"))?;
    outcome
}

fn install_packages(names: &[&str]) -> Outcome {
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(names);
    if !has_package_lists() {
        return update().and_then(|()| apt_get(&arguments));
    }
    // Lists may be too old for what they point to; then fresh ones help.
    apt_get(&arguments).or_else(|_| update().and_then(|()| apt_get(&arguments)))
}

fn update() -> Outcome {
    apt_get(&["update"])
}

fn apt_get(arguments: &[&str]) -> Outcome {
    process::run(program("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn has_package_lists() -> bool {
    let Ok(entries) = fs::read_dir("/var/lib/apt/lists") else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

/// Ready-made binaries cannot be fetched everywhere, so it is compiled, once.
fn ensure_nextest() -> Outcome {
    if workspace::find_program("cargo-nextest").is_some() {
        return Ok(());
    }
    process::run(&mut cargo(&["install", "cargo-nextest", "--locked"]))
}

/// The official server of durable streams, with which ours is compared.
pub(crate) fn stream_server() -> PathBuf {
    peers().join("bin/durable-streams-server")
}

fn peers() -> PathBuf {
    workspace::target().join("bench-peers")
}

fn install_stream_server() -> Outcome {
    if stream_server().is_file() {
        return Ok(());
    }
    let mut install = cargo(&["install", "durable-streams", "--version", "=0.1.5"]);
    process::run(install.arg("--locked").arg("--root").arg(peers()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIT: Package = package("git", "git", Purpose::Tests);
    const PODMAN: Package = package("podman", "podman", Purpose::Benchmarks);

    #[test]
    fn root_installs_others_ask() {
        let root = Machine {
            user: UserKind::Root,
            installer: Installer::Apt,
        };
        let ordinary = Machine {
            user: UserKind::Ordinary,
            installer: Installer::Apt,
        };
        let elsewhere = Machine {
            user: UserKind::Root,
            installer: Installer::Unknown,
        };
        assert_eq!(plan(&[], ordinary), Plan::Nothing);
        assert_eq!(
            plan(&[GIT, PODMAN], root),
            Plan::Install(vec!["git", "podman"])
        );
        assert_eq!(
            plan(&[GIT], ordinary),
            Plan::AskAdministrator(
                "sudo apt-get update && sudo apt-get install --yes --no-install-recommends git"
                    .to_owned()
            )
        );
        assert_eq!(plan(&[GIT], elsewhere), Plan::AskOwner(vec!["git"]));
    }

    #[test]
    fn tests_need_no_peers() {
        assert!(is_for(GIT, Purpose::Tests));
        assert!(is_for(GIT, Purpose::Benchmarks));
        assert!(!is_for(PODMAN, Purpose::Tests));
        assert!(is_for(PODMAN, Purpose::Benchmarks));
    }
}
