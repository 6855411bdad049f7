//! One big file into a sandbox and out of it, beside `cp` on the same disk and nginx with the same file.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::floor::timed;
use crate::http::Connection;
use crate::report::{Report, Samples};
use crate::subject::{Subject, create, delete, execute};

const ROUNDS: usize = 5;

pub(crate) fn run(subject: &Subject, folder: &Path, bytes: u64, report: &mut Report) -> Result<()> {
    let source = folder.join("www/file");
    write_file(&source, bytes)?;
    let nginx = Nginx::start(folder);
    if let Err(error) = &nginx {
        report.note(format!("nginx was left out: {error:#}"));
    }
    let mut connection = subject.connect()?;
    let id = create(&mut connection)?;
    let upload = format!("/toolbox/{id}/files/upload?path=file");
    let download = format!("/toolbox/{id}/files/download?path=file");
    let [mut copy, mut up, mut down, mut peer] = <[Samples; 4]>::default();
    for round in 0..=ROUNDS {
        let target = folder.join("copy");
        let copied = timed(|| cp(&source, &target))?;
        fs::remove_file(&target)?;
        let sent = timed(|| connection.send(&upload, &mut File::open(&source)?, bytes))?;
        let fetched = timed(|| whole(connection.fetch(&download)?, bytes))?;
        let served = match &nginx {
            Ok(nginx) => {
                let mut other = Connection::open(nginx.address, "")?;
                Some(timed(|| whole(other.fetch("/file")?, bytes))?)
            }
            Err(_) => None,
        };
        execute(&mut connection, &id, "rm file")?;
        // The first one fills caches.
        if round > 0 {
            copy.push(copied);
            up.push(sent);
            down.push(fetched);
            if let Some(served) = served {
                peer.push(served);
            }
        }
    }
    delete(&mut connection, &id)?;
    let mut rows = vec![
        ("`cp` on the same disk", &copy),
        ("**Holm**, upload", &up),
        ("**Holm**, download", &down),
    ];
    if peer.count() > 0 {
        rows.push(("nginx, download of the same file", &peer));
        report.promise(
            "download, times nginx",
            down.percentile(50) / peer.percentile(50),
            1.5,
        );
    }
    report.times(&format!("A file of {} MiB", bytes >> 20), &rows, 0);
    report.promise(
        "upload, times `cp`",
        up.percentile(50) / copy.percentile(50),
        1.5,
    );
    Ok(())
}

/// Bytes that no file system can leave out or fold.
fn write_file(path: &Path, bytes: u64) -> Result<()> {
    fs::create_dir_all(path.parent().context("a folder")?)?;
    let mut file = File::create(path)?;
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut block = Vec::with_capacity(1 << 20);
    for _ in 0..bytes >> 20 {
        block.clear();
        while block.len() < 1 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.extend(state.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    Ok(file.sync_all()?)
}

fn cp(from: &Path, to: &Path) -> Result<()> {
    // Shared blocks would be no copy.
    let status = Command::new("cp")
        .arg("--reflink=never")
        .args([from, to])
        .status()?;
    if !status.success() {
        bail!("cp ended with {status}");
    }
    Ok(())
}

fn whole(received: u64, bytes: u64) -> Result<()> {
    if received != bytes {
        bail!("{received} bytes came instead of {bytes}");
    }
    Ok(())
}

struct Nginx {
    child: Child,
    address: SocketAddr,
}

impl Nginx {
    fn start(folder: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let settings = folder.join("nginx.conf");
        let place = folder.display();
        fs::write(
            &settings,
            format!(
                "daemon off; master_process off; pid {place}/nginx.pid; error_log {place}/nginx.log;\n\
                 events {{}}\n\
                 http {{ access_log off; sendfile on; client_body_temp_path {place}/nginx-body;\n\
                 proxy_temp_path {place}/nginx-proxy; fastcgi_temp_path {place}/nginx-fastcgi;\n\
                 uwsgi_temp_path {place}/nginx-uwsgi; scgi_temp_path {place}/nginx-scgi;\n\
                 server {{ listen {address}; root {place}/www; }} }}\n"
            ),
        )?;
        let child = Command::new("nginx")
            .arg("-c")
            .arg(&settings)
            .args(["-e", &format!("{place}/nginx.log")])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start nginx (Debian's package `nginx`)")?;
        let mut nginx = Self { child, address };
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            if Instant::now() > until || nginx.child.try_wait()?.is_some() {
                bail!("nginx did not start");
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Ok(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Already gone, when it did not start.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}
