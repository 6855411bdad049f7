//! The table of operations and credentials.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::threads::{Content, ThreadsClient, chat, entry, status};

const BLOB: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

/// Who asks, in the order of the columns.
const CREDENTIALS: [&str; 8] = [
    "key",
    "other organisation",
    "token",
    "foreign thread",
    "read only",
    "append only",
    "run that was",
    "not good",
];

struct World {
    client: ThreadsClient,
    key: String,
    other: String,
    token: String,
    foreign: String,
    read_only: String,
    append_only: String,
    ended: String,
}

impl World {
    fn new() -> Self {
        let client = ThreadsClient::new();
        let (thread, foreign) = (client.thread("t"), client.thread("u"));
        client.begin(&thread, "r0");
        let ended = client.mint(&thread, json!({ "run": "r0" }));
        client
            .append(&ended, &thread, entry("end-r0", status("completed", None)))
            .ok();
        client.begin(&thread, "r1");
        client.begin(&foreign, "r1");
        let mint = |ops: Value| client.mint(&thread, json!({ "run": "r1", "ops": ops }));
        let blob = format!("{thread}/blobs/{BLOB}");
        let content = Content::Bytes(b"hello".to_vec());
        client
            .send(Some(client.key()), Method::PUT, &blob, content, &[])
            .ok();
        Self {
            key: client.key().to_owned(),
            other: client.server.key_of("other"),
            token: mint(json!(["append", "heartbeat", "read"])),
            read_only: mint(json!(["read"])),
            append_only: mint(json!(["append"])),
            foreign: client.mint(&foreign, json!({ "run": "r1" })),
            ended,
            client,
        }
    }

    /// Tokens that open nothing, each in its own way.
    fn wrong(&self) -> Vec<(&'static str, String)> {
        let mut parts = self.token.split('.');
        let [header, claims, signature] = [(); 3].map(|()| parts.next().unwrap());
        let decoded = |part: &str| -> Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        let changed = |part: &str, field: &str, value: Value| {
            let mut decoded = decoded(part);
            decoded[field] = value;
            URL_SAFE_NO_PAD.encode(decoded.to_string())
        };
        let none = changed(header, "alg", json!("none"));
        let longer = changed(header, "alg", json!("HS512"));
        let kid = changed(header, "kid", json!("somebody.1"));
        let later = changed(claims, "exp", json!(9_999_999_999_u64));
        let thread = changed(claims, "thr", json!("u"));
        let cut = &signature[..signature.len() - 4];
        vec![
            ("no algorithm", format!("{none}.{claims}.")),
            (
                "no algorithm, signed",
                format!("{none}.{claims}.{signature}"),
            ),
            (
                "another algorithm",
                format!("{longer}.{claims}.{signature}"),
            ),
            ("another's key", format!("{kid}.{claims}.{signature}")),
            ("a longer life", format!("{header}.{later}.{signature}")),
            ("another thread", format!("{header}.{thread}.{signature}")),
            ("half a signature", format!("{header}.{claims}.{cut}")),
            ("no signature", format!("{header}.{claims}.")),
            ("no key", "holm_0000000000000000".to_owned()),
        ]
    }
}

