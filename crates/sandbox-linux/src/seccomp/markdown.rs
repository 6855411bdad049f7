//! The filter's data as the page `docs/reference/seccomp.md`.

use std::fmt::Write as _;

use super::{Errno, GROUPS, Group, Profile, Verdict};

/// One page for all profiles: what is allowed, what is refused, and why.
pub fn render_markdown() -> String {
    let mut page = String::from(
        "# System calls in a box\n\n\
         A box runs under one of three profiles: `strict`, the default; `nested`, which also lets a \
         sandbox such as bubblewrap run inside the box; and `image`, for boxes on an image, whose root \
         may install packages. What stands in no table fails with `ENOSYS`, as \
         on a kernel that does not have the call; a call through the 32 bit table ends the process.\n",
    );
    section(&mut page, "Allowed", |group| group.strict == Verdict::Allow);
    section(&mut page, "Decided by the arguments", |group| {
        matches!(group.strict, Verdict::RefuseMatching(_))
    });
    section(&mut page, "Refused", |group| {
        matches!(group.strict, Verdict::Refuse(_))
    });
    page
}

fn section(page: &mut String, title: &str, belongs: impl Fn(&Group) -> bool) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(page, "\n## {title}");
    for group in GROUPS.iter().filter(|group| belongs(group)) {
        let _ = writeln!(
            page,
            "\n### {}\n\n{}\n",
            capitalize(group.name),
            group.reason
        );
        let [strict, nested, image] = Profile::ALL.map(|profile| describe(group.verdict(profile)));
        if strict == nested && strict == image {
            let _ = writeln!(page, "All profiles: {strict}.\n");
        } else {
            let _ = writeln!(
                page,
                "Strict: {strict}. Nested: {nested}. Image: {image}.\n"
            );
        }
        for syscall in group
            .syscalls
            .iter()
            .filter(|syscall| !syscall.clauses.is_empty())
        {
            for clause in syscall.clauses {
                let _ = writeln!(page, "- `{}`: {}", syscall.name(), clause.meaning);
            }
        }
        if group
            .syscalls
            .iter()
            .all(|syscall| syscall.clauses.is_empty())
        {
            let mut names: Vec<&str> = group.syscalls.iter().map(super::Syscall::name).collect();
            names.sort_unstable();
            let _ = writeln!(page, "`{}`", names.join("`, `"));
        }
    }
}

fn describe(verdict: Verdict) -> String {
    match verdict {
        Verdict::Allow => "allowed".to_owned(),
        Verdict::Refuse(errno) => format!("refused with `{}`", errno.name()),
        Verdict::RefuseMatching(errno) => refused_when(errno),
    }
}

fn refused_when(errno: Errno) -> String {
    format!(
        "allowed, except with these arguments, which give `{}`",
        errno.name()
    )
}

fn capitalize(name: &str) -> String {
    let mut characters = name.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
