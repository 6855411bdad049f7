//! Data that a server cannot use: it says so, and changes nothing.

use std::fs;

use holm_store::Store;

use crate::server::{KEY, Serving, data};
use crate::support::TestEnvironment;

/// Data as a server left it, in one file.
fn used_data() -> TestEnvironment {
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    assert_eq!(Serving::start(&env, &[]).stop().code(), Some(0));
    // Brings the log of changes into the database.
    drop(Store::open(&data(&env).join("holm.db")).unwrap());
    env
}

#[test]
fn a_database_of_a_later_version_is_left_alone() {
    let env = used_data();
    let database = data(&env).join("holm.db");
    let mut bytes = fs::read(&database).unwrap();
    // The version that SQLite keeps for its user.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&database, &bytes).unwrap();
    insta::assert_snapshot!(env.run(["serve", "--listen", "127.0.0.1:0"]), @r"
    exit code: 1
    ----- stderr
    error: could not open the store
      caused by: the database `[ROOT]/data/server/holm.db` has version 99, and this Holm knows versions up to 3

    hint: use the newer Holm that wrote it, or another data folder
    ");
    assert_eq!(fs::read(&database).unwrap(), bytes);
}

#[test]
fn a_damaged_database_is_left_alone() {
    let env = used_data();
    let database = data(&env).join("holm.db");
    let mut bytes = fs::read(&database).unwrap();
    bytes[..100].fill(b'x');
    fs::write(&database, &bytes).unwrap();
    insta::assert_snapshot!(env.run(["serve", "--listen", "127.0.0.1:0"]), @r"
    exit code: 1
    ----- stderr
    error: could not open the store
      caused by: could not open the database `[ROOT]/data/server/holm.db`
      caused by: file is not a database
      caused by: Error code 26: file is not a database

    hint: the file is damaged: put a backup in its place, or use another data folder
    ");
    assert_eq!(fs::read(&database).unwrap(), bytes);
}

#[test]
fn a_folder_in_the_place_of_the_database() {
    let env = TestEnvironment::new();
    fs::create_dir_all(data(&env).join("holm.db")).unwrap();
    insta::assert_snapshot!(env.run(["serve", "--listen", "127.0.0.1:0"]), @r"
    exit code: 1
    ----- stderr
    error: could not open the store
      caused by: could not open the database `[ROOT]/data/server/holm.db`
      caused by: unable to open database file: [ROOT]/data/server/holm.db
      caused by: Error code 14: unable to open database file

    hint: check that the data folder exists, is yours and has space left
    ");
}
