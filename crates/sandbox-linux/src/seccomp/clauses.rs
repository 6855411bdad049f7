//! Which arguments make a call refused, for the groups whose verdict depends on them.

use libc::*;

use super::rules::{Clause, any_bit, equal, has_flag, masked, not_equal};

const UNIX: u32 = AF_UNIX.cast_unsigned();
const INET: u32 = AF_INET.cast_unsigned();
const INET6: u32 = AF_INET6.cast_unsigned();
const NETLINK: u32 = AF_NETLINK.cast_unsigned();

/// The bits that lend a file's owner and group to whoever runs it.
const LENT: u32 = S_ISUID | S_ISGID;

/// The flags of `open` that make a file; without them its mode is whatever the register holds.
const MAKES_FILE: u32 = (O_CREAT | (O_TMPFILE & !O_DIRECTORY)).cast_unsigned();

/// The kernel keeps flags such as `SOCK_CLOEXEC` above these bits of a socket's type.
const SOCKET_TYPE_MASK: u32 = 0xf;

pub(super) static SOCKET_REFUSALS: &[Clause] = &[
    Clause {
        meaning: "the family is not AF_UNIX, AF_INET, AF_INET6 or AF_NETLINK",
        tests: &[
            not_equal(0, UNIX),
            not_equal(0, INET),
            not_equal(0, INET6),
            not_equal(0, NETLINK),
        ],
    },
    Clause {
        meaning: "AF_NETLINK other than NETLINK_ROUTE",
        tests: &[
            equal(0, NETLINK),
            not_equal(2, NETLINK_ROUTE.cast_unsigned()),
        ],
    },
    // Without a protocol, this type of IP socket is SCTP.
    Clause {
        meaning: "SOCK_SEQPACKET outside AF_UNIX",
        tests: &[
            not_equal(0, UNIX),
            masked(1, SOCKET_TYPE_MASK, SOCK_SEQPACKET.cast_unsigned()),
        ],
    },
    Clause {
        meaning: "SOCK_DCCP",
        tests: &[masked(1, SOCKET_TYPE_MASK, SOCK_DCCP.cast_unsigned())],
    },
    Clause {
        meaning: "SCTP",
        tests: &[equal(2, IPPROTO_SCTP.cast_unsigned())],
    },
    Clause {
        meaning: "DCCP",
        tests: &[equal(2, IPPROTO_DCCP.cast_unsigned())],
    },
    Clause {
        meaning: "L2TP",
        tests: &[equal(2, 115)],
    },
];

pub(super) static SOCKETPAIR_REFUSALS: &[Clause] = &[Clause {
    meaning: "the family is not AF_UNIX",
    tests: &[not_equal(0, UNIX)],
}];

// The values are the same on both machines; `libc` gives them another type per C library.
pub(super) static IOCTL_REFUSALS: &[Clause] = &[
    Clause {
        meaning: "TIOCSTI",
        tests: &[equal(1, 0x5412)],
    },
    Clause {
        meaning: "TIOCLINUX",
        tests: &[equal(1, 0x541c)],
    },
    Clause {
        meaning: "TIOCSETD",
        tests: &[equal(1, 0x5423)],
    },
];

pub(super) static PERSONALITY_REFUSALS: &[Clause] = &[Clause {
    meaning: "not one of PER_LINUX, PER_LINUX32, either with ADDR_NO_RANDOMIZE, or 0xffffffff",
    tests: &[
        not_equal(0, 0x0),
        not_equal(0, 0x8),
        not_equal(0, 0x4_0000),
        not_equal(0, 0x4_0008),
        not_equal(0, 0xffff_ffff),
    ],
}];

// CLONE_NEWTIME is missing: its bit belongs to the exit signal in `clone`.
pub(super) static CLONE_REFUSALS: &[Clause] = &[
    Clause {
        meaning: "CLONE_NEWUSER",
        tests: &[has_flag(0, CLONE_NEWUSER.cast_unsigned())],
    },
    Clause {
        meaning: "CLONE_NEWNS",
        tests: &[has_flag(0, CLONE_NEWNS.cast_unsigned())],
    },
    Clause {
        meaning: "CLONE_NEWPID",
        tests: &[has_flag(0, CLONE_NEWPID.cast_unsigned())],
    },
    Clause {
        meaning: "CLONE_NEWNET",
        tests: &[has_flag(0, CLONE_NEWNET.cast_unsigned())],
    },
    Clause {
        meaning: "CLONE_NEWIPC",
        tests: &[has_flag(0, CLONE_NEWIPC.cast_unsigned())],
    },
    Clause {
        meaning: "CLONE_NEWUTS",
        tests: &[has_flag(0, CLONE_NEWUTS.cast_unsigned())],
    },
    Clause {
        meaning: "CLONE_NEWCGROUP",
        tests: &[has_flag(0, CLONE_NEWCGROUP.cast_unsigned())],
    },
];

#[cfg(target_arch = "x86_64")]
pub(super) static MKNOD_REFUSALS: &[Clause] = &[
    Clause {
        meaning: "a character device",
        tests: &[masked(1, S_IFMT, S_IFCHR)],
    },
    Clause {
        meaning: "a block device",
        tests: &[masked(1, S_IFMT, S_IFBLK)],
    },
    Clause {
        meaning: "setuid or setgid",
        tests: &[any_bit(1, LENT)],
    },
];

pub(super) static MKNODAT_REFUSALS: &[Clause] = &[
    Clause {
        meaning: "a character device",
        tests: &[masked(2, S_IFMT, S_IFCHR)],
    },
    Clause {
        meaning: "a block device",
        tests: &[masked(2, S_IFMT, S_IFBLK)],
    },
    Clause {
        meaning: "setuid or setgid",
        tests: &[any_bit(2, LENT)],
    },
];

/// For calls whose second argument is a mode.
pub(super) static MODE_1_REFUSALS: &[Clause] = &[Clause {
    meaning: "setuid or setgid",
    tests: &[any_bit(1, LENT)],
}];

/// For calls whose third argument is a mode.
pub(super) static MODE_2_REFUSALS: &[Clause] = &[Clause {
    meaning: "setuid or setgid",
    tests: &[any_bit(2, LENT)],
}];

#[cfg(target_arch = "x86_64")]
pub(super) static OPEN_REFUSALS: &[Clause] = &[Clause {
    meaning: "makes a file with setuid or setgid",
    tests: &[any_bit(1, MAKES_FILE), any_bit(2, LENT)],
}];

pub(super) static OPENAT_REFUSALS: &[Clause] = &[Clause {
    meaning: "makes a file with setuid or setgid",
    tests: &[any_bit(2, MAKES_FILE), any_bit(3, LENT)],
}];
