//! The tables, the program as an interpreter sees it, and the program in the kernel.

mod confined;
mod decisions;

use std::collections::BTreeMap;

use super::*;

#[test]
fn every_group_says_why() {
    for group in GROUPS {
        assert!(!group.name.is_empty());
        assert!(group.reason.len() > 20, "{}: {}", group.name, group.reason);
        assert!(!group.syscalls.is_empty(), "{}", group.name);
    }
}

#[test]
fn no_call_stands_in_two_groups() {
    let mut seen = BTreeMap::new();
    for group in GROUPS {
        for syscall in group.syscalls {
            let before = seen.insert(syscall.number, group.name);
            assert_eq!(
                before,
                None,
                "{} is also in `{}`",
                syscall.name(),
                group.name
            );
        }
    }
}

#[test]
fn clauses_stand_where_they_are_read() {
    for group in GROUPS {
        let decided_by_arguments = matches!(group.strict, Verdict::RefuseMatching(_));
        for syscall in group.syscalls {
            assert_eq!(
                decided_by_arguments,
                !syscall.clauses.is_empty(),
                "{}",
                syscall.name()
            );
        }
    }
}

#[test]
fn nested_refuses_nothing_that_strict_allows() {
    for group in GROUPS.iter().filter(|group| group.strict == Verdict::Allow) {
        assert_eq!(group.nested, Verdict::Allow, "{}", group.name);
    }
}

#[test]
fn reference_names_every_call() {
    let page = render_markdown();
    for syscall in GROUPS.iter().flat_map(|group| group.syscalls) {
        assert!(
            page.contains(&format!("`{}`", syscall.name())),
            "{}",
            syscall.name()
        );
    }
}
