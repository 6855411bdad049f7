//! Archives and layouts as tests need them: honest ones, and those that no writer would make.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holm_images::{Cancel, Images, Progress, Watch};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// A folder of images in a folder of its own, removed at the end.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) images: Images,
}

/// `None` with a line that says so when the tests do not run as root.
pub(crate) fn place() -> Option<Place> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: images keep owners, which takes root");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let images = Images::open(&folder.path().join("images")).unwrap();
    Some(Place { folder, images })
}

impl Place {
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Imports an archive that has to be accepted, and returns its tree.
    pub(crate) fn unpacked(&self, archive: &Archive) -> PathBuf {
        let path = self.file("in.tar", &archive.bytes());
        let image = watched(|watch| self.images.from_tar("image", &path, watch)).unwrap();
        image.layers[0].clone()
    }

    /// Imports an archive that has to be refused, says why it was, and checks that nothing is left.
    pub(crate) fn refused(&self, archive: &[u8]) -> String {
        let error = self.refused_named("image", archive);
        self.assert_nothing_left();
        error
    }

    pub(crate) fn refused_named(&self, name: &str, archive: &[u8]) -> String {
        let path = self.file("in.tar", archive);
        chain(&watched(|watch| self.images.from_tar(name, &path, watch)).unwrap_err())
    }

    pub(crate) fn assert_nothing_left(&self) {
        let left: Vec<_> = fs::read_dir(self.folder.path().join("images"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != ".lock")
            .collect();
        assert_eq!(left, [""; 0]);
    }
}

/// An error with its causes, as the user sees them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

/// Runs something with a watch that lets it take a minute.
pub(crate) fn watched<T>(work: impl FnOnce(&Watch<'_>) -> T) -> T {
    work(&Watch {
        cancel: &Cancel::new(),
        deadline: Instant::now() + Duration::from_secs(60),
        progress: &|_: Progress<'_>| {},
    })
}

/// One entry, with every field as the test wants it.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) kind: u8,
    pub(crate) name: String,
    pub(crate) link: String,
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) owner: (u64, u64),
    pub(crate) mtime: u64,
}

impl Item {
    pub(crate) fn new(kind: u8, name: &str, link: &str) -> Self {
        Self {
            kind,
            name: name.into(),
            link: link.into(),
            content: Vec::new(),
            mode: 0o755,
            owner: (0, 0),
            mtime: 1_000_000_000,
        }
    }
    pub(crate) fn file(name: &str, content: &str) -> Self {
        Self {
            content: content.into(),
            mode: 0o644,
            ..Self::new(b'0', name, "")
        }
    }
    pub(crate) fn folder(name: &str) -> Self {
        Self::new(b'5', name, "")
    }
    pub(crate) fn symlink(name: &str, target: &str) -> Self {
        Self::new(b'2', name, target)
    }
    pub(crate) fn hard_link(name: &str, target: &str) -> Self {
        Self::new(b'1', name, target)
    }
    pub(crate) fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }
    pub(crate) fn owner(self, uid: u64, gid: u64) -> Self {
        Self {
            owner: (uid, gid),
            ..self
        }
    }

    fn header(&self, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::new(self.kind));
        header.set_mode(self.mode);
        header.set_uid(self.owner.0);
        header.set_gid(self.owner.1);
        header.set_mtime(self.mtime);
        header.set_size(size);
        // Through the bytes: the crate's own setters refuse hostile names.
        let old = header.as_old_mut();
        for (field, text) in [(&mut old.name, &self.name), (&mut old.linkname, &self.link)] {
            assert!(text.len() <= field.len(), "use a long name entry");
            field[..text.len()].copy_from_slice(text.as_bytes());
        }
        header.set_cksum();
        header
    }
}

/// A tar archive, entry by entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Archive(Vec<u8>);

impl Archive {
    pub(crate) fn of(items: impl IntoIterator<Item = Item>) -> Self {
        items.into_iter().fold(Self::default(), Self::with)
    }

