//! Pulls from a real registry, and from registries that lie.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holm_images::{
    Cancel, Credentials, ImagesError, ImportedImage, Limits, Progress, RegistryOptions, Watch,
};

use crate::fake_registry::{Answer, FakeRegistry, Request, Then};
use crate::real_registry::{Access, Registry};
use crate::support::{
    Archive, Item, LayoutFolder, Place, chain, gzip, listing, place, sha256, this_architecture,
    watched,
};

fn layers() -> [Vec<u8>; 2] {
    [
        gzip(&Archive::of([Item::file("a", "1"), Item::file("b", "1")]).bytes()),
        gzip(&Archive::of([Item::file(".wh.b", ""), Item::file("c", "2")]).bytes()),
    ]
}

fn layout(place: &Place) -> LayoutFolder {
    LayoutFolder::new(place.folder.path().join("layout"))
}

fn anonymous() -> RegistryOptions {
    RegistryOptions::default()
}

fn as_me(password: &str) -> RegistryOptions {
    RegistryOptions {
        credentials: Some(Credentials {
            username: "me".into(),
            password: password.into(),
        }),
        ..RegistryOptions::default()
    }
}

fn pull(
    place: &Place,
    reference: &str,
    options: &RegistryOptions,
) -> Result<ImportedImage, ImagesError> {
    watched(|watch| place.images.pull("image", reference, options, watch))
}

#[test]
fn an_image_is_pulled_by_tag_and_by_digest() {
    let Some(place) = place() else { return };
    let Some(registry) = Registry::start(place.folder.path(), Access::Open) else {
        return;
    };
    let layout = layout(&place);
    let mut manifest = layout.image(this_architecture(), &layers());
    registry.push(&layout, &manifest, "team/app", "1");
    let digest = manifest["digest"].as_str().unwrap().to_owned();
    let address = registry.address;
    for reference in [
        format!("{address}/team/app:1"),
        format!("localhost:{}/team/app@{digest}", address.port()),
    ] {
        let image = pull(&place, &reference, &anonymous()).unwrap();
        assert_eq!(listing(&image.layers[0]), ["a=1", "c=2"]);
        assert_eq!(image.config.cmd, ["sh"]);
        assert_eq!(image.source, format!("registry {reference}"));
        place.images.remove("image").unwrap();
        place.assert_nothing_left();
    }
    // The same through an index for several machines.
    let mut foreign = layout.image("s390x", &layers());
    registry.push(&layout, &foreign, "team/app", "foreign");
    manifest["platform"] = serde_json::json!({"os": "linux", "architecture": this_architecture()});
    foreign["platform"] = serde_json::json!({"os": "linux", "architecture": "s390x"});
    let kind = "application/vnd.oci.image.index.v1+json";
    let index = serde_json::json!({"schemaVersion": 2, "mediaType": kind, "manifests": [foreign, manifest]});
    let index = layout.blob(kind, index.to_string().as_bytes());
    registry.push(&layout, &index, "team/app", "many");
    let told = AtomicUsize::new(0);
    watched(|watch| {
        let progress = |progress: Progress<'_>| {
            if let Progress::Downloaded { bytes, bytes_total } = progress {
                assert!(bytes <= bytes_total);
                told.fetch_add(1, Ordering::Relaxed);
            }
        };
        let watch = Watch {
            progress: &progress,
            ..*watch
        };
        let reference = format!("{address}/team/app:many");
        place.images.pull("image", &reference, &anonymous(), &watch)
    })
    .unwrap();
    assert!(told.into_inner() >= 3);
    place.images.remove("image").unwrap();

    let error = pull(&place, &format!("{address}/team/app:foreign"), &anonymous()).unwrap_err();
    assert!(
        matches!(error, ImagesError::WrongPlatform { .. }),
        "{error}"
    );
    for missing in ["team/app:2", "team/other:1"] {
        let error = pull(&place, &format!("{address}/{missing}"), &anonymous()).unwrap_err();
        assert!(
            matches!(error, ImagesError::ImageNotFound { .. }),
            "{error}"
        );
    }
    place.assert_nothing_left();
}

