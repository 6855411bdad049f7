//! Pages: from any place, of any size, in order and without gaps.

use holm_thread_log::sse::Freshness;
use holm_thread_log::{Command, Entry, Offset, Page, ReadFrom, StreamId, StreamStore, Unseen};

use super::{NOW, Use as _, append, appended, create, created, name};

pub(crate) async fn check(store: &dyn StreamStore) {
    pages(store).await;
    places(store).await;
    long_streams(store).await;
    big_entries(store).await;
    readers_beside_a_writer(store).await;
}

async fn read(store: &dyn StreamStore, stream: &str, from: ReadFrom, bytes_max: usize) -> Page {
    store
        .read(&name(stream), from, bytes_max, NOW)
        .await
        .unwrap()
        .unwrap()
}

fn texts(entries: &[Entry]) -> Vec<&str> {
    entries
        .iter()
        .map(|entry| std::str::from_utf8(&entry.data).unwrap())
        .collect()
}

async fn pages(store: &dyn StreamStore) {
    created(store.create(create("pages")).await);
    for body in ["aaaa", "bbbb", "cc", "dddddd"] {
        appended(store.append(append("pages", body)).await);
    }
    for (bytes_max, expected) in [
        (0, vec!["aaaa"]),
        (3, vec!["aaaa"]),
        (8, vec!["aaaa", "bbbb"]),
        (9, vec!["aaaa", "bbbb"]),
        (10, vec!["aaaa", "bbbb", "cc"]),
        (16, vec!["aaaa", "bbbb", "cc", "dddddd"]),
    ] {
        let page = read(store, "pages", ReadFrom::Start, bytes_max).await;
        assert_eq!(texts(&page.entries), expected, "{bytes_max}");
        let is_all = expected.len() == 4;
        assert_eq!(page.freshness == Freshness::UpToDate, is_all);
        let rest = read(store, "pages", ReadFrom::At(page.next), usize::MAX).await;
        assert_eq!(rest.entries.len(), 4 - expected.len());
        assert_eq!(rest.freshness, Freshness::UpToDate);
    }
}

async fn places(store: &dyn StreamStore) {
    let made = created(store.create(create("places")).await);
    for from in [ReadFrom::Start, ReadFrom::Now, ReadFrom::At(Offset::START)] {
        let page = read(store, "places", from, 10).await;
        assert_eq!((page.entries.len(), page.next), (0, Offset::START));
    }
    let first = appended(store.append(append("places", "1")).await).tail;
    let page = read(store, "places", ReadFrom::Now, 10).await;
    assert_eq!(
        (page.entries.len(), page.next, page.freshness),
        (0, first, Freshness::UpToDate)
    );
    appended(store.append(append("places", "2")).await);
    let page = read(store, "places", ReadFrom::At(first), 10).await;
    assert_eq!(texts(&page.entries), ["2"]);
    let wrong = [
        Offset::new(made.id, 3),
        Offset::new(made.id, u64::MAX),
        Offset::new(StreamId(u64::MAX), 1),
        Offset::new(made.id, 0),
    ];
    for offset in wrong {
        let page = store
            .read(&name("places"), ReadFrom::At(offset), 10, NOW)
            .await
            .unwrap();
        assert_eq!(page, Err(Unseen::ForeignOffset), "{offset}");
    }
    let page = store
        .read(&name("nowhere"), ReadFrom::Start, 10, NOW)
        .await
        .unwrap();
    assert_eq!(page, Err(Unseen::NotFound));
}

async fn long_streams(store: &dyn StreamStore) {
    const COUNT: u64 = 4500;
    let made = created(store.create(create("long")).await);
    let sent = (1..=COUNT).map(|number| store.append(append("long", &number.to_string())));
    for answer in futures_util::future::join_all(sent).await {
        appended(answer);
    }
    let page = read(store, "long", ReadFrom::Start, usize::MAX).await;
    let expected: Vec<String> = (1..=COUNT).map(|number| number.to_string()).collect();
    assert_eq!(texts(&page.entries), expected);
    // By small steps it is the same.
    let (mut from, mut seen) = (ReadFrom::Start, 0);
    loop {
        let page = read(store, "long", from, 1000).await;
        for entry in &page.entries {
            seen += 1;
            assert_eq!(entry.data, seen.to_string());
            assert_eq!(entry.next, Offset::new(made.id, seen));
        }
        if page.freshness == Freshness::UpToDate {
            break;
        }
        from = ReadFrom::At(page.next);
    }
    assert_eq!(seen, COUNT);
}

async fn big_entries(store: &dyn StreamStore) {
    created(store.create(create("big")).await);
    let big = "0123456789abcdef".repeat(320 << 10);
    appended(store.append(append("big", "small")).await);
    appended(store.append(append("big", &big)).await);
    let page = read(store, "big", ReadFrom::Start, 1 << 20).await;
    assert_eq!(texts(&page.entries), ["small"]);
    let page = read(store, "big", ReadFrom::At(page.next), 1 << 20).await;
    assert!(texts(&page.entries) == [big]);
}

/// Whatever is removed and made again meanwhile, a page is of one stream and has no gaps.
async fn readers_beside_a_writer(store: &dyn StreamStore) {
    let writing = async {
        for round in 0..20 {
            created(store.create(create("unsteady")).await);
            for number in 0..5 {
                let body = format!("{round}.{number}");
                appended(
                    store
                        .at(NOW, Command::Append(append("unsteady", &body)))
                        .await,
                );
            }
            store.delete("unsteady").await.unwrap();
        }
    };
    let reading = async {
        loop {
            let Ok(page) = store
                .read(&name("unsteady"), ReadFrom::Start, usize::MAX, NOW)
                .await
                .unwrap()
            else {
                tokio::task::yield_now().await;
                continue;
            };
            let texts = texts(&page.entries);
            let round = texts
                .first()
                .map_or("", |first| first.split('.').next().unwrap());
            let expected: Vec<String> = (0..texts.len())
                .map(|number| format!("{round}.{number}"))
                .collect();
            assert_eq!(texts, expected);
            assert_eq!(page.next, page.stream.tail());
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}