type Operation = (&'static str, Method, String, fn() -> Content, [u16; 7]);

fn nothing() -> Content {
    Content::Nothing
}

fn object() -> Content {
    Content::Json(json!({}))
}

fn new_entry() -> Content {
    Content::Json(chat("always-the-same", "hi"))
}

fn blob() -> Content {
    Content::Bytes(b"hello".to_vec())
}

fn operations() -> Vec<Operation> {
    let thread = |rest: &str| format!("/api/threads/t{rest}");
    let stream = || "/v1/stream/holm-thread-t".to_owned();
    vec![
        // operation, …, key, other organisation, token, foreign thread, read only, append only, a run that was
        (
            "show",
            Method::GET,
            thread(""),
            nothing,
            [200, 404, 200, 403, 200, 403, 200],
        ),
        (
            "change",
            Method::PATCH,
            thread(""),
            object,
            [200, 404, 403, 403, 403, 403, 403],
        ),
        (
            "children",
            Method::GET,
            thread("/children"),
            nothing,
            [200, 404, 403, 403, 403, 403, 403],
        ),
        (
            "rebuild",
            Method::POST,
            thread("/rebuild"),
            nothing,
            [200, 404, 403, 403, 403, 403, 403],
        ),
        (
            "read",
            Method::GET,
            thread("/entries"),
            nothing,
            [200, 404, 200, 403, 200, 403, 200],
        ),
        (
            "append",
            Method::POST,
            thread("/entries"),
            new_entry,
            [200, 404, 200, 403, 403, 200, 200],
        ),
        (
            "heartbeat",
            Method::POST,
            thread("/heartbeat"),
            nothing,
            [204, 404, 204, 403, 403, 403, 403],
        ),
        (
            "put a blob",
            Method::PUT,
            thread(&format!("/blobs/{BLOB}")),
            blob,
            [200, 404, 200, 403, 403, 200, 403],
        ),
        (
            "get a blob",
            Method::GET,
            thread(&format!("/blobs/{BLOB}")),
            nothing,
            [200, 404, 200, 403, 200, 403, 200],
        ),
        (
            "mint",
            Method::POST,
            thread("/tokens"),
            object,
            [201, 404, 403, 403, 403, 403, 403],
        ),
        (
            "renew",
            Method::POST,
            thread("/tokens/renew"),
            nothing,
            [400, 400, 201, 403, 201, 201, 403],
        ),
        (
            "ticket",
            Method::POST,
            thread("/read-tickets"),
            nothing,
            [201, 404, 201, 403, 201, 403, 201],
        ),
        (
            "read the stream",
            Method::GET,
            stream(),
            nothing,
            [200, 404, 200, 403, 200, 403, 200],
        ),
        (
            "head of the stream",
            Method::HEAD,
            stream(),
            nothing,
            [200, 404, 200, 403, 200, 403, 200],
        ),
        (
            "append to the stream",
            Method::POST,
            stream(),
            new_entry,
            [204, 404, 204, 403, 403, 204, 204],
        ),
        (
            "list",
            Method::GET,
            "/api/threads".into(),
            nothing,
            [200, 200, 403, 403, 403, 403, 403],
        ),
        (
            "make",
            Method::POST,
            "/api/threads".into(),
            object,
            [201, 201, 403, 403, 403, 403, 403],
        ),
        // A token that cannot do it to its own thread cannot do it to others either.
        (
            "delete",
            Method::DELETE,
            thread(""),
            nothing,
            [204, 404, 403, 403, 403, 403, 403],
        ),
        (
            "delete the stream",
            Method::DELETE,
            stream(),
            nothing,
            [204, 404, 403, 403, 403, 403, 403],
        ),
    ]
}

#[test]
fn every_operation_with_every_credential() {
    let world = World::new();
    let client = &world.client;
    let credentials = [
        &world.key,
        &world.other,
        &world.token,
        &world.foreign,
        &world.read_only,
        &world.append_only,
        &world.ended,
    ];
    // The same entry each time: what was stored before its run ended is confirmed to it, and nothing new.
    client
        .append(&world.key, "/api/threads/t", chat("always-the-same", "hi"))
        .ok();
    let mut wrong = Vec::new();
    for (operation, method, path, content, expected) in operations() {
        // Those that end the thread are tried by the weak first.
        for (column, credential) in credentials.iter().enumerate().rev() {
            if method == Method::DELETE && column == 0 {
                continue;
            }
            let reply = client.send(Some(credential), method.clone(), &path, content(), &[]);
            if reply.status.as_u16() != expected[column] {
                wrong.push(format!("{operation} by {}: {reply:?}", CREDENTIALS[column]));
            }
        }
        let nobody = client.send(None, method.clone(), &path, content(), &[]);
        if nobody.status.as_u16() != 401 {
            wrong.push(format!("{operation} by nobody: {nobody:?}"));
        }
        for (how, token) in world.wrong() {
            let reply = client.send(Some(&token), method.clone(), &path, content(), &[]);
            if reply.status.as_u16() != 401 {
                wrong.push(format!("{operation} by {how}: {reply:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_foreign_thread_is_forbidden_whether_or_not_it_exists() {
    let world = World::new();
    for id in ["u", "none", "t.", "..%2ft"] {
        for path in [
            format!("/api/threads/{id}"),
            format!("/v1/stream/holm-thread-{id}"),
        ] {
            let reply = world.client.get(&world.token, &path);
            let status = reply.status.as_u16();
            let is_address = id.contains(['.', '%']);
            assert!(
                status == 403 || (is_address && matches!(status, 400 | 404)),
                "{path}: {reply:?}"
            );
        }
    }
}

#[test]
fn a_refused_token_is_told_why() {
    let world = World::new();
    let (client, key) = (&world.client, &world.key);
    let (_, unsigned) = world.wrong().remove(0);
    let reply = client.get(&unsigned, "/api/threads/t");
    let challenge = reply.headers["www-authenticate"]
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        challenge,
        "Bearer error=\"invalid_token\", error_description=\"token_invalid\""
    );
    assert_eq!(reply.refused(401), "token_invalid");
    assert_eq!(
        client
            .get(&unsigned, "/v1/stream/holm-thread-t")
            .refused(401),
        "token_invalid"
    );
    for (request, message) in [
        (json!({ "ops": [] }), "`ops` holds one to three verbs"),
        (
            json!({ "ttlSeconds": 7_201 }),
            "`ttlSeconds` has to be between 1 and 7200",
        ),
        (
            json!({ "ttlSeconds": 0 }),
            "`ttlSeconds` has to be between 1 and 7200",
        ),
        (
            json!({ "run": "a b" }),
            "the id of a run is 1 to 128 visible ASCII characters",
        ),
        (
            json!({ "producerId": "\u{e9}" }),
            "a producer's id is 1 to 256 bytes of visible ASCII",
        ),
    ] {
        let reply = client.post(key, "/api/threads/t/tokens", request.clone());
        assert_eq!(reply.status.as_u16(), 400, "{request}: {reply:?}");
        assert_eq!(reply.message(), message);
    }
    for request in [json!({ "ops": ["manage"] }), json!({ "sub": "x" })] {
        let reply = client.post(key, "/api/threads/t/tokens", request);
        assert_eq!(reply.refused(400), "INVALID_REQUEST_BODY");
    }
}

#[test]
fn a_token_writes_as_its_own_producer() {
    let world = World::new();
    let client = &world.client;
    let token = client.mint(
        "/api/threads/t",
        json!({ "run": "r1", "producerId": "box-1" }),
    );
    let append = |producer: &str, id: &str| {
        let headers = [
            ("producer-id", producer),
            ("producer-epoch", "0"),
            ("producer-seq", "0"),
        ];
        let content = Content::Json(chat(id, "x"));
        let path = "/v1/stream/holm-thread-t";
        client.send(Some(&token), Method::POST, path, content, &headers)
    };
    assert_eq!(append("box-2", "p1").refused(403), "forbidden");
    assert_eq!(append("box-1", "p2").status.as_u16(), 200);
    // Renewed, it is the same producer's.
    let renewed = client
        .post(&token, "/api/threads/t/tokens/renew", json!({}))
        .ok();
    assert_eq!(renewed["producerId"], "box-1");
    assert_eq!(renewed["run"], "r1");
    assert_ne!(renewed["jwt"], json!(token));
}
