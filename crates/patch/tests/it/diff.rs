//! A plain diff, for tests: longest common subsequence, then hunks with as much context as is asked for.

/// A line, and whether it is kept (` `), removed (`-`) or added (`+`).
pub(crate) fn script<'text>(old: &'text str, new: &'text str) -> Vec<(char, &'text str)> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut longest = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] = if old[i] == new[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut script = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            script.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            script.push(('-', old[i]));
            i += 1;
        } else {
            script.push(('+', new[j]));
            j += 1;
        }
    }
    script
}

/// A unified diff of the file `x`.
pub(crate) fn unified(old: &str, new: &str, context: usize) -> String {
    let script = script(old, new);
    let is_shown = |index: usize| {
        let near = index.saturating_sub(context)..(index + context + 1).min(script.len());
        script[near].iter().any(|(sign, _)| *sign != ' ')
    };
    let mut text = "--- a/x\n+++ b/x\n".to_owned();
    let (mut old_line, mut new_line) = (1, 1);
    let mut index = 0;
    while index < script.len() {
        let end = (index..script.len())
            .find(|at| !is_shown(*at))
            .unwrap_or(script.len());
        let hunk = &script[index..end];
        let count = |sign: char| {
            hunk.iter()
                .filter(|line| line.0 == sign || line.0 == ' ')
                .count()
        };
        let (old_count, new_count) = (count('-'), count('+'));
        if !hunk.is_empty() {
            // Without lines it is the line before that is named.
            let start = |line: usize, count: usize| if count == 0 { line - 1 } else { line };
            text.push_str(&format!(
                "@@ -{},{old_count} +{},{new_count} @@\n",
                start(old_line, old_count),
                start(new_line, new_count)
            ));
        }
        for (sign, line) in hunk {
            text.push(*sign);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
        (old_line, new_line) = (old_line + old_count, new_line + new_count);
        index = end;
        if index < script.len() && !is_shown(index) {
            (old_line, new_line) = (old_line + 1, new_line + 1);
            index += 1;
        }
    }
    text
}
