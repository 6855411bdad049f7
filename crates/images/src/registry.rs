//! Pulls images from registries, as `docker pull` does.
//!
//! What comes is hostile until its digest is verified: a pull fills an OCI layout in the staging folder, and goes on as
//! an import of that. Sizes that the manifest says are held against the limits before a layer is asked for,
//! and against what comes while it comes.

use std::fmt;
use std::fs::{self, File};
use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::errors::{DigestError, OciDistributionError, OciErrorCode};
use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, manifest};

use crate::digest::Digest;
use crate::error::{ImagesError, Result};
use crate::oci::{DOCUMENT_BYTES_MAX, Descriptor, Document, Index, Manifest, blob_path};
use crate::store::{Images, ImportedImage, free_bytes};
use crate::watch::{CANCEL_POLL, Limits, Progress, Watch};

const REFERENCE_BYTES_MAX: usize = 1024;
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);
/// Without a byte for this long, a registry is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// For a manifest, with whatever authentication comes before it. The client reads it into memory, so this
/// is also what bounds a registry that sends without end.
const DOCUMENT_PATIENCE: Duration = Duration::from_secs(30);
/// Connections break; a layer is asked for again.
const LAYER_ATTEMPTS: u32 = 3;
const USER_AGENT: &str = concat!("holm/", env!("CARGO_PKG_VERSION"));
/// Enough of what a registry says to find out what is wrong.
const ANSWER_CHARS_MAX: usize = 300;

const ACCEPTED: [&str; 4] = [
    manifest::OCI_IMAGE_MEDIA_TYPE,
    manifest::OCI_IMAGE_INDEX_MEDIA_TYPE,
    manifest::IMAGE_MANIFEST_MEDIA_TYPE,
    manifest::IMAGE_MANIFEST_LIST_MEDIA_TYPE,
];

/// How a registry is spoken to.
#[derive(Debug, Clone, Default)]
pub struct RegistryOptions {
    /// Anonymous without them.
    pub credentials: Option<Credentials>,
    pub plain_http: PlainHttp,
}

/// When a registry is spoken to without TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only when it is on this machine.
    #[default]
    LoopbackOnly,
    /// The caller knows the network in between.
    Allowed,
}

/// A name and a password, or a token as the password.
#[derive(Clone)]
pub struct Credentials {
    pub username: String,
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl Images {
    /// Imports an image from a registry. References are docker's: `debian:12` is `docker.io/library/debian:12`.
    pub fn pull(
        &self,
        name: &str,
        reference: &str,
        options: &RegistryOptions,
        watch: &Watch<'_>,
    ) -> Result<ImportedImage> {
        self.check_name_is_free(name)?;
        let staging = self.stage()?;
        let layout = staging.work().join("layout");
        let whole = self.pull_layout(reference, options, &layout, watch)?;
        let (config, bytes) = self.unpack_layout(&staging, &layout, watch)?;
        self.publish(name, &staging, format!("registry {whole}"), config, bytes)
    }

    /// Makes an OCI layout of an image in a registry, and returns the whole of its reference.
    pub(crate) fn pull_layout(
        &self,
        reference: &str,
        options: &RegistryOptions,
        layout: &Path,
        watch: &Watch<'_>,
    ) -> Result<String> {
        let reference = parse_reference(reference)?;
        let pull = Pull {
            client: client(&reference, options)?,
            auth: match &options.credentials {
                None => RegistryAuth::Anonymous,
                Some(Credentials { username, password }) => {
                    RegistryAuth::Basic(username.clone(), password.clone())
                }
            },
            reference,
            layout,
            limits: self.limits,
            watch,
        };
        // On a thread of its own: the caller's may belong to a runtime, which allows no second one.
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(ImagesError::io("start a runtime for", layout))?
                    .block_on(until_ended(watch, pull.run()))
            });
            done.join().unwrap_or_else(|_| {
                Err(ImagesError::invalid(
                    "the answer of the registry",
                    "it made the registry client fail",
                ))
            })
        })?;
        Ok(pull.reference.to_string())
    }
}

struct Pull<'a> {
    client: Client,
    auth: RegistryAuth,
    reference: Reference,
    layout: &'a Path,
    limits: Limits,
    watch: &'a Watch<'a>,
}

