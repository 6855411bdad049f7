//! Confinement by example and by property; no file system is touched.

use proptest::prelude::*;

use super::*;

fn confined(base: &str, user: &str) -> Result<PathBuf> {
    confine(Path::new(base), Path::new(user))
}

#[test]
fn what_is_inside_is_normalised() {
    for (user, expected) in [
        ("", "/base"),
        (".", "/base"),
        ("a.txt", "/base/a.txt"),
        ("a/./b//c", "/base/a/b/c"),
        ("a/../b", "/base/b"),
        ("..foo", "/base/..foo"),
        ("a/..foo/b..", "/base/a/..foo/b.."),
        ("...", "/base/..."),
        ("/base", "/base"),
        ("/base/", "/base"),
        ("/base/a", "/base/a"),
        ("/other/../base/a", "/base/a"),
        ("../base/a", "/base/a"),
        ("/../base/a", "/base/a"),
    ] {
        assert_eq!(
            confined("/base", user).unwrap(),
            Path::new(expected),
            "{user}"
        );
    }
}

#[test]
fn ac_7_what_is_outside_is_refused() {
    for user in [
        "..",
        "../escape.txt",
        "a/../../escape.txt",
        "/",
        "/etc/passwd",
        "/base-evil",
        "/base-evil/a",
        "../base-evil",
        "/workspace",
        "/base/../etc",
        "//etc",
        "/Work",
    ] {
        let error = confined("/base", user).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("path confinement violation: `{user}` is outside base directory `/base`")
        );
    }
}

#[test]
fn the_base_is_normalised_too() {
    assert_eq!(
        confined("/srv/../base/.", "a").unwrap(),
        Path::new("/base/a")
    );
    assert_eq!(confined("/", "../a").unwrap(), Path::new("/a"));
}

#[test]
fn a_relative_base_is_refused() {
    let error = confined("work", "a").unwrap_err();
    assert_eq!(error.to_string(), "base directory `work` is not absolute");
}

#[test]
fn a_nul_is_refused() {
    assert_eq!(
        confined("/base", "a\0b").unwrap_err().to_string(),
        "the path contains a NUL byte"
    );
    assert!(confined("/wo\0rk", "a").is_err());
}

#[test]
fn from_a_current_directory() {
    let from = |current: &str, user: &str| {
        confine_from(Path::new("/base"), Path::new(current), Path::new(user))
    };
    for (current, user, expected) in [
        ("/base", "", "."),
        ("/base", "/base", "."),
        ("/base/a", "", "a"),
        ("/base/a", "..", "."),
        ("/base/a", "b", "a/b"),
        ("a", "../b", "b"),
        ("", "b", "b"),
        ("/base/a", "/base/c", "c"),
        ("/base/a", "..foo", "a/..foo"),
    ] {
        let relative = from(current, user).unwrap();
        assert_eq!(relative, Path::new(expected), "{current} {user}");
        assert!(relative.is_relative());
    }
    for (current, user) in [
        ("/base/a", "../.."),
        ("/base/a", "/etc"),
        ("/etc", "a"),
        ("/base-evil", "a"),
        ("..", "base/a"),
    ] {
        assert!(from(current, user).is_err(), "{current} {user}");
    }
}

/// Paths made of the pieces that confinement is about.
fn hostile_path() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(".."),
        Just("."),
        Just(""),
        Just("base"),
        Just("base-evil"),
        Just("a"),
        Just("..foo"),
        Just("é"),
    ];
    (any::<bool>(), proptest::collection::vec(piece, 0..8)).prop_map(|(absolute, pieces)| {
        format!("{}{}", if absolute { "/" } else { "" }, pieces.join("/"))
    })
}

/// The same rule, written as a walk over names instead of paths.
fn walk(start: &[&str], user: &str) -> Vec<String> {
    let mut names: Vec<String> = if user.starts_with('/') {
        Vec::new()
    } else {
        start.iter().map(|name| (*name).to_owned()).collect()
    };
    for name in user.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            _ => names.push(name.to_owned()),
        }
    }
    names
}

proptest! {
    #[test]
    fn a_confined_path_is_below_its_base_and_stays_so(user in hostile_path()) {
        let base = Path::new("/base/a");
        if let Ok(path) = confine(base, Path::new(&user)) {
            prop_assert!(path.strip_prefix(base).is_ok());
            prop_assert!(path.components().all(|part| !matches!(part, Component::ParentDir | Component::CurDir)));
            prop_assert_eq!(confine(base, &path).unwrap(), path);
        }
    }

    #[test]
    fn a_walk_over_names_agrees(user in hostile_path()) {
        let names = walk(&["base", "a"], &user);
        let inside = names.starts_with(&["base".to_owned(), "a".to_owned()]);
        let confined = confine(Path::new("/base/a"), Path::new(&user));
        prop_assert_eq!(confined.is_ok(), inside);
        if let Ok(path) = confined {
            prop_assert_eq!(path, PathBuf::from(format!("/{}", names.join("/"))));
        }
    }

    #[test]
    fn both_functions_agree(user in hostile_path()) {
        let base = Path::new("/base");
        let absolute = confine(base, Path::new(&user)).ok();
        let relative = confine_from(base, base, Path::new(&user)).ok();
        prop_assert_eq!(absolute, relative.map(|path| normalise(&base.join(path))));
    }

    #[test]
    fn no_text_panics(base in ".{0,20}", user in ".{0,20}") {
        let _result = confine(Path::new(&base), Path::new(&user));
    }
}
