//! Blobs on the disk.

use super::*;

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn owner() -> Owner {
    ("o".to_owned(), "t".parse().unwrap())
}

fn name(text: &str) -> BlobName {
    text.parse().unwrap()
}

fn put(blobs: &Blobs, text: &str, hash: &str, bytes_max: u64) -> Result<u64, BlobError> {
    let mut incoming = blobs.begin(owner(), bytes_max)?;
    incoming.write(&Bytes::copy_from_slice(text.as_bytes()))?;
    incoming.finish(&name(hash))
}

fn on_their_way(blobs: &Blobs) -> usize {
    fs::read_dir(blobs.root.join(INCOMING)).unwrap().count()
}

#[test]
fn a_blob_has_its_name_when_it_is_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::new(folder.path().join("blobs"));
    assert!(blobs.open(&owner(), &name(HELLO)).unwrap().is_none());
    let wrong = put(&blobs, "hullo", HELLO, 100).unwrap_err();
    assert!(matches!(wrong, BlobError::Mismatch { .. }), "{wrong}");
    assert!(blobs.open(&owner(), &name(HELLO)).unwrap().is_none());
    assert_eq!(put(&blobs, "hello", HELLO, 100).unwrap(), 5);
    assert_eq!(put(&blobs, "hello", HELLO, 100).unwrap(), 5);
    assert_eq!(put(&blobs, "", EMPTY, 100).unwrap(), 0);
    assert_eq!(blobs.open(&owner(), &name(HELLO)).unwrap().unwrap().1, 5);
    assert_eq!(on_their_way(&blobs), 0);
    // What failed and what came twice is not counted.
    assert_eq!(blobs.lock()[&owner()], 5);
}

#[test]
fn uploads_to_a_living_server_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [living, starting] = [(); 2].map(|()| Blobs::new(folder.path().join("blobs")));
    let mut upload = living.begin(owner(), 100).unwrap();
    upload.write(&Bytes::from_static(b"hel")).unwrap();
    // Of a server that died.
    fs::write(folder.path().join("blobs/incoming/left"), "x").unwrap();
    starting.clear_incoming().unwrap();
    assert_eq!(on_their_way(&living), 1);
    upload.write(&Bytes::from_static(b"lo")).unwrap();
    upload.finish(&name(HELLO)).unwrap();
    assert_eq!(starting.open(&owner(), &name(HELLO)).unwrap().unwrap().1, 5);
}

#[test]
fn a_thread_has_so_many_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::new(folder.path().join("blobs"));
    put(&blobs, "hello", HELLO, 8).unwrap();
    // A server that starts anew counts what lies there.
    let blobs = Blobs::new(folder.path().join("blobs"));
    let mut one = blobs.begin(owner(), 8).unwrap();
    let mut two = blobs.begin(owner(), 8).unwrap();
    one.write(&Bytes::from_static(b"ab")).unwrap();
    let over = two.write(&Bytes::from_static(b"cd")).unwrap_err();
    assert!(matches!(over, BlobError::Quota { bytes_max: 8 }), "{over}");
    drop(one);
    two.write(&Bytes::from_static(b"cde")).unwrap();
    drop(two);
    assert_eq!(blobs.lock()[&owner()], 5);
    assert_eq!(on_their_way(&blobs), 0);
}

#[test]
fn what_was_left_on_its_way_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::new(folder.path().join("blobs"));
    // As a server leaves it that is killed: its lock is gone with it.
    drop(blobs.begin(owner(), 8).unwrap());
    fs::write(blobs.root.join(INCOMING).join("half"), "x").unwrap();
    assert_eq!(on_their_way(&blobs), 1);
    blobs.clear_incoming().unwrap();
    blobs.clear_incoming().unwrap();
    assert_eq!(on_their_way(&blobs), 0);
}

#[tokio::test]
async fn blobs_of_threads_that_are_gone_are_collected() {
    let folder = tempfile::tempdir().unwrap();
    let streams = holm_thread_log::MemoryStore::default();
    let blobs = Blobs::new(folder.path().join("blobs"));
    put(&blobs, "hello", HELLO, 8).unwrap();
    // In use: the thread may be a new one.
    blobs.collect(&streams).await;
    assert!(blobs.open(&owner(), &name(HELLO)).unwrap().is_some());
    let blobs = Blobs::new(folder.path().join("blobs"));
    blobs.collect(&streams).await;
    assert!(blobs.open(&owner(), &name(HELLO)).unwrap().is_none());
}

#[test]
fn names_are_hashes() {
    for wrong in [
        "",
        "../../etc/passwd",
        &HELLO[1..],
        &HELLO.to_uppercase(),
        &format!("{HELLO}0"),
    ] {
        assert!(wrong.parse::<BlobName>().is_err(), "{wrong}");
    }
}
