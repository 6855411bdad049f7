//! The host's own root filesystem as the base of a box.
//!
//! The box's `/` is an overlay over a *skeleton*: a small folder tree, made once, that holds the links
//! and empty folders of a root, a home, and `/etc` files that belong to the box. The host's system
//! folders are hung into it read-only. What is not named here does not exist inside: home directories,
//! `/srv`, `/mnt`, `/var`, sockets and whatever else the host keeps under its root.
//!
//! Why not one overlay over `/`: overlayfs refuses an upper layer that lies below one of its lower
//! layers, and without root it refuses a lower layer with mounts below it.
//!
//! Files keep their owners, and root's are nobody's inside: what an unprivileged user of the host may
//! not read, the box may not read either.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};

use crate::account::Account;
use crate::error::{HostFileContext, Result};
use crate::ids::IdRange;
use crate::names::{self, HOSTNAME};
use crate::power::Power;
use crate::skeleton::{self, make_folder, set_mode, write_readable};
use crate::spec::Network;
use crate::step::Owner;

/// Goes into the skeleton's key: a skeleton of another layout is another skeleton.
const LAYOUT_VERSION: u32 = 2;

/// Top-level folders that hold the system, if they are folders on this host.
const SYSTEM_FOLDERS: [&str; 9] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu",
];

/// Files and folders below `/etc` that no box may see even where the host is careless with modes.
const ETC_HIDDEN: [&str; 31] = [
    "NetworkManager/system-connections",
    "apt/auth.conf",
    "apt/auth.conf.d",
    "credstore",
    "credstore.encrypted",
    "crypttab",
    "docker",
    "exports",
    "fstab",
    "gshadow",
    "gshadow-",
    "ipsec.secrets",
    "krb5.keytab",
    "kubernetes",
    "letsencrypt",
    "machine-id",
    "mysql/debian.cnf",
    "netrc",
    "opasswd",
    "ppp",
    "printers.conf",
    "rancher",
    "security/opasswd",
    "shadow",
    "shadow-",
    "ssh/sshd_config",
    "ssl/private",
    "sudoers",
    "sudoers.d",
    "wireguard",
    "wpa_supplicant",
];

/// A folder below a user's home that holds programs and nothing personal.
#[derive(Debug, Clone, Copy)]
pub struct Toolchain {
    /// Relative to the home.
    pub folder: &'static str,
    /// The variable through which its programs find it from another home.
    pub variable: Option<&'static str>,
}

/// Shown read-only when they exist in the caller's home. Folders that also hold credentials or the
/// user's own sources (`.cargo`, `go`) are shown in parts, or not at all (`.dotnet` holds private keys).
pub const TOOLCHAINS: [Toolchain; 19] = [
    toolchain(".asdf", Some("ASDF_DATA_DIR")),
    toolchain(".bun/bin", None),
    toolchain(".cargo/bin", None),
    toolchain(".deno/bin", None),
    toolchain(".elan", Some("ELAN_HOME")),
    toolchain(".ghcup/bin", None),
    toolchain(".ghcup/ghc", None),
    toolchain(".juliaup", None),
    toolchain(".local/bin", None),
    toolchain(".local/share/mise/installs", None),
    toolchain(".local/share/uv/python", None),
    toolchain(".nvm", Some("NVM_DIR")),
    toolchain(".pyenv", Some("PYENV_ROOT")),
    toolchain(".rbenv", Some("RBENV_ROOT")),
    toolchain(".rustup", Some("RUSTUP_HOME")),
    toolchain(".sdkman/candidates", None),
    toolchain(".volta", Some("VOLTA_HOME")),
    toolchain("go/bin", None),
    toolchain("sdk", None),
];

const fn toolchain(folder: &'static str, variable: Option<&'static str>) -> Toolchain {
    Toolchain { folder, variable }
}

/// What the base is made from.
#[derive(Debug, Clone)]
pub struct BaseOptions {
    /// Where skeletons are kept.
    pub directory: PathBuf,
    pub network: Network,
    /// Whose the home of the box's user is; boxes of another range need another base.
    pub ids: IdRange,
    /// The box's user.
    pub account: Account,
    /// The home whose toolchains are shown.
    pub toolchain_home: Option<PathBuf>,
}

