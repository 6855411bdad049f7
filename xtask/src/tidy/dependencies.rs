//! Which crate may depend on which: dependencies point down.

use super::{Finding, SourceFile};

/// What a crate of the workspace may use, by the names of their folders. A new edge is a decision:
/// it is written down in ARCHITECTURE.md together with the change of this table.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "cli",
        &[
            "daytona-client",
            "daytona-wire",
            "egress",
            "images",
            "sandbox",
            "sandbox-backends",
            "sandbox-linux",
            "server",
            "store",
            "stream-proxy",
            "thread-client",
            "thread-log",
        ],
    ),
    (
        "server",
        &[
            "daytona-wire",
            "egress",
            "images",
            "sandbox",
            "sandbox-linux",
            "store",
            "thread-log",
        ],
    ),
    (
        "sandbox-backends",
        &[
            "client-tls",
            "daytona-client",
            "patch",
            "sandbox",
            "sandbox-linux",
        ],
    ),
    ("client-tls", &[]),
    ("images", &["sandbox-linux"]),
    ("daytona-client", &["client-tls", "daytona-wire", "sandbox"]),
    ("daytona-wire", &[]),
    ("egress", &["client-tls"]),
    ("store", &["client-tls", "thread-log"]),
    ("fuzz", &["daytona-wire", "patch", "thread-log"]),
    ("testkit", &["sandbox"]),
    ("testserver", &["sandbox-linux", "server"]),
    ("patch", &[]),
    ("sandbox", &[]),
    ("sandbox-linux", &[]),
    // Nothing that knows of threads: what it cannot know it cannot leak.
    ("stream-proxy", &["client-tls"]),
    ("thread-client", &["client-tls", "sandbox", "thread-log"]),
    ("thread-log", &[]),
    ("xtask", &[]),
];

/// Used by tests only, and by tests of any crate.
const TEST_CRATES: [&str; 2] = ["testkit", "testserver"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Test,
}

#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    line: usize,
    kind: Kind,
    name: String,
}

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    // The root's file names versions, it depends on nothing.
    let Some(crate_name) = crate_of(&file.path) else {
        return Vec::new();
    };
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == crate_name) else {
        let message = format!("`{crate_name}` has no row in the table of xtask/src/tidy");
        return vec![Finding::new(file, 1, message)];
    };
    let mut findings = Vec::new();
    for dependency in parse(&file.text) {
        let Some(used) = dependency.name.strip_prefix("holm-") else {
            if crate_name == "xtask" {
                let message = "xtask uses the standard library only";
                findings.push(Finding::new(file, dependency.line, message));
            }
            continue;
        };
        let is_allowed = match dependency.kind {
            Kind::Normal => allowed.contains(&used),
            // A crate that uses itself does so for features that only its tests have.
            Kind::Test => {
                allowed.contains(&used) || TEST_CRATES.contains(&used) || used == crate_name
            }
        };
        if !is_allowed {
            let message = format!("`{crate_name}` may not depend on `{used}`");
            findings.push(Finding::new(file, dependency.line, message));
        }
    }
    findings
}

fn crate_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    Some(folder.strip_prefix("crates/").unwrap_or(folder))
}

/// Reads as much of TOML as tables of dependencies use.
fn parse(toml: &str) -> Vec<Dependency> {
    let mut dependencies = Vec::new();
    let mut section = None;
    for (index, line) in toml.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            section = section_kind(header);
            // `[dependencies.name]` is a section for one dependency; its keys are not names.
            if let Some((kind, Some(name))) = section {
                dependencies.push(Dependency {
                    line: index + 1,
                    kind,
                    name: name.to_owned(),
                });
            }
            continue;
        }
        let Some((kind, None)) = section else {
            continue;
        };
        let Some((key, _)) = line.split_once('=') else {
            continue;
        };
        let name = key
            .trim()
            .split('.')
            .next()
            .unwrap_or_default()
            .trim_matches('"');
        if !name.is_empty() && !name.starts_with('#') {
            dependencies.push(Dependency {
                line: index + 1,
                kind,
                name: name.to_owned(),
            });
        }
    }
    dependencies
}

/// The kind of a section of dependencies, and the dependency's name when it is for one.
fn section_kind(header: &str) -> Option<(Kind, Option<&str>)> {
    for (word, kind) in [
        ("dev-dependencies", Kind::Test),
        ("build-dependencies", Kind::Normal),
        ("dependencies", Kind::Normal),
    ] {
        // Also `target.'cfg(…)'.dependencies`.
        if header == word || header.ends_with(&format!(".{word}")) {
            return Some((kind, None));
        }
        if let Some((before, name)) = header.rsplit_once(&format!("{word}."))
            && (before.is_empty() || before.ends_with('.'))
        {
            return Some((kind, Some(name)));
        }
    }
    None
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
    fn all_forms_of_dependencies_are_read() {
        let toml = "[package]\nname = \"a\"\n\n[dependencies]\n# no = 1\nb.workspace = true\n\
                    \"c\" = { path = \"x\" }\n[dev-dependencies]\nd = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\ne = \"1\"\n[dependencies.f]\nversion = \"1\"\n";
        let found: Vec<(String, Kind)> = parse(toml)
            .into_iter()
            .map(|found| (found.name, found.kind))
            .collect();
        let expected = [
            ("b", Kind::Normal),
            ("c", Kind::Normal),
            ("d", Kind::Test),
            ("e", Kind::Normal),
            ("f", Kind::Normal),
        ];
        assert_eq!(found, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    #[test]
    fn dependencies_point_down() {
        let up = "[dependencies]\nholm-sandbox-backends.workspace = true\n";
        assert_eq!(messages("crates/cli/Cargo.toml", up), [""; 0]);
        assert_eq!(
            messages("crates/sandbox/Cargo.toml", up),
            ["crates/sandbox/Cargo.toml:2: `sandbox` may not depend on `sandbox-backends`"]
        );
    }

    #[test]
    fn testkit_is_for_tests() {
        assert_eq!(
            messages(
                "crates/cli/Cargo.toml",
                "[dependencies]\nholm-testkit.workspace = true\n"
            ),
            ["crates/cli/Cargo.toml:2: `cli` may not depend on `testkit`"]
        );
        let tests = "[dev-dependencies]\nholm-testkit.workspace = true\n";
        assert_eq!(messages("crates/cli/Cargo.toml", tests), [""; 0]);
    }

    #[test]
    fn xtask_and_unknown_crates_are_told() {
        let anyhow = "[dependencies]\nanyhow.workspace = true\n";
        assert_eq!(messages("xtask/Cargo.toml", anyhow).len(), 1);
        assert_eq!(messages("crates/cli/Cargo.toml", anyhow).len(), 0);
        assert_eq!(messages("crates/new/Cargo.toml", "").len(), 1);
        assert_eq!(messages("Cargo.toml", anyhow).len(), 0);
    }
}
