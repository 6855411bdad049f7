//! Links between pages lead somewhere.

use std::path::{Component, Path, PathBuf};

use super::{Finding, SourceFile, folder_of};

pub(super) fn check(file: &SourceFile, exists: &dyn Fn(&Path) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in links(&file.text) {
        let path = target.split(['#', '?']).next().unwrap_or_default();
        // Elsewhere, or on the same page.
        if path.is_empty() || target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        match resolve(&file.path, path) {
            Some(found) if exists(&found) => {}
            Some(_) => {
                findings.push(Finding::new(
                    file,
                    line,
                    format!("link to `{path}` leads nowhere"),
                ));
            }
            None => {
                let message = format!("link to `{path}` leads out of the repository");
                findings.push(Finding::new(file, line, message));
            }
        }
    }
    findings
}

/// The path of a link from the root of the repository.
fn resolve(page: &str, link: &str) -> Option<PathBuf> {
    let mut path = if link.starts_with('/') {
        PathBuf::new()
    } else {
        folder_of(page)
    };
    for component in Path::new(link).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(path)
}

/// The targets of `[text](target)` and `[name]: target` outside code, with their lines.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut fence = None;
    for (index, line) in page.lines().enumerate() {
        let start = line.trim_start();
        let marker = ["```", "~~~"]
            .into_iter()
            .find(|marker| start.starts_with(marker));
        match (fence, marker) {
            (None, Some(_)) => {
                fence = marker;
                continue;
            }
            (Some(open), Some(found)) if open == found => {
                fence = None;
                continue;
            }
            (Some(_), _) => continue,
            (None, None) => {}
        }
        let text = without_code(line);
        for part in text.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                // A title may follow the target: `(page.md "Title")`.
                let target = target.split_whitespace().next().unwrap_or_default();
                links.push((index + 1, target.trim_matches(['<', '>']).to_owned()));
            }
        }
        if let Some((name, target)) = text.split_once("]: ")
            && name.starts_with('[')
            && !name.starts_with("[^")
        {
            let target = target.split_whitespace().next().unwrap_or_default();
            links.push((index + 1, target.to_owned()));
        }
    }
    links
}

/// The line without what stands between backticks.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    // An even number of backticks makes an odd number of parts; one that is not closed is text.
    if parts.len().is_multiple_of(2) {
        return line.to_owned();
    }
    parts.into_iter().step_by(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let page = "see [a](b.md) and [c](d.md#e \"T\")\n```\n[x](y)\n```\n`[x](y)` [f](<g.md>)\n\
                    [ref]: h.md\n[^note]: text\n";
        let found: Vec<(usize, String)> = links(page);
        let expected = [(1, "b.md"), (1, "d.md#e"), (5, "g.md"), (6, "h.md")];
        assert_eq!(
            found,
            expected.map(|(line, target)| (line, target.to_owned()))
        );
    }

    #[test]
    fn only_broken_links_are_told() {
        let text =
            "[a](../README.md#x) [b](https://a.example/) [c](#here) [d](gone.md) [e](../../x)\n";
        let file = SourceFile {
            path: "docs/a.md".to_owned(),
            text: text.to_owned(),
        };
        let exists = |path: &Path| path == Path::new("README.md");
        let found: Vec<String> = check(&file, &exists)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "docs/a.md:1: link to `gone.md` leads nowhere",
                "docs/a.md:1: link to `../../x` leads out of the repository",
            ]
        );
    }
}
