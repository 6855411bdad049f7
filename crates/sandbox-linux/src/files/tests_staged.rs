//! Files that are written piece by piece.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::tests::Fixture;
use super::*;

fn stage(fixture: &Fixture, path: &str) -> Result<StagedFile, FilesError> {
    let options = WriteOptions {
        bytes_max: Some(8),
        ..WriteOptions::default()
    };
    fixture.dir.stage(Path::new(path), options)
}

fn names(fixture: &Fixture) -> Vec<String> {
    let entries = fixture.dir.list(Path::new("")).unwrap();
    let name = |entry: Entry| entry.name.into_string().unwrap();
    entries.into_iter().map(name).collect()
}

#[test]
fn pieces_appear_together_at_the_end() {
    let fixture = Fixture::new();
    fs::write(fixture.tree("file"), "old").unwrap();
    let mut staged = stage(&fixture, "file").unwrap();
    staged.write(b"new").unwrap();
    assert_eq!(fs::read(fixture.tree("file")).unwrap(), b"old");
    let bytes = std::thread::spawn(move || {
        staged.write(b"er").unwrap();
        staged.commit().unwrap()
    });
    assert_eq!(bytes.join().unwrap(), 5);
    assert_eq!(fs::read(fixture.tree("file")).unwrap(), b"newer");
    assert_eq!(names(&fixture), ["file"]);
}

#[test]
fn what_is_dropped_or_too_large_leaves_the_old_content() {
    let fixture = Fixture::new();
    fs::write(fixture.tree("file"), "old").unwrap();
    let mut staged = stage(&fixture, "file").unwrap();
    staged.write(b"12345678").unwrap();
    let error = staged.write(b"9").unwrap_err();
    assert!(matches!(error, FilesError::TooLarge { bytes_max: 8, .. }));
    drop(staged);
    assert_eq!(fs::read(fixture.tree("file")).unwrap(), b"old");
    assert_eq!(names(&fixture), ["file"]);
}

/// The folder is the one that was resolved at the start, whatever its name leads to later.
#[test]
fn a_folder_that_is_swapped_for_a_link_meanwhile_changes_nothing() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.tree("folder")).unwrap();
    let mut staged = stage(&fixture, "folder/secret").unwrap();
    fs::rename(fixture.tree("folder"), fixture.tree("moved")).unwrap();
    symlink(fixture.outside(), fixture.tree("folder")).unwrap();
    let before = fs::read(fixture.outside().join("secret")).unwrap();
    staged.write(b"new").unwrap();
    staged.commit().unwrap();
    assert_eq!(fs::read(fixture.outside().join("secret")).unwrap(), before);
    assert_eq!(fs::read(fixture.tree("moved/secret")).unwrap(), b"new");
}
