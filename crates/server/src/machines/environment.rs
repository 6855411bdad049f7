//! What commands of a box start with: variables and a folder.
//!
//! ```text
//! defaults ◀── what the image says ◀── the way out ◀── what the sandbox was made with
//! ```
//!
//! The image's word is taken for everything but the way out, without which its programs would reach nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use holm_egress::{proxy_environment, trust_environment};
use holm_images::ImageConfig;
use holm_sandbox_linux::files::{ConfinedDir, EntryKind};
use holm_sandbox_linux::{Base, HostBase};

use super::account::Account;
use super::outside::{BUNDLE_PLACE, GATEWAY_PORT};
use crate::records::SandboxRecord;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// All variables of an image together: more leave a command no room for its arguments.
const IMAGE_VARIABLES_BYTES_MAX: usize = 128 * 1024;

/// What an image says about its processes, as far as it can be used.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ImageSays {
    variables: BTreeMap<String, String>,
    work_dir: Option<PathBuf>,
}

impl ImageSays {
    pub(super) fn of(config: &ImageConfig) -> Self {
        let mut says = Self {
            variables: BTreeMap::new(),
            work_dir: config
                .working_dir
                .as_ref()
                .filter(|path| path.starts_with('/') && !path.contains('\0'))
                .map(PathBuf::from),
        };
        let mut bytes = 0;
        for entry in &config.env {
            let Some((name, value)) = entry.split_once('=') else {
                continue;
            };
            bytes += entry.len();
            if !name.is_empty() && !entry.contains('\0') && bytes <= IMAGE_VARIABLES_BYTES_MAX {
                says.variables.insert(name.to_owned(), value.to_owned());
            }
        }
        says
    }

    /// Where commands begin: where the image says, else at home, and where neither is a folder, at the root.
    pub(super) fn work_dir(&self, files: &ConfinedDir, account: &Account) -> PathBuf {
        let is_folder = |path: &&Path| {
            let found = files.metadata(path);
            found.is_ok_and(|found| found.kind == EntryKind::Directory)
        };
        let wanted = self.work_dir.as_deref().into_iter();
        let found = wanted.chain([account.home.as_path()]).find(is_folder);
        found.unwrap_or(Path::new("/")).to_path_buf()
    }
}

pub(super) fn environment(
    account: &Account,
    base: &Base,
    says: &ImageSays,
    record: &SandboxRecord,
) -> BTreeMap<String, String> {
    let home = account.home.to_string_lossy().into_owned();
    let mut environment: BTreeMap<String, String> = owned([
        ("PATH", PATH),
        ("HOME", &home),
        ("USER", &account.name),
        ("LOGNAME", &account.name),
        ("SHELL", &account.shell),
        ("TMPDIR", "/tmp"),
        ("LANG", "C.UTF-8"),
    ])
    .collect();
    environment.extend(says.variables.clone());
    environment.extend(owned([
        ("HOLM_SANDBOX", "1"),
        ("DAYTONA_SANDBOX_ID", &record.id),
        ("DAYTONA_SANDBOX_USER", &account.name),
        ("DAYTONA_ORGANIZATION_ID", &record.organization),
    ]));
    let of_the_way_out = proxy_environment(GATEWAY_PORT)
        .into_iter()
        .chain(trust_environment(BUNDLE_PLACE));
    for (name, value) in of_the_way_out {
        environment.insert(name.to_owned(), value);
    }
    match base {
        Base::Host(base) => add_toolchains(&mut environment, base),
        Base::Image(_) => {}
    }
    environment.extend(record.env.clone());
    environment
}

fn owned<const COUNT: usize>(
    variables: [(&str, &str); COUNT],
) -> impl Iterator<Item = (String, String)> {
    let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    owned.into_iter()
}

fn add_toolchains(environment: &mut BTreeMap<String, String>, base: &HostBase) {
    for toolchain in &base.toolchains {
        if let Some(variable) = toolchain.variable {
            let path = toolchain.path.to_string_lossy().into_owned();
            environment.insert(variable.to_owned(), path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(env: &[&str], working_dir: &str) -> ImageSays {
        ImageSays::of(&ImageConfig {
            env: env.iter().map(|entry| (*entry).to_owned()).collect(),
            working_dir: Some(working_dir.to_owned()),
            ..ImageConfig::default()
        })
    }

    #[test]
    fn what_no_program_could_be_given_is_left_out() {
        let long = format!("LONG={}", "x".repeat(IMAGE_VARIABLES_BYTES_MAX));
        let found = says(&["A=b=c", "=x", "none", "N=\0", "EMPTY=", &long], "/srv");
        let names: Vec<&str> = found.variables.keys().map(String::as_str).collect();
        assert_eq!(names, ["A", "EMPTY"]);
        assert_eq!(found.variables["A"], "b=c");
        assert_eq!(found.work_dir.as_deref(), Some(Path::new("/srv")));
        assert_eq!(says(&[], "srv").work_dir, None);
    }

    #[test]
    fn commands_begin_in_a_folder_that_is_there() {
        let root = tempfile::tempdir().unwrap();
        let files = ConfinedDir::open(root.path()).unwrap();
        let files = files.resolving(holm_sandbox_linux::files::Resolve::InRoot);
        let account = Account::of_host_base();
        let begins = |says: &ImageSays| says.work_dir(&files, &account);
        let image = says(&[], "/srv/app");
        assert_eq!(begins(&image), Path::new("/"));
        std::fs::create_dir_all(root.path().join("home/daytona")).unwrap();
        assert_eq!(begins(&image), Path::new("/home/daytona"));
        std::fs::create_dir_all(root.path().join("srv/app")).unwrap();
        assert_eq!(begins(&image), Path::new("/srv/app"));
    }
}
