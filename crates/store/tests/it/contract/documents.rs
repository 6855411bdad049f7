//! Documents: they change with streams or by themselves, all or none, and are found by their terms.

use holm_thread_log::{
    Append, Create, DocumentQuery, DocumentWrite, Expect, Order, Outcome, Refusal, StreamStore,
    Writer,
};

use super::{Use as _, append, appended, create, created, key, put};

pub(crate) async fn check(store: &dyn StreamStore) {
    versions(store).await;
    terms(store).await;
    rows_follow_their_streams(store).await;
    written_with_a_stream(store).await;
}

async fn body(store: &dyn StreamStore, collection: &str, id: &str) -> Option<(u64, String)> {
    let document = store.document(&key(collection, id)).await.unwrap()?;
    let body = String::from_utf8(document.content.body.to_vec()).unwrap();
    Some((document.version, body))
}

async fn versions(store: &dyn StreamStore) {
    let changed = |id: &str| {
        Err(Refusal::DocumentChanged {
            key: key("things", id),
        })
    };
    assert_eq!(
        store.write(vec![put("v", Expect::Absent, "1", &[])]).await,
        Ok(Outcome::Written)
    );
    assert_eq!(
        store.write(vec![put("v", Expect::Absent, "x", &[])]).await,
        changed("v")
    );
    assert_eq!(
        store
            .write(vec![put("v", Expect::Version(1), "2", &[])])
            .await,
        Ok(Outcome::Written)
    );
    let both = vec![
        put("w", Expect::Anything, "w", &[]),
        put("v", Expect::Version(1), "x", &[]),
    ];
    assert_eq!(store.write(both).await, changed("v"));
    assert_eq!(body(store, "things", "v").await, Some((2, "2".to_owned())));
    assert_eq!(body(store, "things", "w").await, None);
    let remove = DocumentWrite {
        content: None,
        ..put("v", Expect::Version(2), "", &[])
    };
    assert_eq!(store.write(vec![remove]).await, Ok(Outcome::Written));
    assert_eq!(body(store, "things", "v").await, None);
}

async fn terms(store: &dyn StreamStore) {
    for (id, terms) in [
        ("a", &["kind:x", "state:new"][..]),
        ("B", &["kind:x", "state:old"]),
        ("c", &["kind:y", "state:new"]),
        ("d", &["kind:x", "state:new"]),
    ] {
        let write = put(&format!("t/{id}"), Expect::Absent, id, terms);
        assert_eq!(store.write(vec![write]).await, Ok(Outcome::Written));
    }
    let find = async |terms: &[&str], order, after: Option<&str>, limit| -> Vec<String> {
        let query = DocumentQuery {
            collection: "things".to_owned(),
            terms: terms.iter().map(ToString::to_string).collect(),
            order,
            after: after.map(ToOwned::to_owned),
            limit,
        };
        let found = store.documents(&query).await.unwrap();
        found.into_iter().map(|(key, _)| key.id).collect()
    };
    let up = Order::Ascending;
    let down = Order::Descending;
    assert_eq!(find(&[], up, None, 10).await, ["t/B", "t/a", "t/c", "t/d"]);
    assert_eq!(find(&["kind:x"], up, None, 10).await, ["t/B", "t/a", "t/d"]);
    assert_eq!(
        find(&["kind:x", "state:new"], up, None, 10).await,
        ["t/a", "t/d"]
    );
    assert_eq!(
        find(&["state:new", "kind:x"], down, None, 10).await,
        ["t/d", "t/a"]
    );
    assert_eq!(find(&["kind:x"], down, Some("t/d"), 1).await, ["t/a"]);
    assert_eq!(find(&[], up, Some("t/a"), 1).await, ["t/c"]);
    assert_eq!(find(&["kind:z"], up, None, 10).await, [""; 0]);
    // Terms that change are found by the new ones only.
    let moved = put("t/a", Expect::Version(1), "a", &["kind:y", "state:new"]);
    assert_eq!(store.write(vec![moved]).await, Ok(Outcome::Written));
    assert_eq!(find(&["kind:x"], up, None, 10).await, ["t/B", "t/d"]);
    assert_eq!(find(&["kind:y"], up, None, 10).await, ["t/a", "t/c"]);
    let remove = DocumentWrite {
        content: None,
        ..put("t/c", Expect::Anything, "", &[])
    };
    assert_eq!(store.write(vec![remove]).await, Ok(Outcome::Written));
    assert_eq!(find(&["kind:y"], up, None, 10).await, ["t/a"]);
    let query = DocumentQuery {
        collection: "things".to_owned(),
        terms: vec!["kind:y".to_owned()],
        order: up,
        after: None,
        limit: 10,
    };
    let (found, document) = store.documents(&query).await.unwrap().remove(0);
    assert_eq!(store.document(&found).await.unwrap(), Some(document));
}

async fn rows_follow_their_streams(store: &dyn StreamStore) {
    created(store.create(create("tally/r")).await);
    assert_eq!(body(store, "tallies", "r").await, Some((1, "0".to_owned())));
    for count in 1..=3_u64 {
        appended(store.append(append("tally/r", "x")).await);
        assert_eq!(
            body(store, "tallies", "r").await,
            Some((count + 1, count.to_string()))
        );
    }
    let stranger = Append {
        writer: Some(Writer::of_run("stranger")),
        ..append("tally/r", "refused")
    };
    assert!(matches!(
        store.append(stranger).await,
        Err(Refusal::Rule {
            code: "stranger",
            ..
        })
    ));
    assert_eq!(store.text("tally/r").await.unwrap(), "x|x|x");
    assert_eq!(store.delete("tally/r").await, Ok(Outcome::Deleted));
    assert_eq!(body(store, "tallies", "r").await, None);
}

async fn written_with_a_stream(store: &dyn StreamStore) {
    let made = Create {
        documents: vec![put("with", Expect::Absent, "made", &["a"])],
        ..create("with")
    };
    created(store.create(made.clone()).await);
    assert_eq!(
        body(store, "things", "with").await,
        Some((1, "made".to_owned()))
    );
    let stale = Append {
        documents: vec![put("with", Expect::Version(7), "x", &[])],
        ..append("with", "x")
    };
    assert!(matches!(
        store.append(stale).await,
        Err(Refusal::DocumentChanged { .. })
    ));
    assert_eq!(store.text("with").await.unwrap(), "");
    let good = Append {
        documents: vec![put("with", Expect::Version(1), "said", &["a"])],
        ..append("with", "x")
    };
    appended(store.append(good).await);
    assert_eq!(
        body(store, "things", "with").await,
        Some((2, "said".to_owned()))
    );
}
