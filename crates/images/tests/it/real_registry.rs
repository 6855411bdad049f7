//! A registry on loopback: Debian's `docker-registry`, filled over HTTP.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::LayoutFolder;

/// The user `me` with the password `right`.
const PASSWORDS: &str = "me:$2b$04$qHfojv43EnC/hPfsVIt7iuaIXdvg3GAg8Nw6U8YtDcq2t8wYaBWwm\n";

pub(crate) enum Access {
    Open,
    Password,
}

pub(crate) struct Registry {
    child: Child,
    pub(crate) address: SocketAddr,
    access: Access,
}

impl Registry {
    /// `None` with a line that says so where it is not installed.
    pub(crate) fn start(folder: &Path, access: Access) -> Option<Self> {
        let data = folder.join("registry");
        fs::create_dir(&data).unwrap();
        let passwords = data.join("passwords");
        fs::write(&passwords, PASSWORDS).unwrap();
        let mut config = format!(
            "version: 0.1\nlog: {{accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:0'}}\n",
            data.display()
        );
        if matches!(access, Access::Password) {
            config += &format!(
                "auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
                passwords.display()
            );
        }
        let path = data.join("config.yml");
        fs::write(&path, config).unwrap();
        let spawned = Command::new("docker-registry")
            .arg("serve")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else {
            println!("skipped: docker-registry is not installed");
            return None;
        };
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .find_map(|line| {
                let line = line.unwrap();
                let (_, rest) = line.split_once("listening on ")?;
                rest.split('"').next()?.parse().ok()
            })
            .unwrap();
        // It must not stop at a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self {
            child,
            address,
            access,
        })
    }

    /// Puts every blob of the layout, and then the manifest, into a repository.
    pub(crate) fn push(
        &self,
        layout: &LayoutFolder,
        manifest: &serde_json::Value,
        to: &str,
        tag: &str,
    ) {
        let manifest_digest = manifest["digest"].as_str().unwrap();
        for entry in fs::read_dir(layout.path.join("blobs/sha256")).unwrap() {
            let entry = entry.unwrap();
            let digest = format!("sha256:{}", entry.file_name().to_str().unwrap());
            let (status, headers) =
                self.request("POST", &format!("/v2/{to}/blobs/uploads/"), "", b"");
            assert_eq!(status, 202, "{headers}");
            let location = headers
                .lines()
                .find_map(|line| line.strip_prefix("Location: "))
                .unwrap();
            let place = &location[location.find("/v2/").unwrap()..];
            let put = format!("{place}&digest={digest}");
            let bytes = fs::read(entry.path()).unwrap();
            assert_eq!(
                self.request("PUT", &put, "application/octet-stream", &bytes)
                    .0,
                201
            );
        }
        let bytes = fs::read(layout.blob_path(manifest_digest)).unwrap();
        let kind = manifest["mediaType"].as_str().unwrap();
        let put = format!("/v2/{to}/manifests/{tag}");
        let (status, headers) = self.request("PUT", &put, kind, &bytes);
        assert_eq!(status, 201, "{headers}");
    }

    fn request(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let auth = match self.access {
            Access::Open => "",
            // `me:right`
            Access::Password => "Authorization: Basic bWU6cmlnaHQ=\r\n",
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\n{auth}\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer[9..12].parse().unwrap();
        (status, answer.replace('\r', ""))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