    pub(crate) fn with(self, item: Item) -> Self {
        let size = item.content.len() as u64;
        self.with_size(item, size)
    }

    /// Says a size that need not be the content's.
    pub(crate) fn with_size(mut self, item: Item, size: u64) -> Self {
        self.0.extend_from_slice(item.header(size).as_bytes());
        self.0.extend_from_slice(&item.content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// A pax header for the next entry.
    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut content = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + 1;
            while length != rest + length.to_string().len() {
                length += 1;
            }
            content.extend_from_slice(format!("{length} {key}=").as_bytes());
            content.extend_from_slice(value);
            content.push(b'\n');
        }
        self.with(Item {
            content,
            ..Item::new(b'x', "pax", "")
        })
    }

    /// The name (`L`) or the link (`K`) of the next entry, as GNU tar writes long ones.
    pub(crate) fn long(self, kind: u8, text: &str) -> Self {
        let mut content = text.as_bytes().to_vec();
        content.push(0);
        self.with(Item {
            content,
            ..Item::new(kind, "././@LongLink", "")
        })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    }

    pub(crate) fn without_end(&self) -> Vec<u8> {
        self.0.clone()
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

pub(crate) fn this_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    }
}

/// An OCI layout that is written blob by blob.
pub(crate) struct LayoutFolder {
    pub(crate) path: PathBuf,
}

impl LayoutFolder {
    pub(crate) fn new(path: PathBuf) -> Self {
        fs::create_dir_all(path.join("blobs/sha256")).unwrap();
        fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { path }
    }

    pub(crate) fn blob_path(&self, digest: &str) -> PathBuf {
        let hex = digest.strip_prefix("sha256:").unwrap();
        self.path.join("blobs/sha256").join(hex)
    }

    /// Stores a blob and returns its descriptor.
    pub(crate) fn blob(&self, media_type: &str, bytes: &[u8]) -> serde_json::Value {
        let digest = sha256(bytes);
        fs::write(self.blob_path(&digest), bytes).unwrap();
        serde_json::json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    /// Stores an image of these layers, already compressed, and returns its manifest's descriptor.
    pub(crate) fn image(&self, architecture: &str, layers: &[Vec<u8>]) -> serde_json::Value {
        let layers: Vec<_> = layers
            .iter()
            .map(|layer| self.blob("application/vnd.oci.image.layer.v1.tar+gzip", layer))
            .collect();
        let config = serde_json::json!({
            "architecture": architecture, "os": "linux",
            "config": {"Env": ["PATH=/usr/bin", "A=b"], "Cmd": ["sh"], "WorkingDir": "/w", "User": "app"},
            "rootfs": {"type": "layers", "diff_ids": []},
        });
        let config = self.blob(
            "application/vnd.oci.image.config.v1+json",
            config.to_string().as_bytes(),
        );
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": layers,
        });
        self.blob(
            "application/vnd.oci.image.manifest.v1+json",
            manifest.to_string().as_bytes(),
        )
    }

    pub(crate) fn index(&self, manifests: &[serde_json::Value]) {
        let index = serde_json::json!({"schemaVersion": 2, "manifests": manifests});
        fs::write(self.path.join("index.json"), index.to_string()).unwrap();
    }
}

/// The files below a folder, as `name` or `name=content`, sorted.
pub(crate) fn listing(tree: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut waiting = vec![tree.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(tree).unwrap().display().to_string();
            let found = fs::symlink_metadata(&path).unwrap();
            names.push(if found.is_symlink() {
                format!("{name}->{}", fs::read_link(&path).unwrap().display())
            } else if found.is_file() {
                format!("{name}={}", fs::read_to_string(&path).unwrap())
            } else {
                if found.is_dir() {
                    waiting.push(path);
                }
                name
            });
        }
    }
    names.sort_unstable();
    names
}
