//! Which requests for sandboxes are taken, and what becomes of them.

use std::time::Duration;

use holm_daytona_wire::sandbox::{CreateSandbox, SandboxState};
use holm_daytona_wire::snapshot::SnapshotState;
use serde_json::{Value, json};

use super::sandbox_create::{Asked, checked_name, record, resources};
use crate::error::Result;
use crate::records::{Foundation, Resources, SandboxRecord, SnapshotRecord};

const NOW: i64 = 1_000_000;

fn snapshot(foundation: Foundation) -> SnapshotRecord {
    SnapshotRecord {
        id: "1".into(),
        organization: String::new(),
        name: "daytona-small".into(),
        state: SnapshotState::Active,
        foundation,
        layers: vec!["layer".into()],
        layers_id_range: 0,
        image_name: None,
        image_user: None,
        entrypoint: Vec::new(),
        dockerfile: None,
        resources: Resources {
            cpu: 1,
            memory_gib: 1,
            disk_gib: 3,
        },
        size_bytes: 0,
        error_reason: None,
        created_at: 0,
        updated_at: 0,
        last_used_at: None,
        source_sandbox: None,
    }
}

fn made_on(foundation: Foundation, request: Value) -> Result<SandboxRecord> {
    let request: CreateSandbox = serde_json::from_value(request).unwrap();
    let asked = Asked {
        organization: "team",
        now: NOW,
        minute: Duration::from_secs(60),
    };
    record(&request, &snapshot(foundation), asked)
}

fn made(request: Value) -> SandboxRecord {
    made_on(Foundation::Host, request).unwrap()
}

fn refused(request: Value) -> String {
    let shown = request.to_string();
    match made_on(Foundation::Host, request) {
        Ok(_) => panic!("taken: {shown}"),
        Err(error) => format!("{} {}", error.status().as_u16(), error.message),
    }
}

#[test]
fn what_is_not_said_has_daytonas_defaults() {
    let made = made(json!({}));
    assert_eq!(made.name, made.id);
    assert_eq!(
        (made.user.as_str(), made.target.as_str()),
        ("daytona", "local")
    );
    assert_eq!(
        (
            made.intervals.stop,
            made.intervals.pause,
            made.intervals.archive,
            made.intervals.delete
        ),
        (15, 0, 10_080, -1)
    );
    assert_eq!(made.snapshot.as_deref(), Some("daytona-small"));
    assert_eq!(made.layers, ["layer"]);
    assert_eq!(made.state, SandboxState::Creating);
    assert_eq!((made.public, made.destroy_at), (false, None));
    assert_ne!(made.auth_token, made.signing_key);
}

#[test]
fn what_is_said_is_kept() {
    let made = made(json!({
        "name": "web-7.a_b", "target": "eu", "public": true, "env": { "A": "1" },
        "labels": { "code-toolbox-language": "python" }, "autoStopInterval": 0,
        "autoArchiveInterval": 0, "autoDeleteInterval": 0, "ttlMinutes": 2,
        "secrets": [{ "TOKEN": "github" }],
        "volumes": [{ "volumeId": "v", "mountPath": "/data/", "subpath": "a/b" }],
        "networkAllowList": "10.0.0.0/8", "domainAllowList": ""
    }));
    assert_eq!(
        (made.name.as_str(), made.target.as_str()),
        ("web-7.a_b", "eu")
    );
    assert_eq!(made.labels["code-toolbox-language"], "python");
    // No archiving sooner than the longest; deleted as soon as it stops.
    assert_eq!(
        (
            made.intervals.stop,
            made.intervals.archive,
            made.intervals.delete
        ),
        (0, 43_200, 0)
    );
    assert_eq!(made.destroy_at, Some(NOW + 120_000));
    assert_eq!(made.secrets["TOKEN"], "github");
    assert_eq!(made.volumes[0].mount_path, "/data");
    assert_eq!(made.network.allow_list.as_deref(), Some("10.0.0.0/8"));
    assert_eq!(made.network.domain_allow_list, None);
}

