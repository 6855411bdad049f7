//! Rows that follow from entries, and other documents.

use super::*;
use crate::{Standing, Writer};

/// Counts messages in a row, and lets nobody write whose run has ended.
#[derive(Debug)]
struct Counting;

impl Rules for Counting {
    fn row(&self, stream: &StreamName) -> Option<DocumentKey> {
        let (collection, id) = ("rows".to_owned(), stream.to_string());
        stream
            .as_str()
            .starts_with("t-")
            .then_some(DocumentKey { collection, id })
    }

    fn judge(&self, event: &Event<'_>) -> Judgement {
        if event.writer == Some("ended") {
            return Judgement::Refuse {
                code: "run_ended",
                message: "the run has ended".to_owned(),
            };
        }
        let count: usize = event.row.map_or(0, |row| {
            String::from_utf8_lossy(&row.content.body).parse().unwrap()
        });
        let (What::Created(new) | What::Appended(new)) = event.what else {
            return Judgement::Accept {
                documents: Vec::new(),
                writer: Standing::Welcome,
            };
        };
        let body = Bytes::from((count + new.len()).to_string());
        let content = Some(Content {
            body,
            terms: vec!["all".to_owned()],
        });
        let key = self.row(&event.stream.name).unwrap();
        Judgement::Accept {
            documents: vec![DocumentWrite {
                key,
                expect: Expect::Anything,
                content,
            }],
            writer: Standing::Welcome,
        }
    }
}

#[tokio::test]
async fn rows_follow_from_entries() {
    let store = MemoryStore::new(Arc::new(Counting));
    let row = || async {
        let query = DocumentQuery {
            collection: "rows".to_owned(),
            terms: vec!["all".to_owned()],
            order: Order::Descending,
            after: None,
            limit: 9,
        };
        let rows = store.documents(&query).await.unwrap();
        rows.first().map(|(_, row)| {
            (
                row.version,
                String::from_utf8_lossy(&row.content.body).into_owned(),
            )
        })
    };
    store
        .create(Create {
            payload: Some(bytes("x")),
            ..create("t-1")
        })
        .await
        .unwrap();
    let retried = Append {
        producer: claim(0, 0),
        ..append("t-1", "y")
    };
    store.append(retried.clone()).await.unwrap();
    store.append(retried).await.unwrap();
    assert_eq!(row().await, Some((2, "2".to_owned())));
    let refused = Append {
        writer: Some(Writer::of_run("ended")),
        ..append("t-1", "z")
    };
    let refusal = Refusal::Rule {
        code: "run_ended",
        message: "the run has ended".to_owned(),
    };
    assert_eq!(store.append(refused).await, Err(refusal.clone()));
    let refused = Create {
        writer: Some(Writer::of_run("ended")),
        payload: Some(bytes("z")),
        ..create("t-2")
    };
    assert_eq!(store.create(refused).await, Err(refusal));
    assert_eq!(store.text("t-1").await.unwrap(), "xy");
    assert_eq!(store.lock().entries.len(), 2);
    store.delete("t-1").await.unwrap();
    assert_eq!(row().await, None);
}

#[tokio::test]
async fn documents_change_together_or_not_at_all() {
    let store = MemoryStore::default();
    let write = |id: &str, expect| DocumentWrite {
        key: DocumentKey {
            collection: "leases".to_owned(),
            id: id.to_owned(),
        },
        expect,
        content: Some(Content {
            body: Bytes::new(),
            terms: Vec::new(),
        }),
    };
    let both = |first, second| Command::Write {
        documents: vec![write("1", first), write("2", second)],
    };
    assert_eq!(
        store.at(NOW, both(Expect::Absent, Expect::Absent)).await,
        Ok(Outcome::Written)
    );
    let key = write("2", Expect::Absent).key;
    let refusal = Err(Refusal::DocumentChanged { key: key.clone() });
    assert_eq!(
        store
            .at(NOW, both(Expect::Version(1), Expect::Absent))
            .await,
        refusal
    );
    assert_eq!(
        store
            .document(&write("1", Expect::Absent).key)
            .await
            .unwrap()
            .unwrap()
            .version,
        1
    );
    assert_eq!(
        store
            .at(NOW, both(Expect::Version(1), Expect::Version(1)))
            .await,
        Ok(Outcome::Written)
    );
    assert_eq!(store.document(&key).await.unwrap().unwrap().version, 2);
}

#[tokio::test]
async fn an_append_carries_documents_once() {
    let store = MemoryStore::default();
    store.create(create("a")).await.unwrap();
    let (collection, id) = ("leases".to_owned(), "1".to_owned());
    let key = DocumentKey { collection, id };
    let write = |expect| {
        let content = Some(Content {
            body: Bytes::new(),
            terms: Vec::new(),
        });
        vec![DocumentWrite {
            key: key.clone(),
            expect,
            content,
        }]
    };
    let append = Append {
        producer: claim(0, 0),
        documents: write(Expect::Absent),
        ..append("a", "x")
    };
    assert!(matches!(
        store.append(append.clone()).await,
        Ok(Outcome::Appended(_))
    ));
    // The retry is known before the document is looked at.
    assert!(matches!(
        store.append(append.clone()).await,
        Ok(Outcome::Duplicate(_))
    ));
    let refused = Append {
        producer: claim(0, 1),
        ..append
    };
    assert_eq!(
        store.append(refused).await,
        Err(Refusal::DocumentChanged { key: key.clone() })
    );
    assert_eq!(store.text("a").await.unwrap(), "x");
    assert_eq!(store.document(&key).await.unwrap().unwrap().version, 1);
}
