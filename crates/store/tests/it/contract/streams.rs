//! Rows of streams: everything about them is kept, and found again.

use holm_thread_log::{
    Command, Create, Ending, Expired, Lifetime, Outcome, ReadFrom, Refusal, StreamStore, Timestamp,
    Touch, Unseen,
};

use super::{NOW, Use as _, append, appended, close, create, created, later, name};

pub(crate) async fn check(store: &dyn StreamStore) {
    are_found_as_they_were_made(store).await;
    closing_is_kept(store).await;
    a_name_that_is_used_again(store).await;
    lists(store).await;
    expiry(store).await;
    touching(store).await;
}

async fn are_found_as_they_were_made(store: &dyn StreamStore) {
    let lifetimes = [
        None,
        Some(Lifetime::Forever),
        Some(Lifetime::Sliding { seconds: u64::MAX }),
        Some(Lifetime::Until(Timestamp(i64::MAX))),
    ];
    for (index, lifetime) in lifetimes.into_iter().enumerate() {
        let wanted = Create {
            lifetime,
            ..create(&format!("made/{index}"))
        };
        let made = created(store.create(wanted.clone()).await);
        assert_eq!(store.state(made.name.as_str()).await.unwrap(), made);
        assert_eq!(
            store.create(wanted).await,
            Ok(Outcome::Exists(Box::new(made)))
        );
    }
    let other = Create {
        ending: Ending::Closed,
        ..create("made/0")
    };
    assert_eq!(
        store.create(other).await,
        Err(Refusal::Differs {
            what: "closed state"
        })
    );
    assert_eq!(store.state("made/none").await, Err(Unseen::NotFound));
}

async fn closing_is_kept(store: &dyn StreamStore) {
    created(store.create(create("closed")).await);
    let tail = appended(store.append(append("closed", "a")).await).tail;
    assert!(matches!(
        store.append(close("closed")).await,
        Ok(Outcome::Closed(_))
    ));
    assert_eq!(store.state("closed").await.unwrap().ending, Ending::Closed);
    assert_eq!(
        store.append(append("closed", "b")).await,
        Err(Refusal::Closed { tail })
    );
    let page = store
        .read(&name("closed"), ReadFrom::Start, 10, NOW)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(page.ending(), Ending::Closed);
}

async fn a_name_that_is_used_again(store: &dyn StreamStore) {
    let first = created(store.create(create("again")).await);
    let old = appended(store.append(append("again", "old")).await).tail;
    assert_eq!(store.delete("again").await, Ok(Outcome::Deleted));
    assert_eq!(store.delete("again").await, Err(Refusal::NotFound));
    assert_eq!(store.text("again").await, Err(Unseen::NotFound));
    let second = created(store.create(create("again")).await);
    assert!(second.id > first.id);
    assert_eq!(store.text("again").await.unwrap(), "");
    let page = store
        .read(&name("again"), ReadFrom::At(old), 10, NOW)
        .await
        .unwrap();
    assert_eq!(page, Err(Unseen::ForeignOffset));
    // Nothing of the old one is seen, however often the name comes and goes.
    for round in 0..3 {
        assert_eq!(store.delete("again").await, Ok(Outcome::Deleted));
        created(store.create(create("again")).await);
        appended(store.append(append("again", &format!("new {round}"))).await);
        assert_eq!(store.text("again").await.unwrap(), format!("new {round}"));
    }
}

async fn lists(store: &dyn StreamStore) {
    for stream in ["l/B", "l/a", "l/a/x", "l/a-", "l/~", "m"] {
        created(store.create(create(stream)).await);
    }
    let brief = Create {
        lifetime: Some(Lifetime::Until(later(5))),
        ..create("l/brief")
    };
    created(store.create(brief).await);
    let list = async |prefix: &str, after: Option<&str>, limit, now| -> Vec<String> {
        let after = after.map(name);
        let streams = store
            .list(prefix, after.as_ref(), limit, now)
            .await
            .unwrap();
        streams
            .into_iter()
            .map(|stream| stream.name.to_string())
            .collect()
    };
    let all = ["l/B", "l/a", "l/a-", "l/a/x", "l/brief", "l/~"];
    assert_eq!(list("l/", None, usize::MAX, NOW).await, all);
    assert_eq!(
        list("l/", None, 100, later(5)).await,
        ["l/B", "l/a", "l/a-", "l/a/x", "l/~"]
    );
    assert_eq!(list("l/a", None, 2, NOW).await, ["l/a", "l/a-"]);
    assert_eq!(list("l/a", Some("l/a-"), 2, NOW).await, ["l/a/x"]);
    assert_eq!(list("", Some("l/brief"), 2, NOW).await, ["l/~", "m"]);
    for nothing in ["n/", "l/\0", "\u{e9}", "l/%"] {
        assert_eq!(list(nothing, None, 10, NOW).await, [""; 0]);
    }
}

async fn expiry(store: &dyn StreamStore) {
    for (stream, lifetime) in [
        ("x/sliding", Lifetime::Sliding { seconds: 2 }),
        ("x/soon", Lifetime::Until(later(1000))),
        ("x/late", Lifetime::Until(later(9000))),
    ] {
        let lifetime = Some(lifetime);
        created(
            store
                .create(Create {
                    lifetime,
                    ..create(stream)
                })
                .await,
        );
    }
    let overdue = async |now, limit| -> Vec<String> {
        let names = store.overdue(now, limit).await.unwrap();
        let names = names.into_iter().map(|name| name.to_string());
        names.filter(|name| name.starts_with("x/")).collect()
    };
    assert_eq!(overdue(later(999), 10).await, [""; 0]);
    assert_eq!(overdue(later(5000), 100).await, ["x/soon", "x/sliding"]);
    let stream = name("x/sliding");
    let touch = Command::Touch {
        name: stream.clone(),
        touch: Touch::Read,
    };
    assert_eq!(
        store.at(later(1999), touch.clone()).await,
        Ok(Outcome::Touched)
    );
    assert_eq!(
        store
            .head(&stream, later(3998))
            .await
            .unwrap()
            .unwrap()
            .last_access,
        later(1999)
    );
    assert_eq!(
        store.head(&stream, later(3999)).await.unwrap(),
        Err(Unseen::NotFound)
    );
    let expire = |name| Command::Expire { name };
    let removed = |expired| Ok(Outcome::Expired(expired));
    let soon = name("x/soon");
    assert_eq!(
        store.at(later(999), expire(soon.clone())).await,
        removed(Expired::StillAlive)
    );
    assert_eq!(
        store.at(later(1000), expire(soon)).await,
        removed(Expired::Removed)
    );
    assert_eq!(overdue(later(5000), 100).await, ["x/sliding"]);
    // Looking at it with a command removes it too, and the name is free.
    assert_eq!(store.at(later(3999), touch).await, Err(Refusal::NotFound));
    assert_eq!(overdue(later(5000), 100).await, [""; 0]);
    created(
        store
            .at(later(4000), Command::Create(create("x/sliding")))
            .await,
    );
}

async fn touching(store: &dyn StreamStore) {
    let made = created(store.create(create("touched")).await);
    let heartbeat = Command::Touch {
        name: name("touched"),
        touch: Touch::Heartbeat { writer: None },
    };
    assert_eq!(store.at(later(70), heartbeat).await, Ok(Outcome::Touched));
    let touched = store.state("touched").await.unwrap();
    assert_eq!(touched.last_seen, Some(later(70)));
    assert_eq!(
        (touched.created_at, touched.tail()),
        (made.created_at, made.tail())
    );
}
