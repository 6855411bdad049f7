//! Terminals and signals over SSH. The terminal on this side is a real one, so that the real client does what it does
//! for a person.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;

use russh::client::{self, AuthResult};
use russh::keys::PublicKeyOrCertificate;
use russh::{ChannelMsg, Sig};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::ssh::Ssh;

/// A client at a terminal.
struct Person {
    client: Child,
    terminal: File,
    heard: String,
}

impl Person {
    fn sit_down(ssh: &Ssh, size: [u16; 2]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        set_size(&ours, size);
        let client = ssh
            .client()
            .args(["-tt", "127.0.0.1"])
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs)
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self {
            client,
            terminal: ours.into(),
            heard: String::new(),
        }
    }

    fn type_in(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Reads on until a text comes.
    #[track_caller]
    fn hear(&mut self, expected: &str) {
        let mut chunk = [0; 4096];
        while !self.heard.contains(expected) {
            let count = self.terminal.read(&mut chunk).unwrap_or(0);
            assert!(count > 0, "{expected:?} did not come: {:?}", self.heard);
            let piece = String::from_utf8_lossy(&chunk[..count]).into_owned();
            self.heard.push_str(&piece);
        }
        let end = self.heard.find(expected).unwrap() + expected.len();
        self.heard.drain(..end);
    }

    fn resize(&self, size: [u16; 2]) {
        set_size(&self.terminal, size);
        // The terminal is not the client's own, so the kernel does not tell it.
        let pid = Pid::from_raw(i32::try_from(self.client.id()).unwrap()).unwrap();
        kill_process(pid, Signal::WINCH).unwrap();
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.client.kill().unwrap();
        self.client.wait().unwrap();
    }
}

fn set_size(terminal: &impl std::os::fd::AsFd, [rows, columns]: [u16; 2]) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

#[test]
fn a_terminal_has_the_clients_size_and_follows_it() {
    let ssh = Ssh::new();
    let mut person = Person::sit_down(&ssh, [31, 97]);
    // In two halves, so that the echo of what is typed is not taken for an answer.
    person.type_in("stty size; echo rea'dy'\n");
    person.hear("31 97");
    person.hear("ready");
    person.type_in("until [ \"$(stty size)\" = '52 141' ]; do sleep 0.02; done; echo chan'ged'\n");
    person.resize([52, 141]);
    person.hear("changed");
}

#[test]
fn ctrl_c_ends_what_runs_and_ctrl_d_the_shell() {
    let ssh = Ssh::new();
    let mut person = Person::sit_down(&ssh, [24, 80]);
    // Told by what is interrupted: the shell itself may not have handed the terminal over yet.
    person.type_in("sh -c 'echo be\"gun\"; exec sleep 1000'; echo code=$?\n");
    person.hear("begun");
    person.type_in("\x03");
    person.type_in("echo code=$?\n");
    person.hear("code=130");
    person.type_in("exit 9\n");
    assert_eq!(person.client.wait().unwrap().code(), Some(9));
    let mut person = Person::sit_down(&ssh, [24, 80]);
    // Typed before the shell reads a line, it would be an end of nothing.
    person.type_in("PS1='re''ady> '\n");
    person.hear("ready> ");
    person.type_in("\x04");
    assert_eq!(person.client.wait().unwrap().code(), Some(0));
}

struct Trusting;

impl client::Handler for Trusting {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        _key: &PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        Ok(true)
    }
}

/// OpenSSH's client sends none, other clients do.
#[test]
fn signals_reach_the_command_and_its_children() {
    let ssh = Ssh::new();
    let port: u16 = ssh.port.parse().unwrap();
    let script = "trap 'echo heard; exit 5' USR1; sh -c 'echo started; exec sleep 1000' & wait";
    let (output, code) = ssh.server.block_on(async {
        let config = Arc::new(client::Config::default());
        let connected = client::connect(config, ("127.0.0.1", port), Trusting).await;
        let mut connection = connected.unwrap();
        let entered = connection.authenticate_none(&ssh.token).await.unwrap();
        assert!(matches!(entered, AuthResult::Success), "{entered:?}");
        let mut channel = connection.channel_open_session().await.unwrap();
        channel.exec(true, script).await.unwrap();
        let (mut output, mut code) = (String::new(), None);
        while let Some(message) = channel.wait().await {
            if let ChannelMsg::Data { data } = &message {
                output.push_str(&String::from_utf8_lossy(data));
                if output == "started\n" {
                    // One that there is not, and one that there is.
                    channel.signal(Sig::Custom("XYZ".into())).await.unwrap();
                    channel.signal(Sig::USR1).await.unwrap();
                }
            }
            if let ChannelMsg::ExitStatus { exit_status } = message {
                code = Some(exit_status);
            }
        }
        (output, code)
    });
    assert_eq!(output, "started\nheard\n");
    assert_eq!(code, Some(5));
    // The sleeper had no trap.
    assert_eq!(ssh.execute("pgrep -cf 'sleep 100[0]'")["result"], "0\n");
}
