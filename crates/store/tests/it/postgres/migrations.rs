//! Databases that are empty, of another version, or not fit.

use std::error::Error as _;
use std::sync::Arc;

use futures_util::future::join_all;
use holm_store::{PostgresError, PostgresOptions, PostgresStreams};
use holm_testkit::PostgresServer;
use holm_thread_log::{Command, NoRules, StoreError, StreamStore as _};

use super::{client, connect};
use crate::contract::{NOW, Use as _, append, appended, create, created};

async fn refused(url: &str) -> PostgresError {
    PostgresStreams::connect(url, Arc::new(NoRules), PostgresOptions::default())
        .await
        .expect_err("a database that is not fit")
}

#[tokio::test]
async fn servers_that_start_at_once() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let url = server.url();
    let stores = join_all((0..6).map(|_| connect(&url))).await;
    created(stores[0].create(create("s")).await);
    for store in &stores {
        appended(store.append(append("s", "x")).await);
    }
    drop(stores);
    // And once more over tables that are there.
    assert_eq!(connect(&url).await.text("s").await.unwrap(), "x|x|x|x|x|x");
}

#[tokio::test]
async fn a_newer_version_is_left_alone() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let running = connect(&server.url()).await;
    created(running.create(create("s")).await);
    let client = client(&server.url()).await;
    client
        .batch_execute("UPDATE holm.log_version SET version = version + 1")
        .await
        .unwrap();
    let error = refused(&server.url()).await;
    assert!(
        matches!(error, PostgresError::TooNew { found: 2, .. }),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .contains("has version 2, and this Holm knows versions up to 1"),
        "{error}"
    );
    assert!(error.hint().is_some());
    // One that runs already writes no more.
    for _ in 0..2 {
        let answer = running.apply(Command::Append(append("s", "x")), NOW).await;
        assert!(matches!(answer, Err(StoreError::Stopped)), "{answer:?}");
    }
    assert_eq!(running.text("s").await.unwrap(), "");
}

#[tokio::test]
async fn a_database_that_forgets() {
    let Some(server) = PostgresServer::start_with(&["fsync=off".to_owned()]) else {
        return;
    };
    let error = refused(&server.url()).await;
    assert!(error.to_string().contains("`fsync = off`"), "{error}");
}

#[tokio::test]
async fn a_database_of_another_encoding() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let client = client(&server.url()).await;
    let make = "CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0";
    client.batch_execute(make).await.unwrap();
    let error = refused(
        &server
            .url()
            .replace("/postgres?", "/old?")
            .replace(":5432/postgres", ":5432/old"),
    )
    .await;
    assert!(
        error.to_string().contains("its encoding is not UTF8"),
        "{error}"
    );
}

/// Commits wait for the disk even where the database would not.
#[tokio::test]
async fn durability_is_not_left_to_defaults() {
    let Some(server) = PostgresServer::start_with(&["synchronous_commit=off".to_owned()]) else {
        return;
    };
    let store = connect(&server.url()).await;
    created(store.create(create("s")).await);
    let client = client(&server.url()).await;
    // All that is inserted is flushed, at once.
    for _ in 0..20 {
        appended(store.append(append("s", "x")).await);
        let behind = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holm-%'";
        client.query_one(behind, &[]).await.unwrap();
    }
    let flushed =
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn())::bigint";
    appended(store.append(append("s", "last")).await);
    let row = client.query_one(flushed, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn a_user_without_rights() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let client = client(&server.url()).await;
    client
        .batch_execute("CREATE ROLE plain LOGIN")
        .await
        .unwrap();
    let plain = server.url().replace("holm@", "plain@");
    let error = refused(&plain).await;
    assert_eq!(error.to_string(), "could not make a schema `holm`");
    assert!(
        error
            .source()
            .unwrap()
            .source()
            .unwrap()
            .to_string()
            .contains("permission denied")
    );
    // An administrator may give it the schema only.
    client
        .batch_execute("CREATE SCHEMA holm AUTHORIZATION plain")
        .await
        .unwrap();
    let store = connect(&plain).await;
    created(store.create(create("s")).await);
}
