//! The configuration file: what a user does not want to say at every call. JSON, found by `HOLM_CONFIG` or in the
//! folder of configurations.
//!
//! ```json
//! {
//!   "sandboxType": "daytona",
//!   "daytona": { "apiUrl": "https://holm.example.org/api", "target": "us", "snapshot": "daytona-medium" }
//! }
//! ```
//!
//! Variables of the environment come before it. A key in a file that others may read is refused.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use holm_sandbox::{BackendKind, Secret};
use holm_sandbox_backends::daytona::{DaytonaOptions, ExecWay, GitHub};
use serde::Deserialize;

use crate::environment::Environment;
use crate::error::CliError;

const FILE_BYTES_MAX: u64 = 1 << 20;
/// Readable or writable by others than the owner.
const OTHERS: u32 = 0o066;

/// What the file may say.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Configuration {
    sandbox_type: Option<String>,
    daytona: DaytonaSection,
    github: GitHubSection,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct DaytonaSection {
    api_key: Option<String>,
    api_url: Option<String>,
    target: Option<String>,
    snapshot: Option<String>,
    auto_stop_interval: Option<u32>,
    network_allow_list: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct GitHubSection {
    git_url: Option<String>,
    api_url: Option<String>,
}

impl std::fmt::Debug for DaytonaSection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DaytonaSection")
            .field("api_url", &self.api_url)
            .finish_non_exhaustive()
    }
}

impl Configuration {
    /// Reads the file, if there is one.
    pub(crate) fn read(environment: &Environment) -> Result<Self, CliError> {
        let Some((path, must_be_there)) = place(environment) else {
            return Ok(Self::default());
        };
        let at = |doing| {
            let path = path.clone();
            move |source| CliError::HostFile {
                doing,
                path,
                source,
            }
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_be_there => {
                return Ok(Self::default());
            }
            Err(error) => return Err(at("open the configuration file")(error)),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(at("read the configuration file"))?;
        let read = serde_json::from_str(&text).map_err(|error| {
            // The place is told, and what stands there is not: it may be a key.
            let (line, column) = (error.line(), error.column());
            CliError::Refused {
                what: format!(
                    "`{}` cannot be read, line {line}, column {column}",
                    path.display()
                ),
                hint: Some(
                    "it is JSON with `sandboxType`, `daytona` and `github`; names are checked"
                        .to_owned(),
                ),
            }
        });
        let read: Self = read?;
        if read.daytona.api_key.is_some() {
            refuse_others(&path)?;
        }
        Ok(read)
    }

    /// Where sandboxes are made when no flag says so.
    pub(crate) fn sandbox_type(&self) -> Result<BackendKind, CliError> {
        match self.sandbox_type.as_deref() {
            None => Ok(BackendKind::Local),
            // What the seed calls it.
            Some("daytona.cloud") => Ok(BackendKind::Daytona),
            Some(name) => Ok(name.parse()?),
        }
    }

    /// What the environment and the file say about Daytona.
    pub(crate) fn daytona(&self, environment: &Environment) -> Result<DaytonaOptions, CliError> {
        let section = &self.daytona;
        let text = |name: &str, file: &Option<String>| {
            let given = environment.text(name)?.map(str::to_owned);
            Ok::<_, CliError>(given.or_else(|| file.clone()))
        };
        let api_key = text("DAYTONA_API_KEY", &section.api_key)?;
        let standard = GitHub::default();
        let github = GitHub {
            git_base: self.github.git_url.clone().unwrap_or(standard.git_base),
            api_base: self.github.api_url.clone().unwrap_or(standard.api_base),
        };
        let is_simple = environment.text("DAYTONA_SIMPLE_EXEC")? == Some("1");
        Ok(DaytonaOptions {
            api_key: api_key.map(Secret::new),
            api_url: text("DAYTONA_API_URL", &section.api_url)?,
            target: text("DAYTONA_TARGET", &section.target)?,
            snapshot: section.snapshot.clone(),
            auto_stop_minutes: section.auto_stop_interval,
            network_allow_list: section.network_allow_list.clone(),
            github,
            exec: if is_simple {
                ExecWay::Simple
            } else {
                ExecWay::Session
            },
            ..DaytonaOptions::default()
        })
    }
}

/// The file, and whether somebody named it.
fn place(environment: &Environment) -> Option<(PathBuf, bool)> {
    if let Some(path) = environment.folder("HOLM_CONFIG") {
        return Some((path.to_path_buf(), true));
    }
    let folder = match environment
        .folder("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
    {
        Some(folder) => folder.to_path_buf(),
        None => environment.home()?.join(".config"),
    };
    Some((folder.join("holm/config.json"), false))
}

fn refuse_others(path: &Path) -> Result<(), CliError> {
    let found = fs::metadata(path).map_err(|source| CliError::HostFile {
        doing: "look at the configuration file",
        path: path.to_path_buf(),
        source,
    })?;
    if found.mode() & OTHERS == 0 {
        return Ok(());
    }
    Err(CliError::Refused {
        what: format!("`{}` holds a key, and others may read it", path.display()),
        hint: Some(format!("chmod 600 {}", path.display())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_where_sandboxes_are() {
        let read = |text: &str| serde_json::from_str::<Configuration>(text).unwrap();
        let kind = |text: &str| read(text).sandbox_type().unwrap();
        assert_eq!(kind("{}"), BackendKind::Local);
        assert_eq!(
            kind(r#"{"sandboxType":"daytona.cloud"}"#),
            BackendKind::Daytona
        );
        assert_eq!(kind(r#"{"sandboxType":"daytona"}"#), BackendKind::Daytona);
        assert!(read(r#"{"sandboxType":"podman"}"#).sandbox_type().is_err());
        let shown = format!("{:?}", read(r#"{"daytona":{"apiKey":"hidden-key"}}"#));
        assert!(!shown.contains("hidden-key"), "{shown}");
    }
}
