//! The box's user on a base of the host: a name and a home.
//!
//! Commands that are told nothing else run as this user, whose id inside is always 1000.

use std::path::{Path, PathBuf};

use crate::error::{EngineError, Result};
use crate::plan::check_place;
use crate::spec::BOX_USER;

/// What `useradd` accepts, and any program that reads `/etc/passwd`.
const NAME_BYTES_MAX: usize = 32;

/// The name and the home of a box's user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Account {
    name: String,
    home: PathBuf,
}

impl Account {
    /// The user of boxes that need no other.
    pub fn holm() -> Self {
        Self {
            name: "holm".into(),
            home: "/home/holm".into(),
        }
    }

    /// `name` goes into `/etc/passwd`, and `home` is made with the base.
    pub fn new(name: &str, home: &Path) -> Result<Self> {
        let is_name = !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
            && name.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)
            });
        if !is_name {
            return Err(EngineError::Invalid {
                what: format!("`{}` is not a user name", name.escape_debug()),
                hint:
                    "a user name has up to 32 lower-case letters, digits, `-` and `_`, and starts \
                       with a letter or `_`"
                        .into(),
            });
        }
        let is_home = home
            .to_str()
            .is_some_and(|text| !text.contains(|c: char| c.is_control() || c == ':'));
        // These are empty in every new box.
        let is_kept = ["/run", "/tmp"].iter().all(|lost| !home.starts_with(lost));
        if !is_home || !is_kept || check_place(home).is_err() {
            return Err(EngineError::Invalid {
                what: format!("`{}` cannot be a home in a box", home.display()),
                hint: "choose a folder such as `/home/name`".into(),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            home: home.to_path_buf(),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The host's system accounts without its people, and this user.
    pub(crate) fn passwd(&self, host: &str) -> String {
        let others = system_lines(host, &self.name);
        let (name, home) = (&self.name, self.home.display());
        format!("{others}{name}:x:{BOX_USER}:{BOX_USER}:Holm:{home}:/bin/bash\n")
    }

    pub(crate) fn group(&self, host: &str) -> String {
        // Member lists name people.
        let without_members: String = system_lines(host, &self.name)
            .lines()
            .filter_map(|line| Some(format!("{}:\n", line.rsplit_once(':')?.0)))
            .collect();
        format!("{without_members}{}:x:{BOX_USER}:\n", self.name)
    }
}

/// Lines of `/etc/passwd` or `/etc/group` whose id is a system one, and whose name is not taken.
fn system_lines(text: &str, taken: &str) -> String {
    let is_system = |line: &&str| {
        let mut fields = line.split(':');
        let name = fields.next();
        let id = fields.nth(1).and_then(|id| id.parse::<u32>().ok());
        id.is_some_and(|id| id < 1000 || id == 65534) && name != Some(taken)
    };
    text.lines()
        .filter(is_system)
        .flat_map(|line| [line, "\n"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_people_do_not_enter_the_box() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000:Alice:/home/alice:/bin/zsh\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\nbroken\n";
        let inside = Account::holm().passwd(passwd);
        assert!(inside.contains("root:x:0:0"));
        assert!(inside.contains("nobody:x:65534"));
        assert!(inside.contains("holm:x:1000:1000:Holm:/home/holm:/bin/bash\n"));
        assert!(!inside.contains("alice"));
        assert!(!inside.contains("broken"));
    }

    #[test]
    fn group_members_do_not_enter_the_box() {
        let inside = Account::holm().group("adm:x:4:alice,bob\nalice:x:1000:\n");
        assert_eq!(inside, "adm:x:4:\nholm:x:1000:\n");
    }

    #[test]
    fn another_name_and_home_take_their_place() {
        let account = Account::new("daytona", Path::new("/home/daytona")).unwrap();
        let host = "root:x:0:0:root:/root:/bin/bash\ndaytona:x:7:7::/:/bin/false\n";
        assert_eq!(
            account.passwd(host),
            "root:x:0:0:root:/root:/bin/bash\n\
             daytona:x:1000:1000:Holm:/home/daytona:/bin/bash\n"
        );
        assert_eq!(
            account.group("x:x:3:\ndaytona:x:7:\n"),
            "x:x:3:\ndaytona:x:1000:\n"
        );
    }

    #[test]
    fn names_and_homes_that_break_passwd_are_refused() {
        let long = "a".repeat(33);
        for name in ["", "Root", "a:b", "a\nroot", "-a", "1a", "ä", "a b", &long] {
            assert!(Account::new(name, Path::new("/home/a")).is_err(), "{name}");
        }
        for home in [
            "",
            "home",
            "/",
            "/etc",
            "/usr/x",
            "/tmp/x",
            "/run",
            "/proc/1",
            "/a/../etc",
            "/a:b",
            "/a\nb",
            "/a\0b",
        ] {
            assert!(Account::new("a", Path::new(home)).is_err(), "{home:?}");
        }
        for home in ["/root", "/workspace", "/home/a b"] {
            Account::new("_a-1", Path::new(home)).unwrap();
        }
    }
}
