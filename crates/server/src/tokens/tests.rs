//! Tokens: what opens, what does not, and why.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use holm_thread_log::{MemoryStore, StreamId, StreamStore, Timestamp};
use serde_json::{Value, json};
use sha2::{Sha256, Sha512};

use super::claims::SKEW_SECONDS_MAX;
use super::keyring::ROTATE_AFTER;
use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn later(seconds: u64) -> Timestamp {
    Timestamp(NOW.0 + i64::try_from(seconds).unwrap() * 1000)
}

fn ring() -> KeyRing {
    KeyRing::new(Arc::new(MemoryStore::default()))
}

fn grant() -> Grant {
    Grant {
        run: "run-1".parse().unwrap(),
        producer: "box-1".parse().unwrap(),
        operations: Operation::OF_A_RUN.to_vec(),
        ttl_seconds: TTL_SECONDS_MAX,
    }
}

async fn minted(keys: &KeyRing, house: &str, now: Timestamp) -> String {
    let id = "t1".parse().unwrap();
    let thread = MintedFor {
        id: &id,
        stream: StreamId(7),
    };
    let minted = mint_stream_write_jwt(keys, house, thread, grant(), now).await;
    minted.unwrap().jwt.into_inner()
}

fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn unsigned(header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

/// A token as we make them, changed, and signed with the real key of an organisation.
async fn forged(
    keys: &KeyRing,
    house: &str,
    change: impl FnOnce(&mut Value, &mut Value),
) -> String {
    let good = minted(keys, house, NOW).await;
    let (mut header, mut claims) = (part(&good, 0), part(&good, 1));
    change(&mut header, &mut claims);
    let message = unsigned(&header, &claims);
    let key = keys.signing(house, NOW).await.unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(key.secret.expose().as_bytes()).unwrap();
    mac.update(message.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{message}.{signature}")
}

async fn is_unknown(keys: &KeyRing, token: &str) -> bool {
    matches!(verify(keys, token, NOW).await, Err(Invalid::Unknown))
}

#[tokio::test]
async fn a_token_says_what_it_was_made_for() {
    let keys = ring();
    let token = minted(&keys, "house", NOW).await;
    assert!(looks_like_token(&token));
    let claims = verify(&keys, &token, NOW).await.unwrap();
    assert_eq!(claims.org, "house");
    assert_eq!(claims.thr.as_str(), "t1");
    assert_eq!(claims.sub.as_str(), "run-1");
    assert_eq!(claims.pid, "box-1");
    assert_eq!(claims.ops, Operation::OF_A_RUN);
    assert_eq!(claims.exp - claims.iat, 7_200);
    // What others would look for.
    let shown = part(&token, 1);
    assert_eq!(
        (&shown["iss"], &shown["aud"]),
        (&json!("holm"), &json!("threads"))
    );
    assert_eq!(shown["ops"], json!(["append", "heartbeat", "read"]));
    assert!(token.len() < 700, "{}", token.len());
    let other = minted(&keys, "house", NOW).await;
    assert_ne!(part(&other, 1)["jti"], shown["jti"]);
}

#[tokio::test]
async fn a_token_lives_two_hours_and_clocks_may_differ_by_a_minute() {
    let keys = ring();
    let token = minted(&keys, "house", NOW).await;
    let at = async |now: Timestamp| verify(&keys, &token, now).await.map(drop);
    let end = TTL_SECONDS_MAX + SKEW_SECONDS_MAX;
    assert!(at(later(end - 1)).await.is_ok());
    assert!(matches!(at(later(end)).await, Err(Invalid::Expired)));
    let early = |seconds: i64| Timestamp(NOW.0 - seconds * 1000);
    assert!(at(early(60)).await.is_ok());
    assert!(matches!(at(early(61)).await, Err(Invalid::NotYet)));
}

#[tokio::test]
async fn what_was_changed_or_signed_otherwise_opens_nothing() {
    let keys = ring();
    let good = minted(&keys, "house", NOW).await;
    minted(&keys, "other", NOW).await;
    let (header, claims) = (part(&good, 0), part(&good, 1));
    let signature = good.rsplit_once('.').unwrap().1;

    let mut another = claims.clone();
    another["thr"] = json!("t2");
    assert!(
        is_unknown(
            &keys,
            &format!("{}.{signature}", unsigned(&header, &another))
        )
        .await
    );
    assert!(is_unknown(&keys, good.rsplit_once('.').unwrap().0).await);
    assert!(is_unknown(&keys, &format!("{}.", good.rsplit_once('.').unwrap().0)).await);

    for algorithm in [
        "none", "None", "NONE", "HS512", "HS384", "RS256", "ES256", "EdDSA", "",
    ] {
        let mut header = header.clone();
        header["alg"] = json!(algorithm);
        let message = unsigned(&header, &claims);
        assert!(
            is_unknown(&keys, &format!("{message}.")).await,
            "{algorithm}"
        );
        assert!(
            is_unknown(&keys, &format!("{message}.{signature}")).await,
            "{algorithm}"
        );
        // Even if whoever signs has the key.
        let forged = forged(&keys, "house", |header, _| header["alg"] = json!(algorithm)).await;
        assert!(is_unknown(&keys, &forged).await, "{algorithm}");
    }
    let mut header512 = header.clone();
    header512["alg"] = json!("HS512");
    let message = unsigned(&header512, &claims);
    let key = keys.signing("house", NOW).await.unwrap();
    let mut mac = Hmac::<Sha512>::new_from_slice(key.secret.expose().as_bytes()).unwrap();
    mac.update(message.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    assert!(is_unknown(&keys, &format!("{message}.{signature}")).await);
}

#[tokio::test]
async fn claims_have_to_be_ours() {
    let keys = ring();
    minted(&keys, "other", NOW).await;
    type Change = fn(&mut Value, &mut Value);
    let table: [(&str, Change); 15] = [
        ("audience", |_, claims| claims["aud"] = json!("elsewhere")),
        ("no audience", |_, claims| {
            claims.as_object_mut().unwrap().remove("aud");
        }),
        ("issuer", |_, claims| claims["iss"] = json!("somebody")),
        ("no end", |_, claims| {
            claims.as_object_mut().unwrap().remove("exp");
        }),
        ("an end that is no number", |_, claims| {
            claims["exp"] = json!("later");
        }),
        ("no thread", |_, claims| {
            claims.as_object_mut().unwrap().remove("thr");
        }),
        ("a thread that is a path", |_, claims| {
            claims["thr"] = json!("../t2");
        }),
        ("no stream", |_, claims| {
            claims.as_object_mut().unwrap().remove("sid");
        }),
        ("no run", |_, claims| {
            claims.as_object_mut().unwrap().remove("sub");
        }),
        ("a verb that is none", |_, claims| {
            claims["ops"] = json!(["manage"]);
        }),
        ("another house, by a key of this one", |_, claims| {
            claims["org"] = json!("other");
        }),
        ("no key", |header, _| {
            header.as_object_mut().unwrap().remove("kid");
        }),
        ("another's key", |header, _| {
            header["kid"] = json!("other.1");
        }),
        ("a key that never was", |header, _| {
            header["kid"] = json!("house.2");
        }),
        ("another spelling of the key", |header, _| {
            header["kid"] = json!("house.01");
        }),
    ];
    for (what, change) in table {
        let forged = forged(&keys, "house", change).await;
        assert!(is_unknown(&keys, &forged).await, "{what}");
    }
    // And unchanged, it is good: what is refused above is refused for its change.
    let good = forged(&keys, "house", |_, _| {}).await;
    assert!(verify(&keys, &good, NOW).await.is_ok());
}

#[tokio::test]
async fn keys_rotate_and_two_are_good() {
    let keys = ring();
    let first = minted(&keys, "house", NOW).await;
    let others = minted(&keys, "other", NOW).await;
    keys.rotate("house", NOW).await.unwrap();
    let second = minted(&keys, "house", NOW).await;
    assert_ne!(part(&first, 0)["kid"], part(&second, 0)["kid"]);
    assert!(verify(&keys, &first, NOW).await.is_ok());
    assert!(verify(&keys, &second, NOW).await.is_ok());
    keys.rotate("house", NOW).await.unwrap();
    assert!(is_unknown(&keys, &first).await);
    assert!(verify(&keys, &second, NOW).await.is_ok());
    assert!(verify(&keys, &others, NOW).await.is_ok());
}

#[tokio::test]
async fn old_keys_are_replaced_when_a_token_is_made() {
    let keys = ring();
    let first = minted(&keys, "house", NOW).await;
    let month = later(ROTATE_AFTER.as_secs() + 1);
    let second = minted(&keys, "house", month).await;
    assert_eq!(part(&first, 0)["kid"], "house.1");
    assert_eq!(part(&second, 0)["kid"], "house.2");
}

#[tokio::test]
async fn servers_over_one_store_know_each_others_tokens() {
    let store: Arc<dyn StreamStore> = Arc::new(MemoryStore::default());
    let (one, two) = (KeyRing::new(Arc::clone(&store)), KeyRing::new(store));
    let (a, b) = tokio::join!(minted(&one, "house", NOW), minted(&two, "house", NOW));
    for keys in [&one, &two] {
        assert!(verify(keys, &a, NOW).await.is_ok());
        assert!(verify(keys, &b, NOW).await.is_ok());
    }
    // A key that the other has just made is found, though this one's memory is fresh.
    one.rotate("house", NOW).await.unwrap();
    let new = minted(&one, "house", NOW).await;
    assert!(verify(&two, &new, NOW).await.is_ok());
}

#[tokio::test]
async fn no_key_shows_itself() {
    let keys = ring();
    minted(&keys, "house", NOW).await;
    let key = keys.signing("house", NOW).await.unwrap();
    let shown = format!("{keys:?} {key:?}");
    assert!(!shown.contains(key.secret.expose()));
    assert_eq!(key.secret.expose().len(), 64);
}

#[test]
fn api_keys_do_not_look_like_tokens() {
    for key in [
        "holm_0123456789abcdef",
        "eyJ",
        "eyJ.a",
        "a.b.c",
        "eyJ.a.b.c",
        "",
    ] {
        assert!(!looks_like_token(key), "{key}");
    }
}

fn ticket() -> Ticket {
    Ticket {
        organization: "house".to_owned(),
        thread: "t1".parse().unwrap(),
        stream: StreamId(7),
        until: later(7_200).0,
    }
}

#[tokio::test]
async fn a_ticket_opens_once() {
    let tickets = Tickets::new(Arc::new(MemoryStore::default()));
    let (text, expires_at) = tickets.issue(&ticket(), NOW).await.unwrap();
    assert_eq!(expires_at, later(60));
    let text = text.expose();
    for wrong in [
        "",
        "-",
        "x",
        &text[1..],
        &format!("{text}0"),
        &"0".repeat(5_000),
    ] {
        assert_eq!(tickets.take(wrong, NOW).await.unwrap(), None, "{wrong}");
    }
    let taken = tickets.take(text, NOW).await.unwrap().unwrap();
    assert_eq!(taken.ticket, ticket());
    assert_eq!(tickets.take(text, NOW).await.unwrap(), None);
}

#[tokio::test]
async fn a_ticket_leads_to_the_next_until_its_time_is_over() {
    let tickets = Tickets::new(Arc::new(MemoryStore::default()));
    let (first, _) = tickets.issue(&ticket(), NOW).await.unwrap();
    let mut next = first;
    // An `EventSource` comes back about once a minute.
    for minute in 0..120 {
        let taken = tickets.take(next.expose(), later(minute * 60)).await;
        let taken = taken
            .unwrap()
            .unwrap_or_else(|| panic!("after {minute} minutes"));
        assert_eq!(taken.ticket, ticket());
        next = taken.to_return;
    }
    let late = tickets.take(next.expose(), later(7_200)).await;
    assert_eq!(late.unwrap(), None);
    // Whoever stays away for too long needs a new one.
    let (first, _) = tickets.issue(&ticket(), NOW).await.unwrap();
    let taken = tickets.take(first.expose(), NOW).await.unwrap().unwrap();
    let late = tickets.take(taken.to_return.expose(), later(300)).await;
    assert_eq!(late.unwrap(), None);
}

#[tokio::test]
async fn of_many_who_show_a_ticket_one_gets_in() {
    let store: Arc<dyn StreamStore> = Arc::new(MemoryStore::default());
    let tickets = Arc::new(Tickets::new(store));
    let (text, _) = tickets.issue(&ticket(), NOW).await.unwrap();
    let tries = (0..16).map(|_| {
        let (tickets, text) = (Arc::clone(&tickets), text.clone());
        tokio::spawn(async move { tickets.take(text.expose(), NOW).await.unwrap() })
    });
    let mut let_in = 0;
    for taken in tries.collect::<Vec<_>>() {
        let_in += usize::from(taken.await.unwrap().is_some());
    }
    assert_eq!(let_in, 1);
}

#[tokio::test]
async fn tickets_end_and_are_swept() {
    let store = Arc::new(MemoryStore::default());
    let tickets = Tickets::new(store.clone());
    for _ in 0..10 {
        tickets.issue(&ticket(), NOW).await.unwrap();
    }
    let (late, _) = tickets.issue(&ticket(), NOW).await.unwrap();
    assert_eq!(tickets.take(late.expose(), later(60)).await.unwrap(), None);
    tickets.issue(&ticket(), later(61)).await.unwrap();
    let query = holm_thread_log::DocumentQuery {
        collection: "read-tickets".to_owned(),
        terms: Vec::new(),
        order: holm_thread_log::Order::Ascending,
        after: None,
        limit: 100,
    };
    assert_eq!(store.documents(&query).await.unwrap().len(), 1);
}
