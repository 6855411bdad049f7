//! Rules for Rust files: size, the opening comment, and what libraries may not do.

use std::collections::HashSet;

use super::rust_text::{code_only, test_module_lines};
use super::text::has_word;
use super::{Finding, SourceFile};

const LINES_MAX: usize = 500;

/// The only crate that speaks to the kernel itself.
const UNSAFE_CRATE: &str = "crates/sandbox-linux/";

/// Crates that are not libraries for users: the binary, and the tools of the tests.
const NOT_LIBRARIES: [&str; 2] = ["crates/cli/", "crates/testkit/"];

/// Belongs to `crates/cli`, which hands down what libraries need.
const FORBIDDEN_IN_LIBRARIES: [(&str, &str); 6] = [
    ("println!", "a library does not print"),
    ("print!", "a library does not print"),
    ("eprintln!", "a library does not print"),
    ("eprint!", "a library does not print"),
    ("std::env::", "a library does not read the environment"),
    ("process::exit", "a library does not end the process"),
];

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let line_count = file.text.lines().count();
    if line_count > LINES_MAX {
        let message = format!("{line_count} lines are more than {LINES_MAX}: divide the file");
        findings.push(Finding::new(file, LINES_MAX + 1, message));
    }
    if is_module(&file.path) && !file.text.starts_with("//!") {
        let message = "a module opens with `//!` and what it is for";
        findings.push(Finding::new(file, 1, message));
    }

    let code = code_only(&file.text);
    if !file.path.starts_with(UNSAFE_CRATE) {
        for (index, line) in code.lines().enumerate() {
            if has_word(line, "unsafe") {
                let message = format!("unsafe code belongs to {UNSAFE_CRATE}");
                findings.push(Finding::new(file, index + 1, message));
            }
        }
    }
    if is_library_code(&file.path) {
        let test_lines: HashSet<usize> = test_module_lines(&code).into_iter().collect();
        for (index, line) in code.lines().enumerate() {
            if test_lines.contains(&(index + 1)) {
                continue;
            }
            for (call, reason) in FORBIDDEN_IN_LIBRARIES {
                if has_call(line, call) {
                    findings.push(Finding::new(file, index + 1, format!("`{call}`: {reason}")));
                }
            }
        }
    }
    findings
}

fn is_module(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/")
}

fn is_library_code(path: &str) -> bool {
    is_module(path)
        && !NOT_LIBRARIES
            .iter()
            .any(|not_library| path.starts_with(not_library))
        && !is_test_file(path)
}

/// `tests.rs`, `tests_of_something.rs`, `something_tests.rs`, and all below a folder `tests`.
fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/")
        || name == "tests.rs"
        || name.starts_with("tests_")
        || name.ends_with("_tests.rs")
}

/// Like [`has_word`], for calls whose last character is not part of a name.
fn has_call(line: &str, call: &str) -> bool {
    line.match_indices(call).any(|(start, _)| {
        !line[..start].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let file = SourceFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        check(&file).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_files_are_found() {
        let text = "//! x\n".repeat(LINES_MAX);
        assert_eq!(messages("xtask/src/a.rs", &text), [""; 0]);
        let found = messages("xtask/src/a.rs", &(text + "\n"));
        assert_eq!(
            found,
            ["xtask/src/a.rs:501: 501 lines are more than 500: divide the file"]
        );
    }

    #[test]
    fn modules_of_crates_open_with_their_duty() {
        assert_eq!(
            messages("crates/cli/src/main.rs", "fn main() {}\n").len(),
            1
        );
        assert_eq!(
            messages("crates/cli/src/main.rs", "//! The CLI.\n").len(),
            0
        );
        assert_eq!(
            messages("crates/cli/tests/all.rs", "fn main() {}\n").len(),
            0
        );
    }

    #[test]
    fn unsafe_code_is_for_one_crate() {
        let text = "//! unsafe\nfn f() { unsafe { g() } }\n";
        assert_eq!(messages("crates/sandbox-linux/src/a.rs", text), [""; 0]);
        assert_eq!(
            messages("crates/sandbox/src/a.rs", text),
            ["crates/sandbox/src/a.rs:2: unsafe code belongs to crates/sandbox-linux/"]
        );
        assert_eq!(
            messages("crates/sandbox/src/a.rs", "//! x\n#![deny(unsafe_code)]\n").len(),
            0
        );
    }

    #[test]
    fn libraries_neither_print_nor_look_around() {
        let text = "//! x\nfn f() { println!(\"a\"); std::process::exit(1) }\n";
        assert_eq!(
            messages("crates/sandbox/src/a.rs", text),
            [
                "crates/sandbox/src/a.rs:2: `println!`: a library does not print",
                "crates/sandbox/src/a.rs:2: `process::exit`: a library does not end the process",
            ]
        );
        assert_eq!(messages("crates/cli/src/a.rs", text), [""; 0]);
        assert_eq!(messages("crates/sandbox/src/tests.rs", text), [""; 0]);
        assert_eq!(
            messages("crates/sandbox/src/tests_kernel.rs", text),
            [""; 0]
        );
        let tests = "//! x\n#[cfg(test)]\nmod tests {\n    fn f() { println!() }\n}\n";
        assert_eq!(messages("crates/sandbox/src/a.rs", tests), [""; 0]);
    }
}
