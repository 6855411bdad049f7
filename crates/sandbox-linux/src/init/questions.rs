//! Answering the host's questions, each on the socket that came with it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::Init;
use super::store::Parked;
use crate::protocol::{Loopback, Question, Reply};
use crate::{process_tree, wire};

impl Init {
    pub(super) fn answer(&mut self, question: Question, descriptors: Vec<OwnedFd>) {
        let mut descriptors = descriptors.into_iter();
        let Some(socket) = descriptors.next() else {
            return;
        };
        let (reply, made) = match question {
            Question::Root => descriptor_or_error(open_root()),
            Question::Park { name, note } => {
                let descriptors = descriptors.collect();
                let reply = match self.store.park(name, Parked { note, descriptors }) {
                    Ok(()) => Reply::Done,
                    Err(errno) => Reply::Failed { errno },
                };
                (reply, None)
            }
            Question::Fetch { name } => match self.store.get(&name) {
                Some(parked) => {
                    let reply = Reply::Parked {
                        note: parked.note.clone(),
                    };
                    let descriptors: Vec<BorrowedFd<'_>> =
                        parked.descriptors.iter().map(AsFd::as_fd).collect();
                    send(&socket, &reply, &descriptors);
                    return;
                }
                None => (Reply::NotParked, None),
            },
            Question::Unpark { name } => {
                self.store.remove(&name);
                (Reply::Done, None)
            }
            Question::ParkedNames { after } => {
                (Reply::Names(self.store.names_after(after.as_deref())), None)
            }
            Question::Connect { port, loopback } => descriptor_or_error(connect(port, loopback)),
            Question::CountProcesses => (Reply::Count(process_tree::count_others()), None),
            Question::Listen { port } => descriptor_or_error(listen(port)),
        };
        let descriptors: Vec<BorrowedFd<'_>> = made.iter().map(AsFd::as_fd).collect();
        send(&socket, &reply, &descriptors);
    }
}

/// Sends the one reply. Descriptors may be refused by the kernel when too many are on their way; then that is the reply.
fn send(socket: &OwnedFd, reply: &Reply, descriptors: &[BorrowedFd<'_>]) {
    if let Err(error) = wire::send(socket, reply, descriptors) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        // A host that has stopped waiting has closed the other end.
        drop(wire::send(socket, &Reply::Failed { errno }, &[]));
    }
}

fn descriptor_or_error(made: rustix::io::Result<OwnedFd>) -> (Reply, Option<OwnedFd>) {
    match made {
        Ok(descriptor) => (Reply::Descriptor, Some(descriptor)),
        Err(error) => {
            let errno = error.raw_os_error();
            (Reply::Failed { errno }, None)
        }
    }
}

fn open_root() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(
        c"/",
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
}

/// Connections that may wait to be accepted by the host.
const BACKLOG: i32 = 128;

fn stream_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// Begins a connection. Whoever listens is the box's and may never accept: only the host waits for it.
fn connect(port: u16, loopback: Loopback) -> rustix::io::Result<OwnedFd> {
    let (family, address) = match loopback {
        Loopback::V4 => (AddressFamily::INET, Ipv4Addr::LOCALHOST.into()),
        Loopback::V6 => (AddressFamily::INET6, Ipv6Addr::LOCALHOST.into()),
    };
    let socket = stream_socket(family)?;
    match rustix::net::connect(&socket, &SocketAddr::new(address, port)) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn listen(port: u16) -> rustix::io::Result<OwnedFd> {
    let socket = stream_socket(AddressFamily::INET)?;
    // Connections of an earlier listener that are still being closed are no reason to wait.
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}
