//! What a host process leaves with a box's init, so that the process after it finds its commands again.
//!
//! A command lives as long as somebody holds the host's end of its job socket. A copy that init keeps is such
//! an end: the command survives its host, its output waits in the pipes, and the word of its exit waits in the
//! socket, until the next host process attaches to the box and asks for it by name.
//!
//! **Invariant:** no descriptor of a folder or file enters a box, not even init's table. Only pipes, FIFOs, sockets and
//! terminals can be parked; anything else is refused before it is sent. Which socket it is remains the caller's promise:
//! one that reaches into the host is safe in init, and must not be handed to a command.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::FileType;

use crate::boxes::LinuxBox;
use crate::error::{EngineError, Result};
use crate::job::Job;
use crate::protocol::{
    PARKED_DESCRIPTORS_MAX, PARKED_NAME_BYTES_MAX, PARKED_NAMES_MAX, PARKED_NOTE_BYTES_MAX,
    Question, Reply,
};

/// What stands before the process id in the note of a parked command.
const JOB_NOTE: &[u8] = b"holm-job\0";

/// What was parked, back again. Init keeps its copies.
#[derive(Debug)]
pub struct Parked {
    pub note: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

impl LinuxBox {
    /// Leaves copies of these descriptors with init, in place of what had this name.
    ///
    /// At most 1024 names of 128 bytes, each with a note of 4 KiB and 8 descriptors. They stay until they are
    /// unparked or the box ends.
    pub fn park(&self, name: &str, note: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let refused = |reason: String| EngineError::CannotPark {
            id: self.id().to_owned(),
            name: name.to_owned(),
            reason,
        };
        if name.is_empty() || name.len() > PARKED_NAME_BYTES_MAX {
            let reason = format!("a name has 1 to {PARKED_NAME_BYTES_MAX} bytes");
            return Err(refused(reason));
        }
        if note.len() > PARKED_NOTE_BYTES_MAX {
            let reason = format!("a note has at most {PARKED_NOTE_BYTES_MAX} bytes");
            return Err(refused(reason));
        }
        if descriptors.len() > PARKED_DESCRIPTORS_MAX {
            let reason = format!("one name has at most {PARKED_DESCRIPTORS_MAX} descriptors");
            return Err(refused(reason));
        }
        if !descriptors.iter().all(may_enter) {
            return Err(refused(
                "only pipes, sockets and terminals may be parked".into(),
            ));
        }
        let question = Question::Park {
            name: name.to_owned(),
            note: note.to_vec(),
        };
        match self.ask("park descriptors in", question, descriptors) {
            Ok((Reply::Done, _)) => Ok(()),
            Ok((_, _)) => Err(refused("init gave an answer to another question".into())),
            Err(EngineError::Control { source, .. })
                if source.raw_os_error() == Some(libc::ENOSPC) =>
            {
                let reason = format!("it keeps {PARKED_NAMES_MAX} names already");
                Err(refused(reason))
            }
            Err(EngineError::Control { source, .. })
                if source.raw_os_error() == Some(libc::EMFILE) =>
            {
                Err(refused("its limit of open files is used up".into()))
            }
            Err(error) => Err(error),
        }
    }

    /// Copies of what was parked under this name.
    pub fn fetch(&self, name: &str) -> Result<Option<Parked>> {
        let doing = "fetch parked descriptors from";
        let question = Question::Fetch {
            name: name.to_owned(),
        };
        match self.ask(doing, question, &[])? {
            (Reply::Parked { note }, descriptors) => Ok(Some(Parked { note, descriptors })),
            (Reply::NotParked, _) => Ok(None),
            (_, _) => Err(self.failed(doing, std::io::ErrorKind::InvalidData.into())),
        }
    }

    /// Has init close what it keeps under this name. A name that is not in use is no error.
    pub fn unpark(&self, name: &str) -> Result<()> {
        let question = Question::Unpark {
            name: name.to_owned(),
        };
        self.ask("unpark descriptors in", question, &[]).map(drop)
    }

    /// The names in use, in order.
    pub fn parked(&self) -> Result<Vec<String>> {
        let doing = "list parked descriptors of";
        let mut names: Vec<String> = Vec::new();
        loop {
            let question = Question::ParkedNames {
                after: names.last().cloned(),
            };
            match self.ask(doing, question, &[])? {
                (Reply::Names(page), _) if page.is_empty() => return Ok(names),
                (Reply::Names(page), _) => names.extend(page),
                (_, _) => return Err(self.failed(doing, std::io::ErrorKind::InvalidData.into())),
            }
        }
    }

    /// A command that was parked with [`Job::park`], and the descriptors that were parked with it.
    ///
    /// It stays parked: unpark it when its end has been noted.
    pub fn resume(&self, name: &str) -> Result<Option<(Job, Vec<OwnedFd>)>> {
        let Some(parked) = self.fetch(name)? else {
            return Ok(None);
        };
        let pid = parked.note.strip_prefix(JOB_NOTE);
        let pid = pid.and_then(|pid| pid.try_into().ok());
        let mut descriptors = parked.descriptors.into_iter();
        match (pid.map(i32::from_le_bytes), descriptors.next()) {
            (Some(pid), Some(socket)) => {
                let job = Job::found_again(socket, pid, self.id());
                Ok(Some((job, descriptors.collect())))
            }
            (_, _) => Err(self.failed(
                "find a command again in",
                std::io::Error::new(
                    std::io::ErrorKind::InvalidData,
                    "what is parked under this name is no command",
                ),
            )),
        }
    }
}

impl Job {
    /// Leaves the command with the init of its box, with up to 7 more descriptors: its terminal (taken from the job
    /// before) or the host's ends of its pipes.
    ///
    /// From here on the command does not end when this process does, whatever it was started with. To end it after all,
    /// signal it, or unpark it and drop every copy.
    pub fn park(&self, home: &LinuxBox, name: &str, extra: &[BorrowedFd<'_>]) -> Result<()> {
        let note = [JOB_NOTE, &self.pid().to_le_bytes()].concat();
        let mut descriptors = vec![self.as_fd()];
        descriptors.extend_from_slice(extra);
        home.park(name, &note, &descriptors)
    }
}

fn may_enter(descriptor: &BorrowedFd<'_>) -> bool {
    let Ok(found) = rustix::fs::fstat(descriptor) else {
        return false;
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Fifo | FileType::Socket => true,
        FileType::CharacterDevice => rustix::termios::isatty(descriptor.as_fd()),
        FileType::RegularFile
        | FileType::Directory
        | FileType::Symlink
        | FileType::BlockDevice
        | FileType::Unknown => false,
    }
}
