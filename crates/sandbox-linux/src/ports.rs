//! TCP ports of a box, reached from the host: init makes the sockets, in the box's network, and hands them out.
//!
//! A box on the host's network has the host's ports: whoever offers these functions to others decides whether they
//! may be used then.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::boxes::LinuxBox;
use crate::error::{EngineError, Result};
use crate::protocol::{Loopback, Question};

/// A program with a full backlog leaves new connections hanging; the kernel alone would try for two minutes.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// The kernel lists what listens first, and the box decides how much comes after.
const TABLE_BYTES_MAX: u64 = 4 * 1024 * 1024;

const CONNECTING: &str = "connect to a port of";
const LISTENING: &str = "list the ports of";

impl LinuxBox {
    /// A connection to 127.0.0.1 (or else ::1) in the box, non-blocking.
    ///
    /// Takes at most a few seconds, and usually no time at all.
    pub fn connect(&self, port: u16) -> Result<OwnedFd> {
        for loopback in [Loopback::V4, Loopback::V6] {
            match self.connect_to(port, loopback) {
                Err(EngineError::Control { source, .. }) if is_refusal(&source) => {}
                outcome => return outcome,
            }
        }
        Err(EngineError::NothingListens {
            id: self.id().to_owned(),
            port,
        })
    }

    fn connect_to(&self, port: u16, loopback: Loopback) -> Result<OwnedFd> {
        let socket = self.ask_for(CONNECTING, Question::Connect { port, loopback })?;
        wait_connected(&socket).map_err(|source| self.failed(CONNECTING, source))?;
        Ok(socket)
    }

    /// A socket that listens on 127.0.0.1 in the box, non-blocking, for a service that the host offers inside.
    ///
    /// Port 0 lets the kernel choose. Programs in the box cannot tell it from one of their own, and the port is taken
    /// as long as the socket is open.
    pub fn bind(&self, port: u16) -> Result<OwnedFd> {
        self.ask_for("listen on a port of", Question::Listen { port })
    }

    /// The ports that [`LinuxBox::connect`] would reach, in order.
    pub fn listening_ports(&self) -> Result<Vec<u16>> {
        let mut ports = BTreeSet::new();
        for name in ["tcp", "tcp6"] {
            let path = format!("/proc/{}/net/{name}", self.pid());
            match read_table(&path) {
                Ok(table) => ports.extend(parse_table(&table)),
                // A kernel without IPv6, or a box that has ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(self.failed(LISTENING, source)),
            }
        }
        // Asked afterwards: the number was init's all the while.
        if self.is_running() {
            Ok(ports.into_iter().collect())
        } else {
            Err(EngineError::NotRunning {
                id: self.id().to_owned(),
            })
        }
    }
}

/// Whether nobody is there, as opposed to somebody who does not answer.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        // The others are a kernel or a box without IPv6.
        Some(libc::ECONNREFUSED | libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL | libc::ENETUNREACH)
    )
}

fn wait_connected(socket: &OwnedFd) -> io::Result<()> {
    let until = Instant::now() + CONNECT_PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut waited = [PollFd::new(socket, PollFlags::OUT)];
        match rustix::event::poll(&mut waited, Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {
                rustix::net::sockopt::socket_error(socket)??;
                // Where nobody listens, TCP may by chance connect a socket to itself.
                let own = rustix::net::getsockname(socket)?;
                if rustix::net::getpeername(socket) == Ok(Some(own)) {
                    return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
                }
                return Ok(());
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn read_table(path: &str) -> io::Result<String> {
    let mut table = String::new();
    File::open(path)?
        .take(TABLE_BYTES_MAX)
        .read_to_string(&mut table)?;
    Ok(table)
}

/// Ports of lines like `  0: 0100007F:1F90 00000000:0000 0A …` that a connection to the loopback reaches.
fn parse_table(table: &str) -> impl Iterator<Item = u16> {
    table.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (address, port) = fields.nth(1)?.split_once(':')?;
        let is_listening = fields.nth(1)? == "0A";
        let address = parse_address(address)?;
        let is_reached = address.is_unspecified()
            || [Ipv4Addr::LOCALHOST.into(), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address);
        (is_listening && is_reached).then(|| u16::from_str_radix(port, 16).ok())?
    })
}

/// The kernel writes each 32 bits of an address as a number in the machine's own order.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |text: &str| Some(u32::from_str_radix(text, 16).ok()?.to_ne_bytes());
    if text.len() == 8 {
        return Some(Ipv4Addr::from(word(text)?).into());
    }
    let mut bytes = [0; 16];
    if text.len() != 32 {
        return None;
    }
    for (index, bytes) in bytes.chunks_exact_mut(4).enumerate() {
        bytes.copy_from_slice(&word(text.get(index * 8..index * 8 + 8)?)?);
    }
    Some(Ipv6Addr::from(bytes).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_within_reach_is_listed() {
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let zero = word([0; 4]);
        let cases = [
            (word([127, 0, 0, 1]), "1F90", "0A"),
            (zero.clone(), "0050", "0A"),
            // Connected, and bound to an address that is not asked.
            (word([127, 0, 0, 1]), "1F91", "01"),
            (word([127, 0, 0, 9]), "1F92", "0A"),
            (zero.repeat(4), "1F93", "0A"),
            (
                format!("{}{}", zero.repeat(3), word([0, 0, 0, 1])),
                "1F94",
                "0A",
            ),
            (
                [zero.repeat(2), word([0, 0, 255, 255]), word([127, 0, 0, 1])].concat(),
                "1F95",
                "0A",
            ),
            ("nonsense".into(), "1F96", "0A"),
        ];
        let mut table = "  sl  local_address rem_address   st tx_queue\n".to_owned();
        for (address, port, state) in cases {
            table += &format!("   0: {address}:{port} {zero}:0000 {state} 00000000:00000000\n");
        }
        // A table that was cut off.
        table += "   9: 0100";
        let ports: Vec<u16> = parse_table(&table).collect();
        assert_eq!(ports, [0x1f90, 0x50, 0x1f93, 0x1f94, 0x1f95]);
    }
}
