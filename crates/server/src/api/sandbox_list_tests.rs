//! Lists: filters, order, and pages that stay right while sandboxes come and go.

use std::collections::BTreeSet;

use holm_daytona_wire::Hidden;
use holm_daytona_wire::sandbox::SandboxState;
use proptest::prelude::*;

use super::query::Pairs;
use super::sandbox_list::Listing;
use crate::error::Result;
use crate::records::{Foundation, Intervals, NetworkSettings, Resources, SandboxRecord};

fn record(id: &str) -> SandboxRecord {
    SandboxRecord {
        id: id.to_owned(),
        organization: "team".into(),
        name: format!("name-{id}"),
        user: "daytona".into(),
        env: [].into(),
        labels: [].into(),
        public: false,
        network: NetworkSettings::default(),
        target: "local".into(),
        resources: Resources {
            cpu: 1,
            memory_gib: 1,
            disk_gib: 3,
        },
        snapshot: Some("daytona-small".into()),
        foundation: Foundation::Host,
        layers: Vec::new(),
        state: SandboxState::Started,
        error_reason: None,
        intervals: Intervals {
            stop: 15,
            pause: 0,
            archive: 10_080,
            delete: -1,
        },
        destroy_at: None,
        volumes: Vec::new(),
        secrets: [].into(),
        created_at: 0,
        updated_at: 0,
        last_activity_at: 0,
        auth_token: Hidden::default(),
        signing_key: Hidden::default(),
        linked_sandbox: None,
        dockerfile: None,
        build: None,
        running: None,
    }
}

fn listing(query: &str) -> Result<Listing> {
    Listing::parse(&Pairs::parse(query))
}

/// Ids of all that a query finds among five sandboxes, in its order.
fn found(query: &str) -> String {
    let mut all: Vec<SandboxRecord> = ["a", "b", "c", "d", "E"].map(record).into();
    for (index, record) in (0_i64..).zip(all.iter_mut()) {
        record.created_at = index;
        record.last_activity_at = -index;
    }
    all[0].labels.insert("team".into(), "x".into());
    all[0].labels.insert("tier".into(), "1".into());
    all[1].labels.insert("team".into(), "x".into());
    all[1].state = SandboxState::Stopped;
    all[2].state = SandboxState::Error;
    all[2].resources.cpu = 4;
    all[3].snapshot = Some("mine".into());
    all[3].target = "eu".into();
    let found = listing(query).unwrap().all(all);
    found.into_iter().map(|record| record.id).collect()
}

#[test]
fn a_list_holds_what_was_asked_for_in_the_order_that_was_asked_for() {
    let cases = [
        ("", "Edcba"),
        ("order=asc", "abcdE"),
        ("sort=name&order=asc", "Eabcd"),
        ("sort=lastActivityAt", "abcdE"),
        ("sort=cpu", "cdbaE"),
        ("sort=whatever", "Edcba"),
        ("labels=null", "Edcba"),
        ("labels=%7B%7D", "Edcba"),
        ("labels=%7B%22team%22%3A%22x%22%7D", "ba"),
        (
            "labels=%7B%22team%22%3A%22x%22,%22tier%22%3A%221%22%7D",
            "a",
        ),
        ("labels=%7B%22team%22%3A%22y%22%7D", ""),
        ("states=stopped&states=error", "cb"),
        ("states=stopped,error", "cb"),
        ("states=nonsense", ""),
        ("snapshots=mine", "d"),
        ("regionIds=eu&regionIds=us", "d"),
        ("minCpu=2", "c"),
        ("maxCpu=2&maxMemoryGiB=1", "Edba"),
        ("id=e", "E"),
        ("name=NAME-C", "c"),
        ("name=c", ""),
    ];
    for (query, expected) in cases {
        assert_eq!(found(query), expected, "{query}");
    }
}

#[test]
fn what_cannot_be_understood_is_refused() {
    for query in [
        "limit=0",
        "limit=201",
        "limit=x",
        "minCpu=much",
        "labels=[]",
        "labels=team",
        "labels=%7B%22a%22%3A1%7D",
        "cursor=%00",
        "cursor=bm90LWEtY3Vyc29y",
    ] {
        let refused = listing(query).unwrap_err();
        assert_eq!(refused.status().as_u16(), 400, "{query}");
    }
}

#[test]
fn a_cursor_of_a_list_in_another_order_is_refused() {
    let all = || ["a", "b"].map(record);
    let (_, cursor) = listing("limit=1").unwrap().page(all());
    let cursor = cursor.unwrap();
    assert!(listing(&format!("limit=1&cursor={cursor}")).is_ok());
    let refused = listing(&format!("sort=name&cursor={cursor}")).unwrap_err();
    assert!(refused.message.contains("another `sort`"), "{refused:?}");
}

proptest! {
    /// Whoever was there from the first page to the last is seen once, whoever comes and goes meanwhile.
    #[test]
    fn paging_gives_each_once(
        times in prop::collection::vec(0_i64..4, 1..30),
        limit in 1_usize..7,
        gone in prop::collection::btree_set(0_usize..30, 0..8),
        sort in prop::sample::select(vec!["createdAt", "name", "cpu"]),
        order in prop::sample::select(vec!["asc", "desc"]),
    ) {
        let mut all: Vec<SandboxRecord> = times
            .iter()
            .enumerate()
            .map(|(index, time)| SandboxRecord { created_at: *time, ..record(&format!("{index:02}")) })
            .collect();
        let staying: BTreeSet<String> = all
            .iter()
            .enumerate()
            .filter(|(index, _)| !gone.contains(index))
            .map(|(_, record)| record.id.clone())
            .collect();
        let mut seen = Vec::new();
        let mut cursor = None;
        for round in 0.. {
            prop_assert!(round < 100, "no end");
            let mut query = format!("limit={limit}&sort={sort}&order={order}");
            if let Some(cursor) = &cursor {
                query += &format!("&cursor={cursor}");
            }
            let (page, next) = listing(&query).unwrap().page(all.clone());
            prop_assert!(page.len() <= limit);
            seen.extend(page.into_iter().map(|record| record.id));
            all.retain(|record| staying.contains(&record.id) || record.id.starts_with("new"));
            all.push(record(&format!("new{round}")));
            if all.len() > 60 {
                all.retain(|record| !record.id.starts_with("new"));
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        let unique: BTreeSet<&String> = seen.iter().collect();
        prop_assert_eq!(unique.len(), seen.len(), "twice: {:?}", &seen);
        prop_assert!(staying.iter().all(|id| unique.contains(id)), "missed: {:?}", &seen);
    }
}
