//! Messages between the three parties of a box: host, spawner and init.
//!
//! A message is one packet on a `SOCK_SEQPACKET` socket: a postcard body with file descriptors beside
//! it. A body too big for a packet travels in a sealed memory file instead, so that a long argument
//! list is never a special case for the caller.
//!
//! **Invariant:** both ends are our own code and of the same build: the spawner and init are forks of
//! the host process. The one exception is a box that outlives its creator, hence [`WIRE_VERSION`].

use std::io;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Stored with every box that stays; a box of another version is stopped, not spoken to.
pub const WIRE_VERSION: u32 = 2;

/// Bodies above this go through a memory file. Well below the default socket buffer of 208 KiB.
const PACKET_BYTES_MAX: usize = 32 * 1024;
/// An upper bound for a body in a memory file: the kernel's own limit for arguments is 2 MiB + 6 MiB.
const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// File descriptors beside one message.
const DESCRIPTORS_MAX: usize = 64;

const INLINE: u8 = 0;
const IN_MEMORY_FILE: u8 = 1;

/// A connected pair of packet sockets, both closed on exec.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Sends one message with its descriptors.
pub(crate) fn send<M: Serialize>(
    socket: impl AsFd,
    message: &M,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
    if u64::try_from(body.len()).map_err(io::Error::other)? > BODY_BYTES_MAX {
        // The other side would take it for a broken conversation and hang up.
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    if body.len() <= PACKET_BYTES_MAX {
        return send_packet(socket, INLINE, &body, descriptors);
    }
    let memory = rustix::fs::memfd_create(
        c"holm-message",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    let mut file = std::fs::File::from(memory);
    file.write_all(&body)?;
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW,
    )?;
    let mut all = vec![file.as_fd()];
    all.extend_from_slice(descriptors);
    send_packet(socket, IN_MEMORY_FILE, &[], &all)
}

fn send_packet(
    socket: impl AsFd,
    form: u8,
    body: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many file descriptors for one message",
        ));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let head = [form];
    let parts = [IoSlice::new(&head), IoSlice::new(body)];
    loop {
        match rustix::net::sendmsg(&socket, &parts, &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives one message, or `None` when the other side is gone.
pub(crate) fn receive<M: DeserializeOwned>(
    socket: impl AsFd,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    receive_with(socket, RecvFlags::empty())
}

/// Reads a message and leaves it there, for whoever else has a copy of the socket.
pub(crate) fn peek<M: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<M>> {
    Ok(receive_with(socket, RecvFlags::PEEK)?.map(|(message, _)| message))
}

fn receive_with<M: DeserializeOwned>(
    socket: impl AsFd,
    flags: RecvFlags,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut packet = vec![0_u8; PACKET_BYTES_MAX + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX + 1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut packet)];
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(&socket, &mut parts, &mut ancillary, flags) {
            Ok(received) => break received,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message was cut off",
        ));
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let body = packet.get(1..received.bytes).unwrap_or_default();
    let message = match packet.first() {
        Some(&INLINE) => decode(body)?,
        Some(&IN_MEMORY_FILE) if !descriptors.is_empty() => {
            let mut file = std::fs::File::from(descriptors.remove(0));
            let mut bytes = Vec::new();
            // The sender's file offset is shared with us and stands at the end.
            io::Seek::rewind(&mut file)?;
            file.take(BODY_BYTES_MAX).read_to_end(&mut bytes)?;
            decode(&bytes)?
        }
        Some(_) | None => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message of unknown form",
            ));
        }
    };
    Ok(Some((message, descriptors)))
}

/// How long init may take to answer. It does nothing slow; one that is silent has been stopped.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// Receives the answer to an order, or an error if none comes.
pub(crate) fn receive_answer<M: DeserializeOwned>(
    socket: impl AsFd,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let until = Instant::now() + ANSWER_PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut waited = [PollFd::new(&socket, PollFlags::IN)];
        match rustix::event::poll(&mut waited, Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return receive(socket),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn decode<M: DeserializeOwned>(bytes: &[u8]) -> io::Result<M> {
    postcard::from_bytes(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_messages_arrive_with_their_descriptors() {
        for length in [0, 10, PACKET_BYTES_MAX - 8, PACKET_BYTES_MAX + 1, 3_000_000] {
            let (ours, theirs) = socket_pair().unwrap();
            let text = "x".repeat(length);
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            send(&ours, &text, &[writer.as_fd()]).unwrap();
            drop(writer);
            let (got, descriptors) = receive::<String>(&theirs).unwrap().unwrap();
            assert_eq!(got, text);
            assert_eq!(descriptors.len(), 1);
            rustix::io::write(&descriptors[0], b"hi").unwrap();
            let mut buffer = [0; 2];
            rustix::io::read(&reader, &mut buffer).unwrap();
            assert_eq!(&buffer, b"hi");
        }
    }

    #[test]
    fn a_message_that_the_other_side_would_not_take_is_not_sent() {
        let (ours, theirs) = socket_pair().unwrap();
        let bytes = usize::try_from(BODY_BYTES_MAX).unwrap();
        let error = send(&ours, &"x".repeat(bytes), &[]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::E2BIG));
        send(&ours, &7_u8, &[]).unwrap();
        assert_eq!(receive::<u8>(&theirs).unwrap().unwrap().0, 7);
    }

    #[test]
    fn a_message_that_was_looked_at_is_still_there() {
        let (ours, theirs) = socket_pair().unwrap();
        send(&ours, &7_u8, &[]).unwrap();
        drop(ours);
        for _ in 0..3 {
            assert_eq!(peek::<u8>(&theirs).unwrap(), Some(7));
        }
        assert_eq!(receive::<u8>(&theirs).unwrap().unwrap().0, 7);
        assert_eq!(peek::<u8>(&theirs).unwrap(), None);
    }

    #[test]
    fn a_closed_peer_is_an_end_and_not_an_error() {
        let (ours, theirs) = socket_pair().unwrap();
        drop(ours);
        assert!(receive::<u8>(&theirs).unwrap().is_none());
    }

    #[test]
    fn a_message_of_another_shape_is_refused() {
        let (ours, theirs) = socket_pair().unwrap();
        send(&ours, &7_u8, &[]).unwrap();
        assert!(receive::<String>(&theirs).is_err());
    }
}
