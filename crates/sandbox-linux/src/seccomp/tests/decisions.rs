//! What the compiled program answers, worked out by a small interpreter.
//!
//! This reaches what a test in the kernel cannot: other machines, the x32 table on a kernel without
//! it, and calls that would do damage if the filter let them through.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET,
    BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS,
};

use super::super::program::MACHINE;
use super::*;

const EPERM: u32 = SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ENOSYS: u32 = SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const EAFNOSUPPORT: u32 = SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;

/// What the filter sees of a call, as `struct seccomp_data` has it.
struct Call {
    number: u32,
    machine: u32,
    arguments: [u64; 6],
}

fn run(program: &BpfProgram, call: &Call) -> u32 {
    let mut words = vec![call.number, call.machine, 0, 0];
    for argument in call.arguments {
        for half in argument.to_le_bytes().chunks_exact(4) {
            words.push(u32::from_le_bytes(half.try_into().unwrap()));
        }
    }
    let mut accumulator = 0;
    let mut position = 0;
    loop {
        let instruction = &program[position];
        let value = instruction.k;
        let (if_true, if_false) = (instruction.jt as usize, instruction.jf as usize);
        position += 1;
        match u32::from(instruction.code) {
            code if code == BPF_LD | BPF_W | BPF_ABS => accumulator = words[value as usize / 4],
            code if code == BPF_ALU | BPF_AND | BPF_K => accumulator &= value,
            code if code == BPF_JMP | BPF_JA => position += value as usize,
            code if code == BPF_JMP | BPF_JEQ | BPF_K => {
                position += if accumulator == value {
                    if_true
                } else {
                    if_false
                };
            }
            code if code == BPF_JMP | BPF_JSET | BPF_K => {
                position += if accumulator & value != 0 {
                    if_true
                } else {
                    if_false
                };
            }
            code if code == BPF_JMP | BPF_JGE | BPF_K => {
                position += if accumulator >= value {
                    if_true
                } else {
                    if_false
                };
            }
            code if code == BPF_RET | BPF_K => return value,
            code => panic!("instruction {code:#x}"),
        }
    }
}

fn decide(profile: Profile, number: libc::c_long, arguments: &[u64]) -> u32 {
    let filters = Filters::prepared(profile).unwrap();
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let number = u32::try_from(number).unwrap();
    run(
        &filters.program,
        &Call {
            number,
            machine: MACHINE,
            arguments: all,
        },
    )
}

fn strict(number: libc::c_long, arguments: &[u64]) -> u32 {
    decide(Profile::Strict, number, arguments)
}

#[test]
fn every_number_gets_the_answer_of_its_group() {
    for profile in Profile::ALL {
        let mut expected = BTreeMap::new();
        for group in GROUPS {
            let answer = match group.verdict(profile) {
                Verdict::Allow => Some(SECCOMP_RET_ALLOW),
                Verdict::Refuse(errno) => Some(SECCOMP_RET_ERRNO | errno.number()),
                Verdict::RefuseMatching(_) => None,
            };
            for syscall in group.syscalls {
                expected.insert(syscall.number, answer);
            }
        }
        for number in 0..2000 {
            if let Some(answer) = expected.get(&number).copied().unwrap_or(Some(ENOSYS)) {
                assert_eq!(decide(profile, number, &[]), answer, "{profile:?} {number}");
            }
        }
    }
}

#[test]
fn numbers_of_the_x32_table_do_not_exist() {
    for number in 0..2000 {
        assert_eq!(strict(0x4000_0000 | number, &[]), ENOSYS);
        assert_eq!(decide(Profile::Nested, 0x4000_0000 | number, &[]), ENOSYS);
    }
    assert_eq!(strict(0xffff_ffff, &[]), ENOSYS);
}

#[test]
fn a_call_from_another_machine_ends_the_process() {
    let filters = Filters::build(Profile::Nested).unwrap();
    // 32 bit x86, 32 bit ARM, and nothing.
    for machine in [0x4000_0003, 0x4000_0028, 0] {
        let call = Call {
            number: 0,
            machine,
            arguments: [0; 6],
        };
        assert_eq!(run(&filters.program, &call), SECCOMP_RET_KILL_PROCESS);
    }
}

#[test]
fn sockets_of_rare_families_do_not_exist() {
    let socket = |family: i32, kind: i32, protocol: u64| {
        let [family, kind] = [family, kind].map(|value| u64::from(value.cast_unsigned()));
        strict(libc::SYS_socket, &[family, kind, protocol])
    };
    let stream = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
        assert_eq!(socket(family, stream, 0), SECCOMP_RET_ALLOW);
        assert_eq!(socket(family, libc::SOCK_DGRAM, 0), SECCOMP_RET_ALLOW);
    }
    assert_eq!(
        socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0),
        SECCOMP_RET_ALLOW
    );
    assert_eq!(
        socket(libc::AF_INET, stream, 262 /* MPTCP, Go's default */),
        SECCOMP_RET_ALLOW
    );
    assert_eq!(
        socket(libc::AF_NETLINK, libc::SOCK_RAW, 0),
        SECCOMP_RET_ALLOW
    );
    for protocol in 1..32 {
        assert_eq!(
            socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol),
            EAFNOSUPPORT
        );
    }
    for family in (0..64).filter(|family| ![1, 2, 10, 16].contains(family)) {
        assert_eq!(socket(family, stream, 0), EAFNOSUPPORT, "family {family}");
    }
    // SCTP and DCCP, by type and by protocol.
    let packets = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    assert_eq!(socket(libc::AF_INET, packets, 0), EAFNOSUPPORT);
    assert_eq!(socket(libc::AF_INET6, stream, 132), EAFNOSUPPORT);
    assert_eq!(socket(libc::AF_INET, libc::SOCK_DCCP, 33), EAFNOSUPPORT);
    assert_eq!(strict(libc::SYS_socketpair, &[1, 1, 0]), SECCOMP_RET_ALLOW);
    assert_eq!(strict(libc::SYS_socketpair, &[30, 1, 0]), EAFNOSUPPORT);
}

