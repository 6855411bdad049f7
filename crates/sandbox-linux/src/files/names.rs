//! Pure decisions about paths and names.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::path::{Component, Path, PathBuf};

use super::FilesError;

/// Splits a path into the directory to resolve and the name to act on in it.
///
/// The name is always a plain one, so the `*at` calls made with it cannot walk anywhere.
pub(super) fn split(path: &Path) -> Result<(&Path, &Path), FilesError> {
    let invalid = |reason| FilesError::InvalidPath {
        path: path.to_path_buf(),
        reason,
    };
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.contains(&0) {
        return Err(invalid("contains a NUL byte"));
    }
    // `Path` drops these silently; to the kernel they say "a directory".
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return Err(invalid("ends like a directory"));
    }
    let Some(Component::Normal(name)) = path.components().next_back() else {
        return Err(invalid("does not name an entry of a directory"));
    };
    Ok((path.parent().unwrap_or(Path::new("")), Path::new(name)))
}

/// The path's components as the kernel will be asked for them: `.` is dropped, `..` is kept.
pub(super) fn steps(path: &Path) -> Vec<PathBuf> {
    let mut prefix = PathBuf::new();
    let mut prefixes = Vec::new();
    for component in path.components() {
        if component == Component::CurDir {
            continue;
        }
        prefix.push(component);
        prefixes.push(prefix.clone());
    }
    prefixes
}

/// A name nobody can guess, for a file that is not there yet.
///
/// Creation is exclusive anyway; the randomness keeps a box from making every attempt collide. The standard
/// library seeds `RandomState` from the kernel's generator.
pub(super) fn temporary_name() -> PathBuf {
    let (first, second) = (RandomState::new(), RandomState::new());
    let process = std::process::id();
    PathBuf::from(format!(
        ".holm-{:016x}{:016x}.tmp",
        first.hash_one(process),
        second.hash_one(process)
    ))
}

/// Whether a symlink's target is sure to stay inside a copied tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkReach {
    Inside,
    Absolute,
    /// Climbs above the top, or goes up after going down. The second kind may be harmless, but
    /// `a/..` is not the link's own directory when `a` is itself a link, so it cannot be told.
    Climbs,
}

/// Judges the target of a link that lies `depth` directories below the top of the tree.
///
/// Sound by induction: leading `..` steps leave real directories, and plain names lead through
/// directories of the tree or through links that were judged by the same rule.
pub(super) fn link_reach(target: &OsStr, depth: usize) -> LinkReach {
    let mut climbed = 0;
    let mut descended = false;
    for component in Path::new(target).components() {
        match component {
            Component::RootDir | Component::Prefix(_) => return LinkReach::Absolute,
            Component::CurDir => {}
            Component::ParentDir if descended || climbed == depth => return LinkReach::Climbs,
            Component::ParentDir => climbed += 1,
            Component::Normal(_) => descended = true,
        }
    }
    LinkReach::Inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_last_names_are_split_off() {
        assert_eq!(
            split(Path::new("a/b")).unwrap(),
            (Path::new("a"), Path::new("b"))
        );
        assert_eq!(
            split(Path::new("..foo")).unwrap(),
            (Path::new(""), Path::new("..foo"))
        );
        for refused in ["", ".", "..", "/", "a/..", "a/", "a/.", "a\0b"] {
            assert!(
                matches!(
                    split(Path::new(refused)),
                    Err(FilesError::InvalidPath { .. })
                ),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn links_are_judged_by_where_they_may_lead() {
        let cases = [
            ("b", 0, LinkReach::Inside),
            ("./b/c", 0, LinkReach::Inside),
            ("..", 1, LinkReach::Inside),
            ("../../x", 2, LinkReach::Inside),
            ("..", 0, LinkReach::Climbs),
            ("../../x", 1, LinkReach::Climbs),
            ("a/../x", 3, LinkReach::Climbs),
            ("/etc/passwd", 3, LinkReach::Absolute),
        ];
        for (target, depth, wanted) in cases {
            assert_eq!(
                link_reach(OsStr::new(target), depth),
                wanted,
                "{target} {depth}"
            );
        }
    }

    #[test]
    fn temporary_names_differ() {
        assert_ne!(temporary_name(), temporary_name());
    }

    proptest::proptest! {
        /// Follows a link judged inside, over real directories only, and never gets above the top.
        #[test]
        fn an_inside_link_never_climbs(parts in proptest::collection::vec(proptest::sample::select(vec!["..", ".", "a", "b"]), 0..8), depth in 0_usize..5) {
            let target = parts.join("/");
            if link_reach(OsStr::new(&target), depth) == LinkReach::Inside {
                let mut at = i64::try_from(depth).unwrap();
                for part in parts {
                    at += match part { ".." => -1, "." => 0, _ => 1 };
                    assert!(at >= 0, "{target}");
                }
            }
        }

        #[test]
        fn split_never_panics_and_yields_one_name(path in ".{0,40}") {
            if let Ok((_, name)) = split(Path::new(&path)) {
                assert_eq!(name.components().count(), 1);
            }
        }
    }
}
