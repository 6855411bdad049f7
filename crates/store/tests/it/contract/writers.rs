//! Writers that were let in to one stream, and not to do everything.

use holm_thread_log::{Append, Command, Refusal, StreamId, StreamStore, Touch, Writer};

use super::{NOW, Use as _, append, appended, claim, create, created, duplicate, name};

pub(crate) async fn check(store: &dyn StreamStore) {
    a_later_stream_of_the_name_is_another(store).await;
    a_stream_grows_to_its_writers_share(store).await;
}

fn by(stream: StreamId, stream_bytes_max: u64) -> Option<Writer> {
    Some(Writer {
        run: "run".to_owned(),
        stream: Some(stream),
        stream_bytes_max,
    })
}

async fn a_later_stream_of_the_name_is_another(store: &dyn StreamStore) {
    let first = created(store.create(create("writers/a")).await).id;
    let own = |stream| Append {
        producer: claim("p", 0, 0),
        writer: by(stream, 1_000),
        ..append("writers/a", "own")
    };
    let beat = |stream| Command::Touch {
        name: name("writers/a"),
        touch: Touch::Heartbeat {
            writer: by(stream, 1_000),
        },
    };
    appended(store.append(own(first)).await);
    assert!(store.at(NOW, beat(first)).await.is_ok());
    store.delete("writers/a").await.unwrap();
    assert_eq!(store.append(own(first)).await, Err(Refusal::NotFound));
    let second = created(store.create(create("writers/a")).await).id;
    assert!(second > first);
    appended(store.append(own(second)).await);
    // Not even as what the new stream knows already, and no sign of life.
    assert_eq!(store.append(own(first)).await, Err(Refusal::Replaced));
    assert_eq!(store.at(NOW, beat(first)).await, Err(Refusal::Replaced));
    duplicate(store.append(own(second)).await);
    let stream = store.state("writers/a").await.unwrap();
    assert_eq!((stream.id, stream.last_seen), (second, None));
    assert_eq!(store.text("writers/a").await.unwrap(), "own");
}

async fn a_stream_grows_to_its_writers_share(store: &dyn StreamStore) {
    let id = created(store.create(create("writers/b")).await).id;
    let of = |text: &str| Append {
        writer: by(id, 10),
        ..append("writers/b", text)
    };
    appended(store.append(of("12345")).await);
    let full = Err(Refusal::StreamFull { bytes_max: 10 });
    assert_eq!(store.append(of("678901")).await, full);
    appended(store.append(of("67890")).await);
    assert_eq!(store.append(of("x")).await, full);
    // The owner has the last word.
    appended(store.append(append("writers/b", "owner")).await);
    assert_eq!(store.append(of("x")).await, full);
    assert_eq!(store.text("writers/b").await.unwrap(), "12345|67890|owner");
}