#[test]
fn a_registry_with_passwords_wants_the_right_one() {
    let Some(place) = place() else { return };
    let Some(registry) = Registry::start(place.folder.path(), Access::Password) else {
        return;
    };
    let layout = layout(&place);
    let manifest = layout.image(this_architecture(), &layers());
    registry.push(&layout, &manifest, "app", "1");
    let reference = format!("{}/app:1", registry.address);
    for options in [anonymous(), as_me("wrong")] {
        let error = pull(&place, &reference, &options).unwrap_err();
        assert!(matches!(error, ImagesError::Unauthorized { .. }), "{error}");
        assert!(!chain(&error).contains("wrong"));
    }
    place.assert_nothing_left();
    pull(&place, &reference, &as_me("right")).unwrap();
}

/// A registry that serves a layout, after `change` had its say.
pub(crate) fn serving(
    layout: &LayoutFolder,
    manifest: &serde_json::Value,
    change: impl Fn(&Request, Answer) -> Answer + Send + Sync + 'static,
) -> FakeRegistry {
    let path: PathBuf = layout.path.clone();
    let tagged = manifest["digest"].as_str().unwrap().to_owned();
    FakeRegistry::start(move |request| {
        let layout = LayoutFolder { path: path.clone() };
        let last = request.path.rsplit('/').next().unwrap_or_default();
        let digest = if last.starts_with("sha256:") {
            last
        } else {
            &tagged
        };
        let kind = "application/vnd.oci.image.manifest.v1+json".to_owned();
        let answer = match fs::read(layout.blob_path(digest)) {
            _ if request.path == "/v2/" => Answer::ok("{}"),
            Ok(bytes) => Answer::ok(bytes).header("Content-Type", kind),
            Err(_) => Answer::status(404, "no such thing"),
        };
        change(request, answer)
    })
}

#[test]
fn tokens_are_fetched_where_the_registry_says() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let manifest = layout.image(this_architecture(), &layers());
    let registry = serving(&layout, &manifest, |request, answer| {
        if request.path.starts_with("/token") {
            return Answer::ok(r#"{"token":"t0ken"}"#);
        }
        if request.authorization.as_deref() == Some("Bearer t0ken") {
            return answer;
        }
        // The port is not known yet when this is written; the client's own address has it.
        let realm = format!("http://{}/token", *ADDRESS.lock().unwrap());
        let challenge = format!("Bearer realm=\"{realm}\",service=\"s\"");
        Answer::status(401, "{}").header("WWW-Authenticate", challenge)
    });
    *ADDRESS.lock().unwrap() = registry.address.to_string();
    let reference = format!("{}/app:1", registry.address);
    pull(&place, &reference, &as_me("right")).unwrap();
    let token = registry
        .seen()
        .into_iter()
        .find(|request| request.path.starts_with("/token"))
        .unwrap();
    assert!(
        token.path.contains("app") && token.path.contains("pull"),
        "{token:?}"
    );
    assert_eq!(token.authorization.as_deref(), Some("Basic bWU6cmlnaHQ="));
}

static ADDRESS: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());

#[test]
fn what_a_lying_registry_sends_is_refused() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let layers = layers();
    let manifest = layout.image(this_architecture(), &layers);
    let layer = sha256(&layers[1]);
    let refused = |change: fn(Answer) -> Answer| {
        let layer = layer.clone();
        let registry = serving(&layout, &manifest, move |request, answer| {
            if request.path.ends_with(&layer) {
                return change(answer);
            }
            answer
        });
        let reference = format!("{}/app:1", registry.address);
        let error = pull(&place, &reference, &anonymous()).unwrap_err();
        place.assert_nothing_left();
        (error, registry)
    };
    let (error, _registry) = refused(|mut answer| {
        answer.body[20] ^= 1;
        answer
    });
    assert!(
        matches!(error, ImagesError::DigestMismatch { .. }),
        "{error}"
    );
    let (error, _registry) = refused(|answer| {
        let mut body = answer.body;
        body.push(0);
        Answer::ok(body)
    });
    assert!(chain(&error).contains("longer than"), "{error}");
    // Cut, with a length that tells: asked for three times.
    let (error, registry) = refused(|mut answer| {
        answer.body.truncate(30);
        answer
    });
    assert!(matches!(error, ImagesError::Registry { .. }), "{error}");
    let asked = registry.seen();
    let asked = asked
        .iter()
        .filter(|request| request.path.ends_with(&layer));
    assert_eq!(asked.count(), 3);
    // Cut, with a length that lies too.
    let (error, _registry) = refused(|answer| Answer::ok(&answer.body[..30]));
    assert!(
        matches!(error, ImagesError::DigestMismatch { .. }),
        "{error}"
    );
    let (error, _registry) = refused(|_| Answer::status(500, "x".repeat(100_000)));
    let text = chain(&error);
    assert!(text.contains("answered 500") && text.len() < 1000, "{text}");
    let (error, _registry) = refused(|_| Answer::status(404, "gone"));
    assert!(
        matches!(error, ImagesError::ImageNotFound { .. }),
        "{error}"
    );
}

