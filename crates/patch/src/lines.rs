//! Contents as lines that keep their ends, so that nothing about a file's end has to be remembered apart.

/// The lines of a text, each with its `\n`; only the last may have none.
pub(crate) fn split(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// A line without `\n` or `\r\n`.
pub(crate) fn body(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// How the lines of a file end: as its first one does.
pub(crate) fn ending_of(lines: &[&[u8]]) -> &'static [u8] {
    match lines.first() {
        Some(line) if line.ends_with(b"\r\n") => b"\r\n",
        Some(_) | None => b"\n",
    }
}

/// Text for an error: short, and without what redraws a terminal.
pub(crate) fn shown(line: &[u8]) -> String {
    const CHARACTERS_MAX: usize = 80;
    let text = String::from_utf8_lossy(body(line));
    let mut out: String = text
        .chars()
        .take(CHARACTERS_MAX)
        .flat_map(|character| {
            if character.is_control() && character != '\t' {
                character.escape_default().collect::<Vec<_>>()
            } else {
                vec![character]
            }
        })
        .collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        out.push('…');
    }
    out
}
