//! An image in the OCI layout, made by hand, and a registry that gives it out.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest as _, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A folder with one image of one layer.
pub(super) struct Layout {
    pub(super) folder: PathBuf,
    manifest: String,
}

impl Layout {
    pub(super) fn make(folder: PathBuf, layer: &[u8]) -> Self {
        fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        let blob = |kind: &str, content: &[u8]| {
            let hash: String = Sha256::digest(content)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            fs::write(folder.join("blobs/sha256").join(&hash), content).unwrap();
            let digest = format!("sha256:{hash}");
            json!({ "mediaType": kind, "digest": digest, "size": content.len() })
        };
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let layer = blob("application/vnd.oci.image.layer.v1.tar", layer);
        let config = json!({
            "architecture": architecture, "os": "linux",
            "config": { "User": "app", "Env": ["TINY=1"], "WorkingDir": "/tmp" },
            "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
        });
        let kind = "application/vnd.oci.image.config.v1+json";
        let config = blob(kind, config.to_string().as_bytes());
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
        });
        let manifest = blob(MANIFEST, manifest.to_string().as_bytes());
        let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
        fs::write(folder.join("index.json"), index.to_string()).unwrap();
        fs::write(
            folder.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )
        .unwrap();
        Self {
            manifest: manifest["digest"].as_str().unwrap().to_owned(),
            folder,
        }
    }

    /// Gives the image out as `tiny`, until the test ends.
    pub(super) fn serve(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (folder, manifest) = (self.folder.clone(), self.manifest.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that has gone is no failure here.
                drop(answer(stream, &folder, &manifest));
            }
        });
        address
    }
}

fn answer(mut stream: TcpStream, folder: &Path, manifest: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let is_head = words.next() == Some("HEAD");
    let path = words.next().unwrap_or_default();
    let of_digest = |digest: &str| {
        let hash = digest.strip_prefix("sha256:")?;
        fs::read(folder.join("blobs/sha256").join(hash)).ok()
    };
    let (kind, found) = match path.strip_prefix("/v2/tiny/") {
        Some(rest) if rest.starts_with("manifests/") => (MANIFEST, of_digest(manifest)),
        Some(rest) => (
            "application/octet-stream",
            of_digest(rest.strip_prefix("blobs/").unwrap_or_default()),
        ),
        None => ("application/json", (path == "/v2/").then(|| b"{}".to_vec())),
    };
    let status = if found.is_some() { 200 } else { 404 };
    let body = found.unwrap_or_default();
    let mut head = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n",
        body.len()
    );
    if kind == MANIFEST {
        head += &format!("Docker-Content-Digest: {manifest}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    if !is_head {
        stream.write_all(&body)?;
    }
    Ok(())
}