/// A base ready for any number of boxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostBase {
    /// The lowest layer of a box's root.
    pub root_layer: PathBuf,
    /// Lies over the host's `/etc`.
    pub etc_layer: PathBuf,
    /// An empty folder: an overlay needs two layers, and shows no socket of the lower one.
    pub empty_layer: PathBuf,
    /// System folders shown by read-only bind mounts.
    pub system: Vec<PathBuf>,
    /// Shown through a read-only overlay, because software may keep sockets there.
    pub optional: Vec<PathBuf>,
    /// Folders of toolchains, shown by read-only bind mounts.
    pub toolchains: Vec<ShownToolchain>,
    /// The range that the home belongs to.
    pub ids: IdRange,
    /// The box's user.
    pub account: Account,
}

/// A toolchain that exists on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownToolchain {
    pub path: PathBuf,
    pub variable: Option<&'static str>,
}

impl HostBase {
    /// Finds or makes the skeleton and looks up what this host has.
    pub fn prepare(options: &BaseOptions, power: Power) -> Result<Self> {
        let plan = SkeletonPlan::read(options, power)?;
        let skeleton = skeleton::find_or_make(&options.directory, "skeleton", &plan, |new| {
            plan.write_into(new)
        })?;
        // A link such as /bin is part of the skeleton; a real folder is hung in.
        let is_folder =
            |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).filter(is_folder).collect();
        let toolchains = match &options.toolchain_home {
            Some(home) => existing_toolchains(home),
            None => Vec::new(),
        };
        Ok(Self {
            root_layer: skeleton.join("root"),
            etc_layer: skeleton.join("etc"),
            empty_layer: skeleton.join("empty"),
            system: paths(&SYSTEM_FOLDERS),
            optional: paths(&["/opt", "/usr/local"]),
            toolchains,
            ids: options.ids,
            account: options.account.clone(),
        })
    }

    /// Whether a folder of the host can be seen inside, at the same path.
    pub fn shows(&self, path: &Path) -> bool {
        let links = ["/bin", "/sbin", "/lib", "/lib64"].iter().map(Path::new);
        let toolchains = self.toolchains.iter().map(|shown| shown.path.as_path());
        self.system
            .iter()
            .chain(&self.optional)
            .map(PathBuf::as_path)
            .chain(links)
            .chain(toolchains)
            .any(|shown| path.starts_with(shown))
    }
}

fn existing_toolchains(home: &Path) -> Vec<ShownToolchain> {
    let shown = TOOLCHAINS.iter().map(|toolchain| ShownToolchain {
        path: home.join(toolchain.folder),
        variable: toolchain.variable,
    });
    shown.filter(|toolchain| toolchain.path.is_dir()).collect()
}

/// Everything that a skeleton is made of, read from the host.
#[derive(Debug, Hash)]
struct SkeletonPlan {
    version: u32,
    home: PathBuf,
    links: Vec<(PathBuf, PathBuf)>,
    folders: Vec<PathBuf>,
    passwd: String,
    group: String,
    hosts: String,
    resolv_conf: String,
    home_owner: Owner,
    modes: Vec<(PathBuf, u32)>,
}

impl SkeletonPlan {
    fn read(options: &BaseOptions, power: Power) -> Result<Self> {
        let mut links = Vec::new();
        let mut folders: Vec<PathBuf> = [
            "dev", "etc", "home", "opt", "proc", "root", "run", "sys", "tmp", "var",
        ]
        .iter()
        .map(PathBuf::from)
        .collect();
        for path in SYSTEM_FOLDERS.iter().map(Path::new) {
            let Ok(found) = fs::symlink_metadata(path) else {
                continue;
            };
            let inside = path.strip_prefix("/").unwrap_or(path).to_path_buf();
            if found.is_symlink() {
                links.push((inside, fs::read_link(path).doing("read the link", path)?));
            } else if found.is_dir() {
                folders.push(inside);
            }
        }
        let read = |path: &str| fs::read(path).unwrap_or_default();
        Ok(Self {
            version: LAYOUT_VERSION,
            home: options.account.home().to_path_buf(),
            links,
            folders,
            passwd: options
                .account
                .passwd(&String::from_utf8_lossy(&read("/etc/passwd"))),
            group: options
                .account
                .group(&String::from_utf8_lossy(&read("/etc/group"))),
            hosts: names::hosts_file(HOSTNAME),
            resolv_conf: names::resolver_file(options.network),
            home_owner: power.box_user(options.ids),
            modes: layer_modes(),
        })
    }