#[test]
fn what_daytona_refuses_is_refused() {
    let mount = |path: &str| json!({ "volumes": [{ "volumeId": "v", "mountPath": path }] });
    let part = |part: &str| json!({ "volumes": [{ "volumeId": "v", "mountPath": "/a", "subpath": part }] });
    let cases = [
        (json!({ "gpu": 1 }), "400 GPUs are not available"),
        (json!({ "kvm": true }), "400 virtual machines"),
        (json!({ "linkedSandbox": "x" }), "501 linked sandboxes"),
        (
            json!({ "outboundProxyUrl": "http://p" }),
            "501 outbound proxies",
        ),
        (
            json!({ "user": "root" }),
            "400 this snapshot has no user `root`",
        ),
        (
            json!({ "autoStopInterval": -1 }),
            "400 Auto-stop interval must be non-negative",
        ),
        (
            json!({ "autoPauseInterval": -1 }),
            "400 Auto-stop interval must be non-negative",
        ),
        (
            json!({ "autoArchiveInterval": -1 }),
            "400 Auto-archive interval must be between",
        ),
        (
            json!({ "autoArchiveInterval": 43_201 }),
            "400 Auto-archive interval must be between",
        ),
        (
            json!({ "ttlMinutes": -1 }),
            "400 Time to live must be non-negative",
        ),
        (json!({ "name": "a/b" }), "400 a name has at most 255"),
        (json!({ "name": ".." }), "400 a name has at most 255"),
        (
            json!({ "name": "a".repeat(256) }),
            "400 a name has at most 255",
        ),
        (json!({ "target": "a b" }), "400 a name has at most 255"),
        (
            json!({ "env": { "1A": "" } }),
            "400 invalid environment variable name: '1A'",
        ),
        (
            json!({ "env": { "": "" } }),
            "400 invalid environment variable name: ''",
        ),
        (
            json!({ "env": { "A": "a\u{0}b" } }),
            "400 the value of the environment variable 'A'",
        ),
        (
            json!({ "env": { "A": "a".repeat(200_000) } }),
            "400 the environment of a sandbox",
        ),
        (
            json!({ "labels": { "a": "b".repeat(70_000) } }),
            "400 a sandbox has at most 256 labels",
        ),
        (
            mount("data"),
            "400 Invalid mount path `data`: it has to be absolute",
        ),
        (
            mount(""),
            "400 Invalid mount path ``: it has to be absolute",
        ),
        (
            mount("/"),
            "400 Invalid mount path `/`: it cannot be the root",
        ),
        (
            mount("///"),
            "400 Invalid mount path `///`: it cannot be the root",
        ),
        (
            mount("/a/../etc"),
            "400 Invalid mount path `/a/../etc`: it holds",
        ),
        (mount("/a/./b"), "400 Invalid mount path `/a/./b`: it holds"),
        (mount("/a//b"), "400 Invalid mount path `/a//b`: it holds"),
        (
            mount("/etc"),
            "400 Invalid mount path `/etc`: `/etc` belongs to the system",
        ),
        (
            mount("/proc/self"),
            "400 Invalid mount path `/proc/self`: `/proc` belongs",
        ),
        (
            mount("/usr/"),
            "400 Invalid mount path `/usr/`: `/usr` belongs",
        ),
        (part("../x"), "400 Invalid subpath `../x`"),
        (part("/x"), "400 Invalid subpath `/x`"),
        (part("a/../../b"), "400 Invalid subpath `a/../../b`"),
        (
            json!({ "volumes": [
                { "volumeId": "v", "mountPath": "/a" }, { "volumeId": "w", "mountPath": "/a/" }
            ] }),
            "400 Invalid mount path `/a`: two volumes",
        ),
    ];
    for (request, expected) in cases {
        let shown = request.to_string();
        let found = refused(request);
        assert!(found.starts_with(expected), "{shown}: {found}");
    }
}

#[test]
fn paths_that_only_look_like_the_systems_are_fine() {
    for path in ["/etcetera", "/home/daytona/data", "/workspace", "/mnt/a-b"] {
        made(json!({ "volumes": [{ "volumeId": "v", "mountPath": path }] }));
    }
}

#[test]
fn an_image_says_who_runs_in_it_unless_the_request_does() {
    let image = || Foundation::Image { image: "i".into() };
    assert_eq!(made_on(image(), json!({})).unwrap().user, "root");
    let request = json!({ "user": "app:users" });
    assert_eq!(made_on(image(), request).unwrap().user, "app:users");
}

#[test]
fn sizes_have_defaults_and_bounds() {
    let default = resources(None, None, None).unwrap();
    assert_eq!(
        (default.cpu, default.memory_gib, default.disk_gib),
        (1, 1, 3)
    );
    assert_eq!(resources(Some(2), Some(4), Some(8)).unwrap().memory_gib, 4);
    for (cpu, memory) in [(0, 1), (1, 0), (1_025, 1), (1, u32::MAX)] {
        assert!(resources(Some(cpu), Some(memory), None).is_err());
    }
}

#[test]
fn names_can_stand_in_addresses() {
    for name in ["a", "A.b_c-d", "0"] {
        assert_eq!(checked_name(name).unwrap(), name);
    }
    for name in [".", "..", "a b", "ä", "a%2f", "a\n", "a/b"] {
        assert!(checked_name(name).is_err(), "{name:?}");
    }
}
