//! The store as its callers use it.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::*;
use crate::document::Kind;
use crate::schema::SCHEMA_VERSION;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Volume {
    id: String,
    owner: String,
    name: String,
    #[serde(default)]
    note: String,
}

impl Document for Volume {
    const KIND: Kind = Kind::Volume;

    fn id(&self) -> &str {
        &self.id
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn name(&self) -> &str {
        &self.name
    }
}

fn volume(id: &str, owner: &str, name: &str) -> Volume {
    Volume {
        id: id.into(),
        owner: owner.into(),
        name: name.into(),
        note: String::new(),
    }
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("holm.db")).unwrap();
    (folder, store)
}

#[test]
fn documents_are_found_by_id_and_by_name_and_survive_a_reopen() {
    let (folder, store) = store();
    let first = volume("1", "a", "data");
    store.put(&first).unwrap();
    let changed = Volume {
        note: "changed".into(),
        ..first
    };
    store.put(&changed).unwrap();
    drop(store);
    let store = Store::open(&folder.path().join("holm.db")).unwrap();
    assert_eq!(store.get("1").unwrap(), Some(changed.clone()));
    assert_eq!(store.find_by_name("a", "data").unwrap(), Some(changed));
    assert_eq!(store.find_by_name::<Volume>("b", "data").unwrap(), None);
    assert!(store.delete::<Volume>("1").unwrap());
    assert!(!store.delete::<Volume>("1").unwrap());
    assert_eq!(store.get::<Volume>("1").unwrap(), None);
}

#[test]
fn a_name_is_unique_among_its_owner_only() {
    let (_folder, store) = store();
    store.put(&volume("1", "a", "data")).unwrap();
    store.put(&volume("2", "b", "data")).unwrap();
    let taken = store.put(&volume("3", "a", "data")).unwrap_err();
    assert_eq!(taken.to_string(), "the name `data` is taken");
    assert_eq!(store.all::<Volume>().unwrap().len(), 2);
    let mine: Vec<Volume> = store.list("a").unwrap();
    assert_eq!(mine, [volume("1", "a", "data")]);
}

#[test]
fn a_change_that_fails_leaves_nothing() {
    let (_folder, store) = store();
    let failed: Result<()> = store.write(|transaction| {
        transaction.put(&volume("1", "a", "one"))?;
        assert_eq!(transaction.all::<Volume>()?.len(), 1);
        transaction.put(&volume("2", "a", "one"))
    });
    assert!(matches!(failed, Err(StoreError::NameTaken { .. })));
    assert_eq!(store.all::<Volume>().unwrap(), []);
}

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    let (folder, store) = store();
    store.put(&volume("1", "a", "one")).unwrap();
    let path = folder.path().join("holm.db");
    lock(&store.writer)
        .pragma_update(None, "user_version", SCHEMA_VERSION + 1)
        .unwrap();
    drop(store);
    let refused = Store::open(&path).unwrap_err();
    assert!(matches!(refused, StoreError::TooNew { .. }), "{refused:?}");
    assert!(refused.hint().unwrap().contains("newer Holm"));
}

#[test]
fn a_second_process_sees_what_the_first_wrote() {
    let (folder, store) = store();
    let other = Store::open(&folder.path().join("holm.db")).unwrap();
    other.put(&volume("1", "a", "one")).unwrap();
    assert!(store.get::<Volume>("1").unwrap().is_some());
}

const CHILD_FOLDER: &str = "HOLM_STORE_TEST_FOLDER";

/// Runs in a process of its own, until it is killed: says a number after it was stored.
#[test]
#[ignore = "the writer of `every_acknowledged_write_survives_a_kill`"]
fn writer() {
    let folder = std::env::var_os(CHILD_FOLDER).unwrap();
    let store = Store::open(&Path::new(&folder).join("holm.db")).unwrap();
    for number in 0_u64.. {
        let id = format!("{number:08}");
        store.put(&volume(&id, "a", &id)).unwrap();
        println!("stored {id}");
    }
}

#[test]
fn every_acknowledged_write_survives_a_kill() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    for round in 1..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "store::tests::writer",
                "--nocapture",
            ])
            .env(CHILD_FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let stored = lines
            .map(|line| line.unwrap())
            .filter_map(|line| Some(line.split_once("stored ")?.1.to_owned()))
            .nth(20 * round)
            .unwrap();
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let store = Store::open(&folder.path().join("holm.db")).unwrap();
        let found: Vec<String> = store
            .all::<Volume>()
            .unwrap()
            .into_iter()
            .map(|volume| volume.id)
            .collect();
        let last: usize = stored.parse().unwrap();
        assert!(found.len() > last, "{} of {last}", found.len());
        for (number, id) in found.iter().enumerate() {
            assert_eq!(*id, format!("{number:08}"));
        }
    }
}
