//! The environment, read once and only here. [`VARIABLES`] is also the page `environment.md`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use holm_sandbox_backends::local::{CacheLimits, LocalConfig};

use crate::error::CliError;

/// A variable that Holm looks at, for the reference.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) default: &'static str,
}

pub(crate) const VARIABLES: &[Variable] = &[
    Variable {
        name: "HOLM_DATA_DIR",
        meaning: "Where sandboxes and cached checkouts are kept; the flag `--data-dir` comes before it.",
        default: "`/var/lib/holm` for root, else `$XDG_DATA_HOME/holm`",
    },
    Variable {
        name: "HOLM_API_KEY",
        meaning: "The key that `holm serve` lets clients in with, for unattended set-up: 16 characters or more, and not printed. Another value at a later start replaces it. Also the key, or the token, that `holm thread` asks a server with.",
        default: "a key that is made at the first start and printed once",
    },
    Variable {
        name: "HOLM_POSTGRES_URL",
        meaning: "Where `holm serve` keeps streams and threads when several servers share them: `postgres://user:password@host:port/database`. Organisations of one name are one on all of these servers; each has API keys of its own, and they share blobs by `holm serve --blobs`.",
        default: "the server's own database, below `--data`",
    },
    Variable {
        name: "HOLM_API_URL",
        meaning: "The server that `holm thread` asks.",
        default: "`http://127.0.0.1:3986/api`",
    },
    Variable {
        name: "HOLM_LOG",
        meaning: "What `holm serve` and `holm stream-proxy` log, as `error`, `warn`, `info`, `debug` or `trace`, also by module (`info,holm_server=debug`). With `--sandbox daytona` it shows what is asked of the server (`debug`).",
        default: "`info`; with `--sandbox daytona` nothing is logged",
    },
    Variable {
        name: "HOLM_CONFIG",
        meaning: "The configuration file, as JSON.",
        default: "`$XDG_CONFIG_HOME/holm/config.json`",
    },
    Variable {
        name: "XDG_CONFIG_HOME",
        meaning: "The folder of programs' configurations.",
        default: "`$HOME/.config`",
    },
    Variable {
        name: "DAYTONA_API_KEY",
        meaning: "The key with which `--sandbox daytona` asks its server. There is no flag for it, since others can read command lines.",
        default: "`daytona.apiKey` of the configuration file",
    },
    Variable {
        name: "DAYTONA_API_URL",
        meaning: "Where that server is.",
        default: "`daytona.apiUrl` of the configuration file, else `https://app.daytona.io/api`",
    },
    Variable {
        name: "DAYTONA_TARGET",
        meaning: "The region in which sandboxes are made there.",
        default: "`daytona.target` of the configuration file, else `us`",
    },
    Variable {
        name: "DAYTONA_SIMPLE_EXEC",
        meaning: "`1` runs commands there by one request each, with their outputs merged. For debugging only.",
        default: "a session for each command",
    },
    Variable {
        name: "GITHUB_TOKEN",
        meaning: "With it `--sandbox daytona` clones private repositories, and `--push` pushes and opens pull requests. There is no flag for it.",
        default: "public repositories only",
    },
    Variable {
        name: "XDG_DATA_HOME",
        meaning: "The folder of programs' data, when an ordinary user sets no `HOLM_DATA_DIR`.",
        default: "`$HOME/.local/share`",
    },
    Variable {
        name: "HOME",
        meaning: "The home folder, whose toolchains (cargo, rustup, nvm and the like) a box may read.",
        default: "no toolchains from a home folder",
    },
    Variable {
        name: "TMPDIR",
        meaning: "Where worktrees are registered (`harness-<id>`), which is also where a box sees its files.",
        default: "`/tmp`",
    },
    Variable {
        name: "PATH",
        meaning: "Those of its folders that a box can see are searched for commands inside, before the system's.",
        default: "the system's folders only",
    },
    Variable {
        name: "TERM, COLORTERM, LANG, TZ",
        meaning: "Passed on into a box as they are. Nothing else of the environment is.",
        default: "not set inside",
    },
    Variable {
        name: "NO_COLOR",
        meaning: "No colours, here and (passed on) inside a box.",
        default: "colours on a terminal only",
    },
    Variable {
        name: "CLICOLOR_FORCE",
        meaning: "Colours even where the output is no terminal.",
        default: "colours on a terminal only",
    },
    Variable {
        name: "COLUMNS",
        meaning: "The width that help texts are wrapped at, up to 100.",
        default: "the terminal's width",
    },
];

/// Where root keeps its data.
const ROOT_DATA_DIR: &str = "/var/lib/holm";

