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
fn no_profile_refuses_what_strict_allows() {
    for group in GROUPS.iter().filter(|group| group.strict == Verdict::Allow) {
        for profile in Profile::ALL {
            assert_eq!(group.verdict(profile), Verdict::Allow, "{}", group.name);
        }
    }
}

#[test]
fn the_image_profile_is_strict_but_for_what_packages_need() {
    let differ = GROUPS.iter().filter(|group| group.image != group.strict);
    let names: Vec<&str> = differ.map(|group| group.name).collect();
    assert_eq!(
        names,
        [
            "files that lend their owner's power",
            "openat2",
            "another root folder"
        ]
    );
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