impl Pull<'_> {
    /// Fills the layout.
    async fn run(&self) -> Result<()> {
        let blobs = self.layout.join("blobs/sha256");
        fs::create_dir_all(&blobs).map_err(ImagesError::io("make", &blobs))?;
        let (manifest, bytes) = self.manifest().await?;
        manifest.check(self.limits)?;
        let blobs = || std::iter::once(&manifest.config).chain(&manifest.layers);
        let bytes_total = blobs().fold(0_u64, |sum, blob| sum.saturating_add(blob.size));
        self.check_room_for(bytes_total)?;
        let mut bytes_done = 0;
        for blob in blobs() {
            self.blob(blob, bytes_done, bytes_total).await?;
            bytes_done += blob.size;
        }
        let descriptor = Descriptor::of_manifest(manifest::OCI_IMAGE_MEDIA_TYPE.into(), &bytes);
        let path = blob_path(&Digest::of(&bytes));
        self.write(&path, &bytes)?;
        let version = br#"{"imageLayoutVersion":"1.0.0"}"#;
        self.write(Path::new("oci-layout"), version)?;
        let index = serde_json::to_vec(&Index::of(descriptor))
            .map_err(|error| ImagesError::invalid("the index", error.to_string()))?;
        self.write(Path::new("index.json"), &index)
    }

    /// The manifest for this machine, and the bytes it was.
    async fn manifest(&self) -> Result<(Manifest, Vec<u8>)> {
        let bytes = self.document(&self.reference).await?;
        let index = match Document::parse(&bytes)? {
            Document::Manifest(manifest) => return Ok((manifest, bytes)),
            Document::Index(index) => index,
        };
        let digest = Digest::parse(&index.select()?.digest)?;
        let reference = self.reference.clone_with_digest(digest.to_string());
        let bytes = self.document(&reference).await?;
        digest.expect(&Digest::of(&bytes), "the manifest")?;
        match Document::parse(&bytes)? {
            Document::Manifest(manifest) => Ok((manifest, bytes)),
            Document::Index(_) => Err(ImagesError::invalid(
                "the image",
                "its index names another index",
            )),
        }
    }

    async fn document(&self, reference: &Reference) -> Result<Vec<u8>> {
        let pull = self
            .client
            .pull_manifest_raw(reference, &self.auth, &ACCEPTED);
        let (bytes, _) = tokio::time::timeout(DOCUMENT_PATIENCE, pull)
            .await
            .map_err(|elapsed| self.failed("get the manifest", elapsed.into()))?
            .map_err(|error| self.refused("get the manifest", error))?;
        if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
            return Err(ImagesError::TooLarge {
                unit: "bytes of manifest",
                max: DOCUMENT_BYTES_MAX,
            });
        }
        if let Some(digest) = reference.digest() {
            Digest::parse(digest)?.expect(&Digest::of(&bytes), "the manifest")?;
        }
        Ok(bytes.to_vec())
    }

    fn check_room_for(&self, bytes: u64) -> Result<()> {
        if bytes > self.limits.download_bytes_max {
            return Err(ImagesError::TooLarge {
                unit: "bytes to download",
                max: self.limits.download_bytes_max,
            });
        }
        let free_bytes = free_bytes(self.layout)?;
        if free_bytes < bytes.saturating_add(self.limits.free_bytes_min) {
            return Err(ImagesError::DiskFull {
                path: self.layout.to_path_buf(),
                free_bytes,
            });
        }
        Ok(())
    }

    async fn blob(&self, blob: &Descriptor, bytes_done: u64, bytes_total: u64) -> Result<()> {
        let digest = Digest::parse(&blob.digest)?;
        let path = self.layout.join(blob_path(&digest));
        let mut attempts_left = LAYER_ATTEMPTS;
        loop {
            attempts_left -= 1;
            let told = |bytes| {
                (self.watch.progress)(Progress::Downloaded {
                    bytes: bytes_done + bytes,
                    bytes_total,
                });
            };
            match self.try_blob(&digest, blob.size, &path, &told).await {
                Err(ImagesError::Registry { .. }) if attempts_left > 0 => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_blob(
        &self,
        digest: &Digest,
        size: u64,
        path: &Path,
        told: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let text = digest.to_string();
        let opened = self
            .client
            .pull_blob_stream(&self.reference, text.as_str())
            .await
            .map_err(|error| self.refused("get a layer", error))?;
        let mut stream = opened.stream;
        // An earlier attempt may have left a part.
        let mut file = File::create(path).map_err(ImagesError::io("make", path))?;
        let mut bytes = 0;
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|error| self.broken_stream(error))?;
            bytes += piece.len() as u64;
            if bytes > size {
                return Err(ImagesError::invalid(
                    "a layer from the registry",
                    "it is longer than its manifest says",
                ));
            }
            file.write_all(&piece)
                .map_err(ImagesError::io("write", path))?;
            told(bytes);
        }
        Ok(())
    }

    fn write(&self, name: &Path, bytes: &[u8]) -> Result<()> {
        let path = self.layout.join(name);
        fs::write(&path, bytes).map_err(ImagesError::io("write", &path))
    }

    fn failed(
        &self,
        doing: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> ImagesError {
        ImagesError::Registry {
            doing,
            reference: self.reference.to_string(),
            source,
        }
    }

    fn broken_stream(&self, error: std::io::Error) -> ImagesError {
        let mismatch = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<DigestError>());
        if let Some(DigestError::VerificationError { expected, actual }) = mismatch {
            return ImagesError::DigestMismatch {
                what: "a layer from the registry".into(),
                expected: expected.clone(),
                found: actual.clone(),
            };
        }
        self.failed("get a layer", error.into())
    }

    /// What the registry's answer means for somebody who wants the image.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a foreign enum with thirty variants, most of them one thing to us"
    )]
    fn refused(&self, doing: &'static str, error: OciDistributionError) -> ImagesError {
        let reference = || self.reference.to_string();
        let unauthorized = || ImagesError::Unauthorized {
            reference: reference(),
        };
        let not_found = || ImagesError::ImageNotFound {
            reference: reference(),
        };
        match error {
            OciDistributionError::UnauthorizedError { .. } => unauthorized(),
            OciDistributionError::ServerError { code: 403, .. } => unauthorized(),
            OciDistributionError::ServerError { code: 404, .. } => not_found(),
            OciDistributionError::RegistryError { envelope, url } => {
                match envelope.errors.first().map(|error| &error.code) {
                    Some(OciErrorCode::Unauthorized | OciErrorCode::Denied) => unauthorized(),
                    Some(
                        OciErrorCode::ManifestUnknown
                        | OciErrorCode::NameUnknown
                        | OciErrorCode::NotFound,
                    ) => not_found(),
                    _ => self.failed(doing, shortened(&format!("{url}: {envelope}")).into()),
                }
            }
            OciDistributionError::ServerError { code, url, message } => {
                let answer = format!("{url} answered {code}: {message}");
                self.failed(doing, shortened(&answer).into())
            }
            OciDistributionError::DigestError(DigestError::VerificationError {
                expected,
                actual,
            }) => ImagesError::DigestMismatch {
                what: "the manifest from the registry".into(),
                expected,
                found: actual,
            },
            OciDistributionError::RequestError(error) => self.failed(doing, error.into()),
            other => self.failed(doing, shortened(&other.to_string()).into()),
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .take(ANSWER_CHARS_MAX)
        .collect()
}

/// Gives up when the caller cancels or the deadline passes; dropping the work closes its connections.
async fn until_ended<T>(watch: &Watch<'_>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let ended = async {
        loop {
            if let Err(error) = watch.check() {
                return error;
            }
            tokio::time::sleep(CANCEL_POLL).await;
        }
    };
    tokio::select! {
        outcome = work => outcome,
        error = ended => Err(error),
    }
}

