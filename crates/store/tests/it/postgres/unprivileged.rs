//! A database that an ordinary user starts.

use super::start;
use crate::contract::{Use as _, append, appended, create, created};

#[tokio::test]
async fn an_ordinary_user_needs_nobody_for_a_database() {
    let Some((store, _server)) = start().await else {
        return;
    };
    created(store.create(create("s")).await);
    appended(store.append(append("s", "x")).await);
    assert_eq!(store.text("s").await.unwrap(), "x");
}
