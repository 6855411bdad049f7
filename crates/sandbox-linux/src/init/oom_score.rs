//! Who is ended first when the memory of a box runs out: its commands, never init, with which all would end.
//!
//! A process inherits the score of its parent, so init takes that of a command for the moment in which it starts one. The
//! file is opened while init is still its creator: afterwards it belongs to somebody who does not exist in the box.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

/// What commands have above init. The highest score of all is 1000.
const ABOVE_INIT: i32 = 500;
const SCORE_MAX: i32 = 1000;

#[derive(Debug)]
pub(super) struct OomScore {
    file: OwnedFd,
    init: i32,
}

impl OomScore {
    /// `None` where the host does not let us: then the kernel chooses by size alone.
    pub(super) fn open() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty()).ok()?;
        let mut text = [0; 16];
        let length = rustix::io::pread(&file, &mut text, 0).ok()?;
        let init = std::str::from_utf8(text.get(..length)?)
            .ok()?
            .trim()
            .parse()
            .ok()?;
        Some(Self { file, init })
    }

    pub(super) fn become_commands(&self) {
        self.set((self.init + ABOVE_INIT).min(SCORE_MAX));
    }

    pub(super) fn become_inits(&self) {
        self.set(self.init);
    }

    fn set(&self, score: i32) {
        // It was open to us once; should it not be any more, the command starts all the same.
        let _unchanged = rustix::io::pwrite(&self.file, score.to_string().as_bytes(), 0);
    }
}
