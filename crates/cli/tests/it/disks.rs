//! Disks that fill up, turn read-only, fail, or lose their power under a server with threads.
//!
//! Each test has a mount namespace of its own, held by a process that ends with the test. That takes root; without it, it says so.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, geteuid};
use serde_json::{Value, json};

use crate::server::{Client, KEY, Serving};
use crate::support::{TestEnvironment, send, wait_until};

/// A small file system on a sparse image in memory: what is synced reaches the image, and nothing else has to.
const IMAGE: &str = "mkdir memory disk; mount -t tmpfs -o size=40m none memory; truncate -s 32m memory/image; \
     mkfs.ext4 -q -F -e remount-ro memory/image; mount -o loop memory/image disk";

/// Folders, and what is mounted there.
struct Disks {
    env: TestEnvironment,
    holder: Child,
}

impl Disks {
    fn mounted(script: &str) -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: mounting takes root");
            return None;
        }
        let env = TestEnvironment::new()
            .with("HOLM_API_KEY", KEY)
            .with("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let mut holder = env
            .program("unshare")
            .args(["--mount", "--propagation", "private", "--", "sh", "-euc"])
            // Ends when the test does, whatever becomes of it.
            .arg(format!("{script}; echo mounted; exec cat"))
            .stdin(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "mounted\n");
        Some(Self { env, holder })
    }

    /// A command that sees what is mounted.
    fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.env.program("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()))
            // The folder as it is seen there, which `--wd` is not.
            .args(["--", "sh", "-c", "cd \"$0\" && exec \"$@\""])
            .arg(self.env.path(""))
            .arg(program);
        command
    }

    fn run(&self, script: &str) {
        let mut command = self.inside("sh");
        let status = command.args(["-euc", script]).stderr(Stdio::inherit());
        assert!(status.status().unwrap().success(), "{script}");
    }

    fn holm_serve(&self, data: &str) -> Command {
        let holm = self.env.holm::<[&str; 0]>([]);
        let mut command = self.inside(holm.get_program());
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", data]);
        command
    }

    fn serve(&self, data: &str) -> Serving<'_> {
        Serving::of(&self.env, self.holm_serve(data))
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

/// Entries with the numbers from `0` on, each appended when the one before is acknowledged.
struct Writer {
    acknowledged: u64,
    /// What each entry holds besides its number.
    filling: String,
}

impl Writer {
    fn begin(client: &Client, entry_bytes: usize) -> Self {
        client.post("/api/threads", &json!({ "id": "t" })).ok();
        Self {
            acknowledged: 0,
            filling: "x".repeat(entry_bytes),
        }
    }

    /// Appends the next entry; asked again after an answer that was lost, it is the same one.
    fn append(&mut self, client: &Client) -> std::io::Result<(u16, Value)> {
        let entry = json!({
            "id": self.acknowledged.to_string(),
            "ts": 0,
            "payload": { "type": "pi.output", "filling": self.filling },
        });
        let answer = client.ask("POST", "/api/threads/t/entries", &entry)?;
        if answer.is_ok() {
            self.acknowledged += 1;
        }
        Ok((answer.status, answer.body))
    }

    /// Appends until it is refused, which it has to be in these words.
    #[track_caller]
    fn until_full(&mut self, client: &Client) {
        loop {
            let (status, body) = self.append(client).unwrap();
            if status == 507 {
                assert_eq!(body["code"], "store_full", "{body}");
                let message = body["message"].as_str().unwrap();
                assert!(message.contains("no space left"), "{message}");
                return;
            }
            assert_eq!(status, 200, "{body}");
        }
    }
}

/// The numbers that are stored: each once, in order, without a gap.
#[track_caller]
fn stored(client: &Client) -> u64 {
    let mut next = 0;
    let mut offset = "-1".to_owned();
    loop {
        let page = client.get(&format!("/api/threads/t/entries?offset={offset}"));
        let page = page.ok();
        for entry in page["entries"].as_array().unwrap() {
            if entry["id"] != "thread-created" {
                assert_eq!(entry["id"], next.to_string());
                next += 1;
            }
        }
        page["nextOffset"].as_str().unwrap().clone_into(&mut offset);
        if page["upToDate"] == true {
            return next;
        }
    }
}

#[test]
fn a_full_disk_refuses_and_the_server_goes_on() {
    let script =
        "mkdir disk; mount -t tmpfs -o size=8m none disk; head -c 2m /dev/zero >disk/other";
    let Some(disks) = Disks::mounted(script) else {
        return;
    };
    let server = disks.serve("disk/server");
    let client = server.client();
    let mut writer = Writer::begin(&client, 20_000);
    writer.until_full(&client);
    assert!(writer.acknowledged > 10, "{}", writer.acknowledged);
    // Refused as often as it is asked; what was acknowledged is read meanwhile.
    for _ in 0..3 {
        writer.until_full(&client);
        assert_eq!(stored(&client), writer.acknowledged);
    }
    let said = server.said();
    assert!(said.contains("database or disk is full"), "{said}");
    disks.run("rm disk/other");
    for _ in 0..5 {
        let (status, body) = writer.append(&client).unwrap();
        assert_eq!(status, 200, "{body}");
    }
    assert_eq!(server.stop().code(), Some(0));
    let server = disks.serve("disk/server");
    assert_eq!(stored(&server.client()), writer.acknowledged);
}