fn client(reference: &Reference, options: &RegistryOptions) -> Result<Client> {
    // One for the whole process; whoever came first is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let registry = reference.resolve_registry().to_owned();
    let is_plain = match options.plain_http {
        PlainHttp::Allowed => true,
        PlainHttp::LoopbackOnly => is_loopback(&registry),
    };
    let protocol = if is_plain {
        ClientProtocol::HttpsExcept(vec![registry])
    } else {
        ClientProtocol::Https
    };
    Client::try_from(ClientConfig {
        protocol,
        connect_timeout: Some(CONNECT_PATIENCE),
        read_timeout: Some(SILENCE_MAX),
        user_agent: USER_AGENT,
        ..ClientConfig::default()
    })
    .map_err(|error| ImagesError::Registry {
        doing: "prepare the pull",
        reference: reference.to_string(),
        source: error.into(),
    })
}

fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) | None => registry,
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn parse_reference(text: &str) -> Result<Reference> {
    let invalid = |reason: String| ImagesError::InvalidReference {
        reference: text.chars().take(ANSWER_CHARS_MAX).collect(),
        reason,
    };
    if text.len() > REFERENCE_BYTES_MAX {
        return Err(invalid("it is too long".into()));
    }
    text.parse()
        .map_err(|error: oci_client::ParseError| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_those_of_docker() {
        for (text, whole) in [
            ("debian", "docker.io/library/debian:latest"),
            ("debian:12", "docker.io/library/debian:12"),
            ("me/app", "docker.io/me/app:latest"),
            ("localhost:5000/app:1", "localhost:5000/app:1"),
            ("ghcr.io/me/app:1", "ghcr.io/me/app:1"),
        ] {
            assert_eq!(parse_reference(text).unwrap().to_string(), whole);
        }
        for invalid in [
            "",
            "UPPER",
            "a b",
            "a:b:c",
            "a@sha256:12",
            "../x",
            &"a".repeat(2000),
        ] {
            assert!(parse_reference(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for here in [
            "localhost",
            "localhost:5000",
            "127.0.0.1:5000",
            "127.8.8.8",
            "[::1]:5000",
        ] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in [
            "localhost.evil.example",
            "127.0.0.1.example:80",
            "10.0.0.1:5000",
            "",
        ] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let options = RegistryOptions {
            credentials: Some(Credentials {
                username: "me".into(),
                password: "hidden".into(),
            }),
            ..RegistryOptions::default()
        };
        assert!(!format!("{options:?}").contains("hidden"));
    }
}
