//! Every promise of SPECIFICATION.md names the test or benchmark that holds it.
//!
//! A row of a table says `test: sandbox-linux::seccomp::tests::name` or `bench: name`; the crate and the
//! function must exist. Several may stand in one row.

use super::{Finding, SourceFile};

pub(super) fn check(specification: &SourceFile, files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, row) in rows(&specification.text) {
        let proofs = proofs(row);
        if proofs.is_empty() {
            let message = "this promise names no test (`test: crate::path`) and no benchmark \
                           (`bench: name`)";
            findings.push(Finding::new(specification, line, message));
        }
        for proof in proofs.iter().filter(|proof| !exists(proof, files)) {
            let message = match proof {
                Proof::Test { path } => format!("there is no test `{path}`"),
                Proof::Benchmark { name } => format!("there is no benchmark `{name}`"),
            };
            findings.push(Finding::new(specification, line, message));
        }
    }
    findings
}

#[derive(Debug, PartialEq, Eq)]
enum Proof<'a> {
    Test { path: &'a str },
    Benchmark { name: &'a str },
}

/// The rows of all tables without their heads, with their lines.
fn rows(page: &str) -> Vec<(usize, &str)> {
    let mut rows = Vec::new();
    let mut is_body = false;
    for (index, line) in page.lines().enumerate() {
        if !line.starts_with('|') {
            is_body = false;
        } else if is_separator(line) {
            is_body = true;
        } else if is_body {
            rows.push((index + 1, line));
        }
    }
    rows
}

fn is_separator(line: &str) -> bool {
    line.contains('-') && line.chars().all(|character| "|-: ".contains(character))
}

fn proofs(row: &str) -> Vec<Proof<'_>> {
    let mut proofs = Vec::new();
    for (start, _) in row.match_indices("test: ") {
        proofs.push(Proof::Test {
            path: word_at(row, start + "test: ".len()),
        });
    }
    for (start, _) in row.match_indices("bench: ") {
        proofs.push(Proof::Benchmark {
            name: word_at(row, start + "bench: ".len()),
        });
    }
    proofs
}

fn word_at(row: &str, start: usize) -> &str {
    let word = row[start..].trim_start_matches('`');
    let is_part = |character: char| character.is_alphanumeric() || "_:-/".contains(character);
    let end = word
        .find(|character: char| !is_part(character))
        .unwrap_or(word.len());
    &word[..end]
}

fn exists(proof: &Proof<'_>, files: &[SourceFile]) -> bool {
    match proof {
        Proof::Test { path } => {
            let Some((crate_name, rest)) = path.split_once("::") else {
                return false;
            };
            let function = rest.rsplit("::").next().unwrap_or(rest);
            let name = crate_name.replace('_', "-");
            let name = name.strip_prefix("holm-").unwrap_or(&name);
            let folders = [format!("crates/{name}/"), format!("{name}/")];
            files
                .iter()
                .filter(|file| file.is_rust())
                .filter(|file| folders.iter().any(|folder| file.path.starts_with(folder)))
                .any(|file| has_function(&file.text, function))
        }
        // Criterion names its benchmarks by strings, and Cargo by files.
        Proof::Benchmark { name } => files
            .iter()
            .filter(|file| file.is_rust() && file.path.contains("/benches/"))
            .any(|file| {
                file.path.ends_with(&format!("/{name}.rs"))
                    || file.text.contains(&format!("\"{name}\""))
                    || has_function(&file.text, name)
            }),
    }
}

fn has_function(text: &str, name: &str) -> bool {
    let definition = format!("fn {name}");
    !name.is_empty()
        && text
            .match_indices(&definition)
            .any(|(start, found)| text[start + found.len()..].starts_with(['(', '<']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(specification: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let files = [
            file("crates/sandbox-linux/src/a.rs", "#[test]\nfn holds() {}\n"),
            file(
                "crates/sandbox-backends/benches/start.rs",
                "group(\"cold\")\n",
            ),
        ];
        let page = file("SPECIFICATION.md", specification);
        check(&page, &files)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    const HEAD: &str = "| promise | proof |\n| --- | :-: |\n";

    #[test]
    fn existing_proofs_pass() {
        for row in [
            "| a | `test: sandbox-linux::a::tests::holds` |\n",
            "| a | test: holm_sandbox_linux::holds |\n",
            "| a | `bench: start`, `bench: cold` |\n",
        ] {
            assert_eq!(messages(&format!("{HEAD}{row}")), [""; 0], "{row}");
        }
        assert_eq!(messages("no table\n| head | only |\n"), [""; 0]);
    }

    #[test]
    fn missing_proofs_are_told() {
        let page = format!(
            "{HEAD}| a | |\n| b | `test: sandbox-linux::hold` |\n| c | `test: sandbox::holds` |\n\
             | d | `bench: warm` |\n| e | `test: holds` |\n"
        );
        assert_eq!(
            messages(&page),
            [
                "SPECIFICATION.md:3: this promise names no test (`test: crate::path`) and no \
                 benchmark (`bench: name`)",
                "SPECIFICATION.md:4: there is no test `sandbox-linux::hold`",
                "SPECIFICATION.md:5: there is no test `sandbox::holds`",
                "SPECIFICATION.md:6: there is no benchmark `warm`",
                "SPECIFICATION.md:7: there is no test `holds`",
            ]
        );
    }
}
