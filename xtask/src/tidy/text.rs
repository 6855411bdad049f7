//! Rules for every text file: ends of lines, leftovers, and paths of one machine.

use super::{Finding, SourceFile};

// Put together here, so that this file does not break its own rules.
const LEFTOVERS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
];
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/fa", "rm/")];

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    // Snapshots hold what a program printed, to the byte.
    if file.has_extension("snap") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        let mut report = |message: String| findings.push(Finding::new(file, index + 1, message));
        if line.ends_with('\r') {
            report("line ends with a carriage return".to_owned());
        } else if line.ends_with([' ', '\t']) {
            report("line ends with white space".to_owned());
        }
        for word in LEFTOVERS.iter().filter(|word| has_word(line, word)) {
            report(format!("`{word}`: do it, or write an issue"));
        }
        for path in MACHINE_PATHS
            .iter()
            .filter(|path| has_absolute_path(line, path))
        {
            report(format!("`{path}` is a path of one machine"));
        }
    }
    let line_count = file.text.lines().count();
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(
            file,
            line_count,
            "file does not end with a line break",
        ));
    }
    if file.text.ends_with("\n\n") {
        findings.push(Finding::new(
            file,
            line_count,
            "file ends with an empty line",
        ));
    }
    findings
}

/// Whether `word` stands in `line` with no letter, digit or underscore beside it.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Whether an absolute path begins with `prefix`, rather than having it in its middle.
fn has_absolute_path(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        before
            .is_none_or(|character| character.is_whitespace() || "\"'`([{<=:,".contains(character))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let file = SourceFile {
            path: "a.txt".to_owned(),
            text: text.to_owned(),
        };
        check(&file).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn clean_text_has_no_findings() {
        assert_eq!(messages("one\ntwo\n"), [""; 0]);
        assert_eq!(messages(""), [""; 0]);
    }

    #[test]
    fn ends_of_lines_are_checked() {
        assert_eq!(messages("one \n"), ["a.txt:1: line ends with white space"]);
        assert_eq!(
            messages("a\none\r\n"),
            ["a.txt:2: line ends with a carriage return"]
        );
        assert_eq!(
            messages("one"),
            ["a.txt:1: file does not end with a line break"]
        );
        assert_eq!(
            messages("one\n\n"),
            ["a.txt:2: file ends with an empty line"]
        );
    }

    #[test]
    fn leftovers_are_whole_words() {
        let [first, _, third] = LEFTOVERS;
        assert_eq!(messages(&format!("// {first}: later\n")).len(), 1);
        assert_eq!(messages(&format!("({third})\n")).len(), 1);
        assert_eq!(messages(&format!("mktemp a.{third}{third}\n")).len(), 0);
        assert_eq!(messages(&format!("{first}S\n")).len(), 0);
    }

    #[test]
    fn machine_paths_are_absolute() {
        let [path, _] = MACHINE_PATHS;
        assert_eq!(messages(&format!("see `{path}main`\n")).len(), 1);
        assert_eq!(messages(&format!("{path}main\n")).len(), 1);
        assert_eq!(messages(&format!("box/upper{path}incompat\n")).len(), 0);
    }
}