#[test]
fn a_layer_that_breaks_once_is_asked_for_again() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let layers = layers();
    let manifest = layout.image(this_architecture(), &layers);
    let layer = sha256(&layers[0]);
    let asked = AtomicUsize::new(0);
    let registry = serving(&layout, &manifest, move |request, mut answer| {
        if request.path.ends_with(&layer) && asked.fetch_add(1, Ordering::Relaxed) == 0 {
            answer.body.truncate(30);
        }
        answer
    });
    let reference = format!("{}/app:1", registry.address);
    let image = pull(&place, &reference, &anonymous()).unwrap();
    assert_eq!(listing(&image.layers[0]), ["a=1", "c=2"]);
}

#[test]
fn manifests_that_lie_are_refused() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let manifest = layout.image(this_architecture(), &layers());
    let digest = manifest["digest"].as_str().unwrap();
    let refused = |reference: &str, body: String| {
        let registry = serving(&layout, &manifest, move |request, answer| {
            if request.path.contains("/manifests/") {
                return Answer::ok(body.clone());
            }
            answer
        });
        let reference = format!("{}/app{reference}", registry.address);
        let error = pull(&place, &reference, &anonymous()).unwrap_err();
        place.assert_nothing_left();
        error
    };
    let error = refused(&format!("@{digest}"), "{\"schemaVersion\": 2}".into());
    assert!(
        matches!(error, ImagesError::DigestMismatch { .. }),
        "{error}"
    );
    for body in [
        "",
        "[]",
        "null",
        "{\"schemaVersion\": 2}",
        "{\"schemaVersion\": 1, \"layers\": []}",
    ] {
        let error = refused(":1", body.into());
        assert!(
            matches!(error, ImagesError::InvalidImage { .. }),
            "{body}: {error}"
        );
    }
    let error = refused(":1", " ".repeat(5 << 20));
    assert!(matches!(error, ImagesError::TooLarge { .. }), "{error}");
    // Digests that would lead the client to another address.
    let blob = |digest: &str, size: u64| {
        let kind = "application/vnd.oci.image.layer.v1.tar";
        serde_json::json!({"mediaType": kind, "digest": digest, "size": size})
    };
    let document = |layer: serde_json::Value| {
        serde_json::json!({"schemaVersion": 2, "config": layer, "layers": [layer]}).to_string()
    };
    let error = refused(":1", document(blob("sha256:../../../other", 1)));
    assert!(chain(&error).contains("not a SHA-256 digest"), "{error}");
    // Sizes are held against limit and disk before a byte is asked for.
    for size in [u64::MAX, Limits::default().download_bytes_max + 1] {
        let error = refused(":1", document(blob(digest, size)));
        assert!(matches!(error, ImagesError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn a_pull_that_stalls_is_cancelled_at_once() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let manifest = layout.image(this_architecture(), &layers());
    let cancel = std::sync::Arc::new(Cancel::new());
    let trigger = std::sync::Arc::clone(&cancel);
    let registry = serving(&layout, &manifest, move |request, mut answer| {
        if request.path.contains("/blobs/") {
            answer.body.truncate(10);
            answer.then = Then::Stall;
            trigger.cancel();
        }
        answer
    });
    let reference = format!("{}/app:1", registry.address);
    let began = Instant::now();
    let error = watched(|watch| {
        let watch = Watch {
            cancel: &cancel,
            ..*watch
        };
        place.images.pull("image", &reference, &anonymous(), &watch)
    })
    .unwrap_err();
    assert!(matches!(error, ImagesError::Cancelled), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10));
    let error = watched(|watch| {
        let watch = Watch {
            deadline: Instant::now() + Duration::from_millis(300),
            ..*watch
        };
        place.images.pull("image", &reference, &anonymous(), &watch)
    })
    .unwrap_err();
    assert!(matches!(error, ImagesError::DeadlinePassed), "{error}");
    place.assert_nothing_left();
}

#[test]
fn a_pull_may_be_called_from_a_runtime() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let manifest = layout.image(this_architecture(), &layers());
    let registry = serving(&layout, &manifest, |_, answer| answer);
    let reference = format!("{}/app:1", registry.address);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { pull(&place, &reference, &anonymous()).unwrap() });
}
