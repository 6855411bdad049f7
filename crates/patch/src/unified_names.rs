//! Paths in the headers of diffs: quoted as git quotes them, with prefixes, with times after them.

/// A path as a patch may name it.
pub(crate) fn checked(path: &[u8]) -> Result<String, String> {
    let path = std::str::from_utf8(path).map_err(|_| "a path is not UTF-8".to_owned())?;
    if path.is_empty() {
        return Err("a path is missing".to_owned());
    }
    if path.chars().any(char::is_control) {
        return Err(format!(
            "path `{}` holds control characters",
            path.escape_debug()
        ));
    }
    Ok(path.to_owned())
}

/// The name in a line `--- NAME` or `+++ NAME`, without a time; `None` for `/dev/null`.
pub(crate) fn of_header(text: &[u8]) -> Result<Option<String>, String> {
    let text = crate::lines::body(text);
    let name = if text.starts_with(b"\"") {
        unquoted(text)?
    } else {
        // git ends a name that holds spaces with a tab, diff puts a time after one.
        let end = text.iter().position(|byte| *byte == b'\t');
        text.get(..end.unwrap_or(text.len()))
            .unwrap_or(text)
            .trim_ascii_end()
            .to_vec()
    };
    if name == b"/dev/null" {
        return Ok(None);
    }
    checked(&name).map(Some)
}

/// The name in a line such as `rename from NAME`.
pub(crate) fn of_extended(text: &[u8]) -> Result<String, String> {
    let text = crate::lines::body(text);
    if text.starts_with(b"\"") {
        return checked(&unquoted(text)?);
    }
    checked(text)
}

/// The name in `diff --git a/NAME b/NAME`, which says it when nothing else does. Both are the same then.
pub(crate) fn of_git_line(text: &[u8]) -> Option<String> {
    let text = crate::lines::body(text);
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('"') {
        let (old, rest) = split_quoted(text)?;
        let old = String::from_utf8(unquoted(old.as_bytes()).ok()?).ok()?;
        let new = String::from_utf8(unquoted(rest.trim_start().as_bytes()).ok()?).ok()?;
        return same(&old, &new);
    }
    // The names are equally long, so the space between them is in the middle.
    let middle = text.len() / 2;
    let (old, new) = (text.get(..middle)?, text.get(middle..)?);
    same(old, new.strip_prefix(' ')?)
}

fn split_quoted(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    for (index, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return text.split_at_checked(index + 1),
            _ => {}
        }
    }
    None
}

fn same(old: &str, new: &str) -> Option<String> {
    let name = match (old.split_once('/'), new.split_once('/')) {
        _ if old == new => old,
        (Some((left, old)), Some((right, new)))
            if old == new && is_prefix(left) && is_prefix(right) =>
        {
            old
        }
        (_, _) => return None,
    };
    checked(name.as_bytes()).ok()
}

/// `a` and `b`, the other way round in a diff that is reversed, or git's letters for index, commit and working tree.
fn is_prefix(part: &str) -> bool {
    matches!(part, "a" | "b" | "c" | "i" | "o" | "w")
}

/// Both names without their prefixes, if they have them. `named` is what git's own line says.
pub(crate) fn without_prefixes(
    old: Option<String>,
    new: Option<String>,
    named: Option<&str>,
) -> (Option<String>, Option<String>) {
    let is_named = |name: &Option<String>, named: &str| match name.as_deref() {
        None => true,
        Some(name) => {
            let rest = name.split_once('/').filter(|(prefix, _)| is_prefix(prefix));
            name == named || rest.is_some_and(|(_, rest)| rest == named)
        }
    };
    // Lines that contradict git's own are believed: they come last, and a patch tool without git reads no others.
    if let Some(named) = named
        && is_named(&old, named)
        && is_named(&new, named)
    {
        return (old.map(|_| named.to_owned()), new.map(|_| named.to_owned()));
    }
    let parts = |name: &Option<String>| -> Option<(String, String)> {
        let (prefix, rest) = name.as_deref()?.split_once('/')?;
        (is_prefix(prefix) && !rest.is_empty()).then(|| (prefix.to_owned(), rest.to_owned()))
    };
    match (parts(&old), parts(&new)) {
        (Some((left, old)), Some((right, new))) if left != right => (Some(old), Some(new)),
        (Some((prefix, old)), None) if new.is_none() && prefix == "a" => (Some(old), None),
        (None, Some((prefix, new))) if old.is_none() && prefix == "b" => (None, Some(new)),
        (_, _) => (old, new),
    }
}

/// A name in quotes, with git's escapes; what comes after it is not looked at.
fn unquoted(text: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = || "a quoted path is not closed".to_owned();
    let mut bytes = text.iter().copied().skip(1);
    let mut name = Vec::new();
    loop {
        match bytes.next().ok_or_else(wrong)? {
            b'"' => return Ok(name),
            b'\\' => {
                let escaped = bytes.next().ok_or_else(wrong)?;
                name.push(match escaped {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escaped,
                    b'0'..=b'3' => {
                        let mut value = escaped - b'0';
                        for _ in 0..2 {
                            let digit = bytes.next().ok_or_else(wrong)?;
                            if !(b'0'..=b'7').contains(&digit) {
                                return Err("a quoted path holds a wrong escape".to_owned());
                            }
                            value = value.wrapping_mul(8).wrapping_add(digit - b'0');
                        }
                        value
                    }
                    _ => return Err("a quoted path holds a wrong escape".to_owned()),
                });
            }
            byte => name.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_diff_and_git_write_them() {
        for (text, name) in [
            (&b"a/x.rs\n"[..], Some("a/x.rs")),
            (b"x.rs\t2024-01-01 00:00:00\n", Some("x.rs")),
            (b"a/with space.txt\t\n", Some("a/with space.txt")),
            (b"/dev/null\n", None),
            (b"\"a/f\\303\\274 \\\"x\\\".txt\"\n", Some("a/fü \"x\".txt")),
        ] {
            assert_eq!(of_header(text).unwrap().as_deref(), name);
        }
        assert!(of_header(b"\"a/open\n").is_err());
        assert!(of_header(b"\"a/\\9\"\n").is_err());
        assert!(of_header(b"\"a\\nb\"\n").unwrap_err().contains("control"));
        assert!(of_header(b"\n").is_err());
    }

    #[test]
    fn the_line_of_git_is_read_when_both_names_are_the_same() {
        assert_eq!(of_git_line(b"a/x y b/x y\n").unwrap(), "x y");
        assert_eq!(of_git_line(b"x x\n").unwrap(), "x");
        assert_eq!(
            of_git_line(b"\"a/\\303\\274\" \"b/\\303\\274\"\n").unwrap(),
            "ü"
        );
        assert_eq!(of_git_line(b"b/x a/x\n").unwrap(), "x");
        assert_eq!(of_git_line(b"b/x b/x\n").unwrap(), "b/x");
        assert_eq!(of_git_line(b"a/x b/y\n"), None);
    }

    #[test]
    fn prefixes_go_when_both_are_there() {
        let check = |old: Option<&str>, new: Option<&str>| {
            without_prefixes(old.map(str::to_owned), new.map(str::to_owned), None)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(check(Some("a/x"), Some("b/x")), (some("x"), some("x")));
        assert_eq!(check(None, Some("b/x")), (None, some("x")));
        assert_eq!(check(Some("a/x"), None), (some("x"), None));
        assert_eq!(check(Some("a/x"), Some("a/x")), (some("a/x"), some("a/x")));
        assert_eq!(check(Some("x"), Some("b/x")), (some("x"), some("b/x")));
    }
}
