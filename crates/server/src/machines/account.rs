//! The user that a sandbox's commands run as.

use std::path::{Path, PathBuf};

use holm_sandbox_linux::files::ConfinedDir;
use holm_sandbox_linux::{BOX_USER, CommandUser, IdRange};

/// The user of boxes on the host's base, as Daytona's images have it.
pub(crate) const USER: &str = "daytona";
pub(crate) const HOME: &str = "/home/daytona";
/// Of users who have none of their own.
const SHELL: &str = "/bin/sh";
/// An image's list of users is read up to here.
const PASSWD_BYTES_MAX: u64 = 1024 * 1024;

/// The user that commands run as, as seen inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// Absolute, as seen inside.
    pub home: PathBuf,
    /// What programs start when a person wants a shell.
    pub shell: String,
}

impl Account {
    /// The only one that a box on the host's base has.
    pub(crate) fn of_host_base() -> Self {
        Self {
            name: USER.to_owned(),
            uid: BOX_USER,
            gid: BOX_USER,
            home: HOME.into(),
            shell: "/bin/bash".to_owned(),
        }
    }

    /// A user of an image, by name or number, perhaps with `:group`. What the image says about its users is its own
    /// business: the ids are confined to the box.
    pub(crate) fn of_image(files: &ConfinedDir, user: &str) -> Option<Self> {
        let passwd = files
            .read(Path::new("/etc/passwd"), PASSWD_BYTES_MAX)
            .unwrap_or_default();
        find(&String::from_utf8_lossy(&passwd), user)
    }

    pub(crate) fn command_user(&self) -> CommandUser {
        match (self.uid, self.gid) {
            (BOX_USER, BOX_USER) => CommandUser::BoxUser,
            (0, 0) => CommandUser::Root,
            (uid, gid) => CommandUser::Ids { uid, gid },
        }
    }
}

fn find(passwd: &str, user: &str) -> Option<Account> {
    let (wanted, group) = match user.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (user, None),
    };
    let number: Option<u32> = wanted.parse().ok();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, shell] = fields.as_slice() else {
            return None;
        };
        let account = Account {
            name: (*name).to_owned(),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            home: if home.starts_with('/') {
                home.into()
            } else {
                "/".into()
            },
            shell: if shell.starts_with('/') {
                (*shell).to_owned()
            } else {
                SHELL.to_owned()
            },
        };
        (*name == wanted || number == Some(account.uid)).then_some(account)
    };
    let unlisted = || match (wanted, number) {
        // Images without a list of users still have root.
        ("root", _) => Some((0, "/root")),
        (_, Some(uid)) => Some((uid, "/")),
        (_, None) => None,
    };
    let found = passwd.lines().find_map(line).or_else(|| {
        let (uid, home) = unlisted()?;
        Some(Account {
            name: wanted.to_owned(),
            uid,
            gid: uid,
            home: home.into(),
            shell: SHELL.to_owned(),
        })
    })?;
    let gid = group.and_then(|group| group.parse().ok());
    let account = Account {
        gid: gid.unwrap_or(found.gid),
        ..found
    };
    // Nobody in a box can be what it has no id for.
    let has_id = |inside| IdRange::FIRST.host_id(inside).is_some();
    (has_id(account.uid) && has_id(account.gid)).then_some(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nbroken\napp:x:1001:1002:App:/srv/app:/bin/sh\n";

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let app = find(PASSWD, "app").unwrap();
        assert_eq!(
            (app.uid, app.gid, app.home.to_str().unwrap()),
            (1001, 1002, "/srv/app")
        );
        let shell = |passwd: &str| find(passwd, "root").unwrap().shell;
        assert_eq!(shell(PASSWD), "/bin/bash");
        assert_eq!(shell("root:x:0:0:root:/root:\n"), "/bin/sh");
        assert_eq!(shell(""), "/bin/sh");
        assert_eq!(find(PASSWD, "1001").unwrap(), app);
        assert_eq!(find(PASSWD, "1001:7").unwrap().gid, 7);
        assert_eq!(find("", "root").unwrap().home, Path::new("/root"));
        assert_eq!(find(PASSWD, "4000").unwrap().uid, 4000);
        assert_eq!(find(PASSWD, "nobody-here"), None);
        for too_large in ["65536", "4294967295", "1:65536", "big", "1001:4294967295"] {
            let passwd = "big:x:4294967295:0::/:/bin/sh\n";
            assert_eq!(find(passwd, too_large), None, "{too_large}");
        }
        assert_eq!(find("", "-1"), None);
    }
}