#[test]
fn clone_makes_processes_but_no_namespaces() {
    let thread = 0x003d_0f00;
    let fork = 0x0120_0011;
    let vfork = 0x4111;
    for flags in [thread, fork, vfork, 0x0000_1000 | 17] {
        assert_eq!(strict(libc::SYS_clone, &[flags]), SECCOMP_RET_ALLOW);
    }
    for bit in [17, 25, 26, 27, 28, 29, 30] {
        assert_eq!(
            strict(libc::SYS_clone, &[fork | 1 << bit]),
            EPERM,
            "bit {bit}"
        );
        assert_eq!(
            decide(Profile::Nested, libc::SYS_clone, &[fork | 1 << bit]),
            SECCOMP_RET_ALLOW
        );
    }
    assert_eq!(strict(libc::SYS_clone3, &[]), ENOSYS);
}

#[test]
fn device_nodes_are_refused_and_pipes_are_not() {
    for (kind, answer) in [
        (libc::S_IFCHR, EPERM),
        (libc::S_IFBLK, EPERM),
        (libc::S_IFIFO, SECCOMP_RET_ALLOW),
        (libc::S_IFSOCK, SECCOMP_RET_ALLOW),
        (libc::S_IFREG, SECCOMP_RET_ALLOW),
        (0, SECCOMP_RET_ALLOW),
    ] {
        let mode = u64::from(kind | 0o644);
        assert_eq!(strict(libc::SYS_mknodat, &[0, 0, mode, 0x103]), answer);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(strict(libc::SYS_mknod, &[0, mode, 0x103]), answer);
    }
}

#[test]
fn the_high_half_of_an_argument_hides_nothing() {
    let high = 0xdead_beef_0000_0000;
    assert_eq!(strict(libc::SYS_ioctl, &[0, high | 0x5412]), EPERM);
    assert_eq!(strict(libc::SYS_ioctl, &[0, high | 0x541c]), EPERM);
    assert_eq!(strict(libc::SYS_ioctl, &[0, high | 0x5423]), EPERM);
    assert_eq!(
        strict(libc::SYS_ioctl, &[0, high | 0x5413]),
        SECCOMP_RET_ALLOW
    );
    assert_eq!(strict(libc::SYS_socket, &[high | 40, 1, 0]), EAFNOSUPPORT);
    assert_eq!(strict(libc::SYS_clone, &[high | 0x1000_0000]), EPERM);
}

#[test]
fn personality_is_asked_and_set_to_harmless_values() {
    for value in [0, 8, 0x4_0000, 0x4_0008, 0xffff_ffff, u64::MAX] {
        assert_eq!(strict(libc::SYS_personality, &[value]), SECCOMP_RET_ALLOW);
    }
    // READ_IMPLIES_EXEC, MMAP_PAGE_ZERO, BSD.
    for value in [0x40_0000, 0x10_0000, 0x6] {
        assert_eq!(strict(libc::SYS_personality, &[value]), EPERM);
    }
}

/// Installing costs about 0.3 µs for each instruction, in every box.
#[test]
fn the_program_stays_short() {
    for profile in Profile::ALL {
        let count = Filters::build(profile).unwrap().instruction_count();
        assert!(count < 350, "{profile:?}: {count} instructions");
    }
}

#[test]
fn files_cannot_lend_their_owners_power() {
    let create = u64::from((libc::O_CREAT | libc::O_WRONLY).cast_unsigned());
    let temporary = u64::from((libc::O_TMPFILE | libc::O_RDWR).cast_unsigned());
    for lent in [0o4755, 0o2755, 0o6000] {
        assert_eq!(strict(libc::SYS_fchmod, &[3, lent]), EPERM);
        assert_eq!(strict(libc::SYS_fchmodat, &[3, 0, lent]), EPERM);
        assert_eq!(strict(libc::SYS_openat, &[3, 0, create, lent]), EPERM);
        assert_eq!(strict(libc::SYS_openat, &[3, 0, temporary, lent]), EPERM);
        // Garbage in the register of a mode that is not read.
        assert_eq!(
            strict(libc::SYS_openat, &[3, 0, 0, lent]),
            SECCOMP_RET_ALLOW
        );
    }
    assert_eq!(
        strict(libc::SYS_openat, &[3, 0, create, 0o1777]),
        SECCOMP_RET_ALLOW
    );
    assert_eq!(strict(libc::SYS_fchmod, &[3, 0o755]), SECCOMP_RET_ALLOW);
}
