//! What an image says about the processes in it, and how that is stored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{ImagesError, Result};

/// The version of `image.json`.
pub const IMAGE_FILE_VERSION: u32 = 1;

const PROCESS_BYTES_MAX: usize = 256 * 1024;
const USER_BYTES_MAX: usize = 256;

/// What an image says about the processes in it. Nothing here is checked: it is the image's word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    /// `NAME=value`
    pub env: Vec<String>,
    pub working_dir: Option<String>,
    /// A name or an id, perhaps with `:group`.
    pub user: Option<String>,
    /// `80/tcp`
    pub exposed_ports: Vec<String>,
    /// As OCI names it: `amd64`, `arm64`.
    pub architecture: String,
}

/// `image.json` beside the layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageFile {
    pub(crate) version: u32,
    /// Where it came from, for people.
    pub(crate) source: String,
    pub(crate) config: ImageConfig,
    /// Relative to the file's folder.
    pub(crate) layers: Vec<PathBuf>,
    pub(crate) bytes: u64,
}

impl ImageConfig {
    /// For root file systems that say nothing about themselves.
    pub(crate) fn of_this_machine() -> Self {
        Self {
            architecture: this_architecture().to_owned(),
            ..Self::default()
        }
    }
}

/// This machine's architecture as OCI names it; Holm runs on two.
pub(crate) fn this_architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    }
}

/// The parts of an OCI (and docker) image configuration that we use.
#[derive(Debug, Deserialize)]
pub(crate) struct OciConfig {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<OciProcess>,
    #[serde(default)]
    rootfs: Option<OciRootFs>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct OciProcess {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
    exposed_ports: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Debug, Default, Deserialize)]
struct OciRootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

impl OciConfig {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let parsed: Self = serde_json::from_slice(bytes).map_err(|error| {
            ImagesError::invalid("the image's configuration", error.to_string())
        })?;
        parsed.check_size()?;
        let wanted = format!("linux/{}", this_architecture());
        let found = format!("{}/{}", parsed.os, parsed.architecture);
        if found != wanted {
            return Err(ImagesError::WrongPlatform { wanted, found });
        }
        Ok(parsed)
    }

    /// What is said about processes is kept with everything that is made from the image.
    fn check_size(&self) -> Result<()> {
        let Some(process) = &self.config else {
            return Ok(());
        };
        let lists = [&process.entrypoint, &process.cmd, &process.env];
        let words = lists.into_iter().flatten().flatten();
        let texts = [&process.user, &process.working_dir].into_iter().flatten();
        let ports = process.exposed_ports.iter().flat_map(BTreeMap::keys);
        let bytes: usize = words
            .chain(texts)
            .chain(ports)
            .map(|text| text.len() + 1)
            .sum();
        let user = process.user.as_ref().map_or(0, String::len);
        if bytes > PROCESS_BYTES_MAX || user > USER_BYTES_MAX {
            return Err(ImagesError::invalid(
                "the image's configuration",
                format!(
                    "it says more than {PROCESS_BYTES_MAX} bytes about its processes, or {USER_BYTES_MAX} about its user"
                ),
            ));
        }
        Ok(())
    }

    /// Digests of the uncompressed layers.
    pub(crate) fn diff_ids(&self) -> &[String] {
        self.rootfs
            .as_ref()
            .map(|rootfs| rootfs.diff_ids.as_slice())
            .unwrap_or_default()
    }

    pub(crate) fn into_config(self) -> ImageConfig {
        let process = self.config.unwrap_or_default();
        let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        ImageConfig {
            entrypoint: process.entrypoint.unwrap_or_default(),
            cmd: process.cmd.unwrap_or_default(),
            env: process.env.unwrap_or_default(),
            working_dir: non_empty(process.working_dir),
            user: non_empty(process.user),
            exposed_ports: process
                .exposed_ports
                .unwrap_or_default()
                .into_keys()
                .collect(),
            architecture: self.architecture,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_of_docker_is_understood() {
        let arch = this_architecture();
        let text = format!(
            r#"{{"architecture":"{arch}","os":"linux","config":{{"Env":["A=b"],"Cmd":["sh"],
            "Entrypoint":null,"WorkingDir":"/w","User":"","ExposedPorts":{{"80/tcp":{{}}}}}},
            "rootfs":{{"type":"layers","diff_ids":["sha256:aa"]}}}}"#
        );
        let parsed = OciConfig::parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.diff_ids(), ["sha256:aa"]);
        let wanted = ImageConfig {
            entrypoint: vec![],
            cmd: vec!["sh".into()],
            env: vec!["A=b".into()],
            working_dir: Some("/w".into()),
            user: None,
            exposed_ports: vec!["80/tcp".into()],
            architecture: arch.into(),
        };
        assert_eq!(parsed.into_config(), wanted);
    }

    #[test]
    fn images_of_other_machines_are_refused() {
        let text = br#"{"architecture":"s390x","os":"linux"}"#;
        let error = OciConfig::parse(text).unwrap_err().to_string();
        assert!(error.contains("linux/s390x"), "{error}");
        assert!(OciConfig::parse(br#"{"architecture":"amd64","os":"windows"}"#).is_err());
        assert!(OciConfig::parse(b"[]").is_err());
    }

    #[test]
    fn what_says_too_much_is_refused() {
        let parse = |config: serde_json::Value| {
            let arch = this_architecture();
            let config = serde_json::json!({"architecture": arch, "os": "linux", "config": config});
            OciConfig::parse(config.to_string().as_bytes())
        };
        let long = "x".repeat(PROCESS_BYTES_MAX);
        assert!(parse(serde_json::json!({"Env": [&long[..1000]], "User": "app"})).is_ok());
        for config in [
            serde_json::json!({"User": &long[..=USER_BYTES_MAX]}),
            serde_json::json!({"Env": [&long]}),
            serde_json::json!({"Cmd": vec![""; PROCESS_BYTES_MAX + 1]}),
            serde_json::json!({"ExposedPorts": {&long: {}}}),
        ] {
            assert!(parse(config).is_err());
        }
    }
}