#[test]
fn a_disk_that_turns_read_only_refuses_and_the_server_goes_on() {
    let Some(disks) = Disks::mounted(IMAGE) else {
        return;
    };
    let server = disks.serve("disk/server");
    let client = server.client();
    let mut writer = Writer::begin(&client, 100);
    for _ in 0..20 {
        assert_eq!(writer.append(&client).unwrap().0, 200);
    }
    // As after an error of the device.
    disks.run("echo a test >/sys/fs/ext4/$(basename $(findmnt -no SOURCE disk))/trigger_fs_error");
    for _ in 0..3 {
        writer.until_full(&client);
        assert_eq!(stored(&client), 20);
    }
    server.kill();
    // The next server cannot work there, and says so.
    let refused = disks
        .env
        .finish(disks.holm_serve("disk/server").spawn().unwrap());
    assert_eq!(refused.code(), Some(1), "{refused}");
    let said = refused.errors();
    assert!(said.contains("disk/server"), "{said}");
    assert!(said.to_lowercase().contains("read-only"), "{said}");
}

/// The device takes no more, although the file system on it has space: what was written cannot be synced.
#[test]
fn a_sync_that_fails_ends_the_server_and_is_not_acknowledged() {
    let Some(disks) = Disks::mounted(IMAGE) else {
        return;
    };
    let mut server = disks.serve("disk/server");
    let client = server.client();
    let mut writer = Writer::begin(&client, 20_000);
    disks.run("mount -o remount,size=$(($(du -k memory/image | cut -f1) + 2048))k memory");
    let last = loop {
        match writer.append(&client) {
            Ok((200, _)) => {}
            other => break other,
        }
    };
    assert!(writer.acknowledged > 5, "{}", writer.acknowledged);
    // Nothing, or that nobody can say: whoever is quicker.
    assert!(
        last.as_ref().map_or(true, |(status, _)| *status == 500),
        "{last:?}"
    );
    wait_until("the server ends", || {
        server.child().try_wait().unwrap().is_some()
    });
    let ended = server.ended();
    assert_eq!(ended.status.signal(), Some(6), "{ended}");
    let said = ended.errors();
    assert!(
        said.contains("nobody can say what is on the disk"),
        "{said}"
    );
    assert!(said.contains("disk I/O error"), "{said}");
    // With a device that works, everything acknowledged is there, and what was not can be asked for again.
    disks.run("umount disk; mount -o remount,size=64m memory; mount -o loop memory/image disk");
    let server = disks.serve("disk/server");
    let client = server.client();
    let found = stored(&client);
    let unanswered = writer.acknowledged + 1;
    assert!(
        (writer.acknowledged..=unanswered).contains(&found),
        "{found} of {}",
        writer.acknowledged
    );
    assert_eq!(writer.append(&client).unwrap().0, 200);
    assert_eq!(stored(&client), unanswered);
}

/// What had reached the device when an append was acknowledged is all that the next server finds.
#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let Some(disks) = Disks::mounted(IMAGE) else {
        return;
    };
    let mut server = disks.serve("disk/server");
    let client = server.client();
    let mut writer = Writer::begin(&client, 300);
    let mut cuts = Vec::new();
    disks.run("mkdir later; mount -t tmpfs -o size=200m none later");
    for entries in [1, 2, 40, 100] {
        for _ in 0..entries {
            assert_eq!(writer.append(&client).unwrap().0, 200);
        }
        // Nothing moves while the device is looked at.
        send(server.child(), Signal::STOP);
        let name = format!("later/{}", writer.acknowledged);
        disks.run(&format!("cp --sparse=always memory/image {name}"));
        send(server.child(), Signal::CONT);
        cuts.push((name, writer.acknowledged));
    }
    server.kill();
    for (image, acknowledged) in cuts {
        disks.run(&format!("umount disk; mount -o loop {image} disk"));
        let server = disks.serve("disk/server");
        assert_eq!(stored(&server.client()), acknowledged);
        assert_eq!(server.stop().code(), Some(0));
    }
}

/// A spool fills its disk to the last byte while there is no server. All that it took over is sent when there is one.
#[test]
fn a_spool_that_fills_its_disk_loses_nothing_and_is_emptied() {
    let script = "mkdir disk; mount -t tmpfs -o size=1m none disk";
    let Some(disks) = Disks::mounted(script) else {
        return;
    };
    let server = Serving::start(&disks.env, &[]);
    server
        .client()
        .post("/api/threads", &json!({ "id": "t" }))
        .ok();
    let append = |address: &str, arguments: &[&str]| {
        let holm = disks.env.holm::<[&str; 0]>([]);
        let mut command = disks.inside(holm.get_program());
        command
            .args(["thread", "append", "t", "--spool", "disk/spool", "--json"])
            .args(arguments)
            .env("HOLM_API_URL", format!("http://{address}"));
        disks.env.finish(command.spawn().unwrap())
    };
    // Nobody listens there.
    let nowhere = "127.0.0.1:1";
    let mut kept = 0;
    for entry_bytes in [100_000, 10_000, 1_000, 10, 1] {
        let text = "x".repeat(entry_bytes);
        loop {
            let id = format!("{entry_bytes}-{kept}");
            let appended = append(nowhere, &["--patience", "1ms", "--id", &id, &text]);
            assert_eq!(appended.code(), Some(1), "{appended}");
            let said = appended.errors();
            if said.contains("make room on the disk of the spool") {
                assert!(said.contains("disk/spool"), "{said}");
                break;
            }
            assert!(said.contains("left, which the spool keeps"), "{said}");
            kept += 1;
        }
    }
    disks.run("head -c 1m /dev/zero >disk/other || true");
    let flushed = append(&server.address, &["--flush"]);
    assert_eq!(flushed.code(), Some(0), "{flushed}");
    let listed = server
        .client()
        .get("/api/threads/t/entries?limitBytes=4194304")
        .ok();
    let entries = listed["entries"].as_array().unwrap();
    assert!(kept > 10, "{kept}");
    assert_eq!(entries.len(), kept + 1);
    // And it takes more.
    let appended = append(&server.address, &["after"]);
    assert_eq!(appended.code(), Some(0), "{appended}");
}
