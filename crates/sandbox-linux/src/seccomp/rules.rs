//! The shape of the filter's data: groups of calls, and tests of their arguments.

use libc::c_long;
use serde::{Deserialize, Serialize};

/// The errors with which calls are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errno {
    NotPermitted,
    NotImplemented,
    AddressFamilyNotSupported,
}

impl Errno {
    pub(super) const fn number(self) -> u32 {
        let number = match self {
            Self::NotPermitted => libc::EPERM,
            Self::NotImplemented => libc::ENOSYS,
            Self::AddressFamilyNotSupported => libc::EAFNOSUPPORT,
        };
        number.cast_unsigned()
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::NotPermitted => "EPERM",
            Self::NotImplemented => "ENOSYS",
            Self::AddressFamilyNotSupported => "EAFNOSUPPORT",
        }
    }
}

/// How much a box may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    /// No namespaces and no mounts: the default.
    Strict,
    /// Strict, and what bubblewrap and its like need to make a sandbox inside the box.
    Nested,
    /// Strict, and what root of an image needs to install packages.
    Image,
}

/// What a profile does with the calls of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// The call fails with this error, whatever its arguments.
    Refuse(Errno),
    /// The call fails with this error if one of its clauses matches, and is allowed otherwise.
    RefuseMatching(Errno),
}

/// Calls that are treated alike for the same reason.
#[derive(Debug)]
pub struct Group {
    pub name: &'static str,
    pub reason: &'static str,
    pub strict: Verdict,
    pub nested: Verdict,
    pub image: Verdict,
    pub syscalls: &'static [Syscall],
}

impl Profile {
    pub const ALL: [Self; 3] = [Self::Strict, Self::Nested, Self::Image];
}

impl Group {
    pub const fn verdict(&self, profile: Profile) -> Verdict {
        match profile {
            Profile::Strict => self.strict,
            Profile::Nested => self.nested,
            Profile::Image => self.image,
        }
    }
}

#[derive(Debug)]
pub struct Syscall {
    constant: &'static str,
    pub number: c_long,
    /// Read only where the group's verdict is [`Verdict::RefuseMatching`].
    pub clauses: &'static [Clause],
}

impl Syscall {
    /// `constant` is the name with its prefix `SYS_`.
    pub(super) const fn new(
        constant: &'static str,
        number: c_long,
        clauses: &'static [Clause],
    ) -> Self {
        Self {
            constant,
            number,
            clauses,
        }
    }

    pub fn name(&self) -> &'static str {
        self.constant.strip_prefix("SYS_").unwrap_or(self.constant)
    }
}

/// Matches when all of its tests hold.
#[derive(Debug)]
pub struct Clause {
    pub meaning: &'static str,
    pub tests: &'static [ArgumentTest],
}

/// A test of the low 32 bits of one argument.
///
/// Every argument that the tables test is 32 bits wide or less in the kernel, which ignores the
/// high half of the register: a test of all 64 bits could be dodged by setting a bit up there.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentTest {
    pub index: u8,
    pub comparison: Comparison,
    pub value: u32,
}

#[derive(Debug, Clone, Copy)]
pub enum Comparison {
    Equal,
    NotEqual,
    /// The bits under this mask are equal to the value.
    MaskedEqual(u32),
    /// At least one bit of the value is set.
    AnyBit,
}

pub(super) const fn equal(index: u8, value: u32) -> ArgumentTest {
    ArgumentTest {
        index,
        comparison: Comparison::Equal,
        value,
    }
}

pub(super) const fn not_equal(index: u8, value: u32) -> ArgumentTest {
    ArgumentTest {
        index,
        comparison: Comparison::NotEqual,
        value,
    }
}

pub(super) const fn masked(index: u8, mask: u32, value: u32) -> ArgumentTest {
    ArgumentTest {
        index,
        comparison: Comparison::MaskedEqual(mask),
        value,
    }
}

pub(super) const fn any_bit(index: u8, bits: u32) -> ArgumentTest {
    ArgumentTest {
        index,
        comparison: Comparison::AnyBit,
        value: bits,
    }
}

pub(super) const fn has_flag(index: u8, flag: u32) -> ArgumentTest {
    masked(index, flag, flag)
}