/// The environment as it was when the process started.
#[derive(Debug)]
pub(crate) struct Environment {
    variables: Vec<(OsString, OsString)>,
    user: UserKind,
}

/// Who runs this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserKind {
    Root,
    Ordinary,
}

impl Environment {
    pub(crate) fn read() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            user: if rustix::process::geteuid().is_root() {
                UserKind::Root
            } else {
                UserKind::Ordinary
            },
        }
    }

    pub(crate) fn user(&self) -> UserKind {
        self.user
    }

    /// A variable as it is, set or not.
    pub(crate) fn get(&self, name: &OsStr) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_os_str())
    }

    /// A folder named by a variable; an empty one counts as not set.
    pub(crate) fn folder(&self, name: &str) -> Option<&Path> {
        self.get(OsStr::new(name))
            .filter(|value| !value.is_empty())
            .map(Path::new)
    }

    /// Where Holm keeps its data, as an absolute path.
    pub(crate) fn data_dir(&self, flag: Option<&Path>) -> Result<PathBuf, CliError> {
        let chosen = flag.or_else(|| self.folder("HOLM_DATA_DIR"));
        let path = match (chosen, self.user) {
            (Some(path), _) => path.to_path_buf(),
            (None, UserKind::Root) => PathBuf::from(ROOT_DATA_DIR),
            (None, UserKind::Ordinary) => self.user_data_dir()?,
        };
        absolute(&path)
    }

    fn user_data_dir(&self) -> Result<PathBuf, CliError> {
        // The convention says that relative paths in this variable are to be ignored.
        if let Some(data) = self
            .folder("XDG_DATA_HOME")
            .filter(|path| path.is_absolute())
        {
            return Ok(data.join("holm"));
        }
        let home = self.folder("HOME").ok_or_else(|| CliError::Refused {
            what: "there is no folder to keep data in: HOME is not set".to_owned(),
            hint: Some("name one with --data-dir or HOLM_DATA_DIR".to_owned()),
        })?;
        Ok(home.join(".local/share/holm"))
    }

    /// The home folder of whoever runs this.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.folder("HOME")
    }

    /// A variable's text; an empty one counts as not set.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, CliError> {
        match self.get(OsStr::new(name)).map(OsStr::to_str) {
            None | Some(Some("")) => Ok(None),
            Some(Some(text)) => Ok(Some(text)),
            Some(None) => Err(CliError::Refused {
                what: format!("the environment variable `{name}` is no text"),
                hint: None,
            }),
        }
    }

    /// What the backend is told about its host.
    pub(crate) fn local_config(&self, data_dir: PathBuf) -> LocalConfig {
        LocalConfig {
            data_dir,
            temp_dir: self.folder("TMPDIR").unwrap_or(Path::new("/tmp")).into(),
            home: self.home().map(Path::to_path_buf),
            environment: self.variables.clone(),
            cache: CacheLimits::default(),
            // A process that makes one box has nothing to prepare for.
            prepared_boxes: 0,
        }
    }
}

/// A folder for data, whatever folder this process is in.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|source| CliError::HostFile {
        doing: "find the data folder",
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(user: UserKind, variables: &[(&str, &str)]) -> Environment {
        Environment {
            variables: variables
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            user,
        }
    }

    #[track_caller]
    fn check(user: UserKind, variables: &[(&str, &str)], flag: Option<&str>, expected: &str) {
        let found = environment(user, variables).data_dir(flag.map(Path::new));
        assert_eq!(found.unwrap(), Path::new(expected));
    }

    #[test]
    fn data_dir_is_found_in_order() {
        let all = [
            ("HOLM_DATA_DIR", "/d"),
            ("XDG_DATA_HOME", "/x"),
            ("HOME", "/h"),
        ];
        check(UserKind::Ordinary, &all, Some("/flag"), "/flag");
        check(UserKind::Ordinary, &all, None, "/d");
        check(UserKind::Ordinary, &all[1..], None, "/x/holm");
        check(UserKind::Ordinary, &all[2..], None, "/h/.local/share/holm");
        check(UserKind::Root, &all[1..], None, "/var/lib/holm");
    }

    #[test]
    fn empty_and_relative_variables_do_not_count() {
        let variables = [
            ("HOLM_DATA_DIR", ""),
            ("XDG_DATA_HOME", "relative"),
            ("HOME", "/h"),
        ];
        check(UserKind::Ordinary, &variables, None, "/h/.local/share/holm");
    }

    #[test]
    fn nowhere_to_keep_data_is_told() {
        let error = environment(UserKind::Ordinary, &[]).data_dir(None);
        assert!(error.unwrap_err().to_string().contains("HOME is not set"));
    }
}
