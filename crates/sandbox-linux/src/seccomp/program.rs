//! From the groups to one program for the kernel.
//!
//! seccompiler lays a program out as a chain, call after call, and needs one program for each error.
//! That is correct, but the kernel walks a new program once for each call it has, to learn which
//! are always allowed. Measured: three chains of 1,965 instructions took 1,050 µs to install, while a
//! whole box starts in 2,700 µs; this layout, a binary search over ranges of numbers, has 275
//! instructions and takes 85 µs.
//!
//! ```text
//!     machine is ours? ──no──▶ end the process
//!          │
//!     number ≥ a? ──▶ number ≥ b? ──▶ … ──▶ one answer, or the clauses of one call
//! ```
//!
//! **Invariant:** every number has exactly one range; numbers of no group answer `ENOSYS`. That
//! includes the x32 table of x86-64, whose numbers have bit 30 set.

use std::collections::BTreeMap;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET,
    BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS,
};
use seccompiler::{BpfProgram, sock_filter};

use super::{ArgumentTest, Clause, Comparison, Errno, GROUPS, Profile, SeccompError, Verdict};

// Offsets in the kernel's `struct seccomp_data`.
const NUMBER_OFFSET: u32 = 0;
const MACHINE_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;
const ARGUMENT_SIZE: u32 = 8;

/// `AUDIT_ARCH_*`: the ELF machine, with the bits for "64 bit" and "little endian".
#[cfg(target_arch = "x86_64")]
pub(super) const MACHINE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const MACHINE: u32 = 0xc000_00b7;

/// What a range of numbers is answered with.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Allow,
    Refuse(Errno),
    RefuseMatching(Errno, &'static [Clause]),
}

impl Answer {
    /// Two calls with clauses differ, whatever the clauses: they are not worth comparing.
    fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Allow, Self::Allow) => true,
            (Self::Refuse(one), Self::Refuse(two)) => one == two,
            (Self::Allow | Self::Refuse(_) | Self::RefuseMatching(..), _) => false,
        }
    }
}

/// The numbers from `first` up to the next range.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: u32,
    answer: Answer,
}

pub(super) fn compile(profile: Profile) -> Result<BpfProgram, SeccompError> {
    let mut program = vec![
        load(MACHINE_OFFSET),
        // The same numbers mean other calls on another machine.
        jump(BPF_JEQ, MACHINE, 1, 0),
        answer(SECCOMP_RET_KILL_PROCESS),
        load(NUMBER_OFFSET),
    ];
    program.extend(search(&ranges(profile)?)?);
    Ok(program)
}

/// Covers all numbers: the groups' calls, and `ENOSYS` between and after them.
fn ranges(profile: Profile) -> Result<Vec<Range>, SeccompError> {
    let mut answers = BTreeMap::new();
    for group in GROUPS {
        for syscall in group.syscalls {
            let number = u32::try_from(syscall.number).map_err(|_| SeccompError::Number {
                syscall: syscall.name(),
            })?;
            let answer = match group.verdict(profile) {
                Verdict::Allow => Answer::Allow,
                Verdict::Refuse(errno) => Answer::Refuse(errno),
                Verdict::RefuseMatching(errno) => Answer::RefuseMatching(errno, syscall.clauses),
            };
            answers.insert(number, answer);
        }
    }

    let unknown = Answer::Refuse(Errno::NotImplemented);
    let mut ranges = vec![Range {
        first: 0,
        answer: unknown,
    }];
    let mut next = 0;
    for (number, answer) in answers {
        if next < number {
            ranges.push(Range {
                first: next,
                answer: unknown,
            });
        }
        ranges.push(Range {
            first: number,
            answer,
        });
        next = number + 1;
    }
    ranges.push(Range {
        first: next,
        answer: unknown,
    });

    // Where two ranges begin at the same number, the first is empty.
    ranges.reverse();
    ranges.dedup_by_key(|range| range.first);
    ranges.reverse();
    ranges.dedup_by(|later, earlier| later.answer.is_same(earlier.answer));
    Ok(ranges)
}

fn search(ranges: &[Range]) -> Result<BpfProgram, SeccompError> {
    let (lower, upper) = match ranges {
        [] => return Ok(Vec::new()),
        [range] => return answers(range.answer),
        _ => ranges.split_at(ranges.len() / 2),
    };
    let Some(boundary) = upper.first().map(|range| range.first) else {
        return Ok(Vec::new());
    };
    let below = search(lower)?;
    let above = search(upper)?;

    let mut program = Vec::with_capacity(2 + below.len() + above.len());
    // A condition jumps 255 instructions at most; an unconditional jump goes any distance.
    if let Ok(distance) = u8::try_from(below.len()) {
        program.push(jump(BPF_JGE, boundary, distance, 0));
    } else {
        let distance = u32::try_from(below.len()).map_err(|_| SeccompError::TooLong)?;
        program.push(jump(BPF_JGE, boundary, 0, 1));
        program.push(instruction(BPF_JMP | BPF_JA, distance));
    }
    program.extend(below);
    program.extend(above);
    Ok(program)
}

fn answers(for_range: Answer) -> Result<BpfProgram, SeccompError> {
    Ok(match for_range {
        Answer::Allow => vec![answer(SECCOMP_RET_ALLOW)],
        Answer::Refuse(errno) => vec![answer(SECCOMP_RET_ERRNO | errno.number())],
        Answer::RefuseMatching(errno, clauses) => {
            let mut program = Vec::new();
            for clause in clauses {
                program.extend(refusal(clause, errno)?);
            }
            program.push(answer(SECCOMP_RET_ALLOW));
            program
        }
    })
}

/// Falls through to the instruction behind it as soon as one test fails.
fn refusal(clause: &Clause, errno: Errno) -> Result<BpfProgram, SeccompError> {
    // Written from the end, because each test has to know how far the end is.
    let mut reversed = vec![answer(SECCOMP_RET_ERRNO | errno.number())];
    for &ArgumentTest {
        index,
        comparison,
        value,
    } in clause.tests.iter().rev()
    {
        let to_end = u8::try_from(reversed.len()).map_err(|_| SeccompError::TooLong)?;
        let (condition, if_true, otherwise) = match comparison {
            Comparison::Equal | Comparison::MaskedEqual(_) => (BPF_JEQ, 0, to_end),
            Comparison::NotEqual => (BPF_JEQ, to_end, 0),
            Comparison::AnyBit => (BPF_JSET, 0, to_end),
        };
        reversed.push(jump(condition, value, if_true, otherwise));
        if let Comparison::MaskedEqual(mask) = comparison {
            reversed.push(instruction(BPF_ALU | BPF_AND | BPF_K, mask));
        }
        // Both machines are little endian: the low half comes first.
        reversed.push(load(ARGUMENTS_OFFSET + u32::from(index) * ARGUMENT_SIZE));
    }
    reversed.reverse();
    Ok(reversed)
}

fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn answer(value: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, value)
}

fn jump(condition: u32, value: u32, if_true: u8, if_false: u8) -> sock_filter {
    sock_filter {
        jt: if_true,
        jf: if_false,
        ..instruction(BPF_JMP | condition | BPF_K, value)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "operation codes fit in 8 bits"
)]
fn instruction(code: u32, value: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k: value,
    }
}
