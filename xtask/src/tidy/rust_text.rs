//! Rust source with everything blanked that is not code.
//!
//! Words such as `unsafe` may stand in comments and strings. This is the part of Rust's lexer that is
//! needed to tell: comments (nested), strings (raw, byte, C), characters and lifetimes.

/// Comments and the insides of literals become spaces; line breaks stay, so that line numbers hold.
pub(super) fn code_only(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut position = 0;
    while let Some(&character) = characters.get(position) {
        let rest = &characters[position..];
        let length = literal_or_comment_length(rest, code.chars().next_back());
        if length == 0 {
            code.push(character);
            position += 1;
            continue;
        }
        code.extend(
            rest[..length]
                .iter()
                .map(|&inside| if inside == '\n' { '\n' } else { ' ' }),
        );
        position += length;
    }
    code
}

/// How many characters from here on are one comment or literal; 0 when there is none.
fn literal_or_comment_length(rest: &[char], before: Option<char>) -> usize {
    match rest {
        ['/', '/', ..] => rest
            .iter()
            .take_while(|character| **character != '\n')
            .count(),
        ['/', '*', ..] => block_comment_length(rest),
        ['"', ..] => quoted_length(rest, '"'),
        // `'a'` and `'\n'` are characters, `'a` is a lifetime.
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted_length(rest, '\''),
        ['r', '"' | '#', ..] if !before.is_some_and(is_name) => raw_string_length(rest, 1),
        ['b' | 'c', 'r', '"' | '#', ..] if !before.is_some_and(is_name) => {
            raw_string_length(rest, 2)
        }
        _ => 0,
    }
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn block_comment_length(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut position = 0;
    while position < rest.len() {
        match rest[position..] {
            ['/', '*', ..] => {
                depth += 1;
                position += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                position += 2;
                if depth == 0 {
                    return position;
                }
            }
            _ => position += 1,
        }
    }
    rest.len()
}

fn quoted_length(rest: &[char], quote: char) -> usize {
    let mut position = 1;
    while let Some(&character) = rest.get(position) {
        position += if character == '\\' { 2 } else { 1 };
        if character == quote {
            break;
        }
    }
    position.min(rest.len())
}

/// `r#name` is not a string: then this is 0.
fn raw_string_length(rest: &[char], prefix: usize) -> usize {
    let hashes = rest[prefix..]
        .iter()
        .take_while(|character| **character == '#')
        .count();
    let start = prefix + hashes;
    if rest.get(start) != Some(&'"') {
        return 0;
    }
    let ends = |position: &usize| {
        let after = &rest[position + 1..];
        rest[*position] == '"' && after.iter().take_while(|c| **c == '#').count() >= hashes
    };
    match (start + 1..rest.len()).find(ends) {
        Some(end) => end + 1 + hashes,
        None => rest.len(),
    }
}

/// The numbers of the lines, from 1, that belong to a `#[cfg(test)] mod … { … }`.
///
/// rustfmt puts the closing brace below the first character of the attribute.
pub(super) fn test_module_lines(code: &str) -> Vec<usize> {
    let mut inside = Vec::new();
    let mut lines = code.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let opens = lines
            .peek()
            .is_some_and(|(_, next)| next.trim_end().ends_with('{'));
        inside.push(index + 1);
        if !opens {
            continue;
        }
        let end = format!("{indent}}}");
        for (index, line) in lines.by_ref() {
            inside.push(index + 1);
            if line.trim_end() == end {
                break;
            }
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        for (source, code) in [
            ("a // unsafe\nb", "a          \nb"),
            ("a /* x /* y */ z */ b", "a                   b"),
            ("f(\"un\\\"safe\");", "f(          );"),
            ("f(r#\"a\" b\"#, x)", "f(         , x)"),
            ("br\"x\" + c", "      + c"),
            ("('\"', '\\'', 'b')", "(   ,     ,    )"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("r#type + barr\"x\"", "r#type + barr   "),
            ("\"a\nb\" c", "  \n   c"),
            ("\"never closed", "             "),
        ] {
            assert_eq!(code_only(source), code, "{source}");
        }
    }

    #[test]
    fn test_modules_are_found_by_their_braces() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n";
        assert_eq!(test_module_lines(code), [2, 3, 4, 5, 6]);
        assert_eq!(
            test_module_lines("#[cfg(test)]\nmod tests;\nfn c() {}\n"),
            [1]
        );
    }
}