    fn write_into(&self, directory: &Path) -> Result<()> {
        let root = directory.join("root");
        for folder in &self.folders {
            make_folder(&root.join(folder), 0o755)?;
        }
        for folder in ["var/cache", "var/lib", "var/log"] {
            make_folder(&root.join(folder), 0o755)?;
        }
        for folder in ["tmp", "var/tmp"] {
            make_folder(&root.join(folder), 0o1777)?;
        }
        for (link, target) in &self.links {
            symlink(target, root.join(link)).doing("make link", root.join(link))?;
        }
        symlink("/run", root.join("var/run")).doing("make link", root.join("var/run"))?;
        let home = root.join(self.home.strip_prefix("/").unwrap_or(&self.home));
        make_folder(&home, 0o755)?;
        let Owner { uid, gid } = self.home_owner;
        chown(&home, Some(uid), Some(gid)).doing("change the owner of", &home)?;

        let etc = directory.join("etc");
        make_folder(&etc, 0o755)?;
        for (name, text) in [
            ("passwd", &self.passwd),
            ("group", &self.group),
            ("hosts", &self.hosts),
            ("resolv.conf", &self.resolv_conf),
            ("hostname", &format!("{HOSTNAME}\n")),
        ] {
            write_readable(&etc.join(name), text)?;
        }
        for hidden in ETC_HIDDEN {
            hide(&etc, Path::new(hidden))?;
        }
        make_folder(&directory.join("empty"), 0o755)?;
        self.modes
            .iter()
            .try_for_each(|(layer, mode)| set_mode(&directory.join(layer), *mode))
    }
}

/// The folders of layers that lie over folders of the host, with the mode of what they lie over.
///
/// A merged folder has the mode of its uppermost layer: one that the host closes to others would be
/// open inside otherwise.
fn layer_modes() -> Vec<(PathBuf, u32)> {
    let mut pairs = vec![
        (PathBuf::from("empty"), PathBuf::from("/opt")),
        (PathBuf::from("etc"), PathBuf::from("/etc")),
    ];
    for parent in ETC_HIDDEN
        .iter()
        .filter_map(|hidden| Path::new(hidden).parent())
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        pairs.push((
            Path::new("etc").join(parent),
            Path::new("/etc").join(parent),
        ));
    }
    let mode_of = |(layer, folder): (PathBuf, PathBuf)| {
        let mode = fs::metadata(folder).ok()?.permissions().mode();
        Some((layer, closed_alike(mode)))
    };
    pairs.into_iter().filter_map(mode_of).collect()
}

/// What others may do stays; the owner is the one who makes the skeleton and has to be able to remove it.
fn closed_alike(mode: u32) -> u32 {
    (mode & 0o077) | 0o700
}

/// Puts a whiteout into a layer: overlayfs then shows nothing by that name. Needs no privilege.
fn hide(layer: &Path, name: &Path) -> Result<()> {
    let path = layer.join(name);
    if let Some(parent) = path.parent() {
        make_folder(parent, 0o755)?;
    }
    let made = rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0);
    made.map_err(io::Error::from).doing("make whiteout", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_as_closed_as_what_it_lies_over() {
        assert_eq!(closed_alike(0o40_755), 0o755);
        assert_eq!(closed_alike(0o40_700), 0o700);
        assert_eq!(closed_alike(0o40_510), 0o710);
        let modes = layer_modes();
        let layers: Vec<&Path> = modes.iter().map(|(layer, _)| layer.as_path()).collect();
        assert!(layers.contains(&Path::new("etc")), "{layers:?}");
        for (layer, mode) in &modes {
            let Ok(inside) = layer.strip_prefix("etc") else {
                continue;
            };
            let host = fs::metadata(Path::new("/etc").join(inside)).unwrap();
            assert_eq!(
                mode & 0o077,
                host.permissions().mode() & 0o077,
                "{}",
                layer.display()
            );
        }
    }

    #[test]
    fn a_skeleton_is_made_once_and_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let options = BaseOptions {
            directory: directory.path().to_path_buf(),
            network: Network::None,
            ids: IdRange::FIRST,
            account: Account::holm(),
            toolchain_home: None,
        };
        let power = Power::User {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        let first = HostBase::prepare(&options, power).unwrap();
        let second = HostBase::prepare(&options, power).unwrap();
        assert_eq!(first, second);
        assert!(first.root_layer.join("home/holm").is_dir());
        assert!(fs::symlink_metadata(first.etc_layer.join("shadow")).is_ok());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(first.shows(Path::new("/usr/bin")));
        assert!(!first.shows(Path::new("/home/alice/bin")));
    }
}
