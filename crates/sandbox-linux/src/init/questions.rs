//! Answering the host's questions, each on the socket that came with it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Init;
use super::store::Parked;
use crate::protocol::{Question, Reply};
use crate::wire;

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
                    drop(wire::send(&socket, &reply, &descriptors));
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
        };
        let descriptors: Vec<BorrowedFd<'_>> = made.iter().map(AsFd::as_fd).collect();
        // A host that has stopped waiting has closed the other end.
        drop(wire::send(&socket, &reply, &descriptors));
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
