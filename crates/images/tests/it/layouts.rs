//! OCI layouts and archives of images: layers, whiteouts, platforms, digests.

use std::fs;

use holm_images::ImagesError;

use crate::support::{
    Archive, Item, LayoutFolder, Place, chain, gzip, listing, place, sha256, this_architecture,
    watched, zstd,
};

fn base() -> Archive {
    Archive::of([
        Item::file("etc/kept", "1"),
        Item::file("etc/removed", "1"),
        Item::file("var/cache/a", "1"),
        Item::file("var/cache/b/c", "1"),
        Item::file("opt/old/file", "1"),
        Item::file("changed", "old"),
    ])
}

fn change() -> Archive {
    Archive::of([
        Item::file("etc/.wh.removed", ""),
        // An opaque marker is about lower layers, wherever it stands.
        Item::file("var/cache/new", "2"),
        Item::file("var/cache/.wh..wh..opq", ""),
        Item::file("opt/.wh.old", ""),
        Item::folder("opt/old"),
        Item::file("opt/old/again", "2"),
        Item::file("changed", "new"),
        Item::file("missing/.wh.nothing", ""),
    ])
}

const RESULT: [&str; 9] = [
    "changed=new",
    "etc",
    "etc/kept=1",
    "opt",
    "opt/old",
    "opt/old/again=2",
    "var",
    "var/cache",
    "var/cache/new=2",
];

fn layout(place: &Place) -> LayoutFolder {
    LayoutFolder::new(place.folder.path().join("layout"))
}

fn refused(place: &Place, layout: &LayoutFolder) -> String {
    let error = watched(|watch| place.images.from_oci_layout("image", &layout.path, watch));
    place.assert_nothing_left();
    chain(&error.unwrap_err())
}

#[test]
fn layers_are_flattened_and_whiteouts_take_away() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let (lower, upper) = (base().bytes(), change().bytes());
    for (name, layers) in [
        ("gzip", [gzip(&lower), gzip(&upper)]),
        ("mixed", [lower.clone(), zstd(&upper)]),
    ] {
        layout.index(&[layout.image(this_architecture(), &layers)]);
        let image =
            watched(|watch| place.images.from_oci_layout(name, &layout.path, watch)).unwrap();
        let mut found = listing(&image.layers[0]);
        found.retain(|name| name != "missing");
        assert_eq!(found, RESULT, "{name}");
        assert_eq!(image.config.env, ["PATH=/usr/bin", "A=b"]);
        assert_eq!(image.config.cmd, ["sh"]);
        assert_eq!(image.config.working_dir.as_deref(), Some("/w"));
        assert_eq!(image.config.user.as_deref(), Some("app"));
        assert_eq!(image.config.architecture, this_architecture());
    }
}

#[test]
fn the_image_for_this_machine_is_chosen() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let with_platform = |architecture: &str, file: &str| {
        let archive = Archive::of([Item::file(file, "")]).bytes();
        let mut manifest = layout.image(architecture, &[archive]);
        manifest["platform"] = serde_json::json!({"os": "linux", "architecture": architecture});
        manifest
    };
    let foreign = with_platform("s390x", "foreign");
    let ours = with_platform(this_architecture(), "ours");
    // As buildx and docker write it: an index that names an index.
    let inner = serde_json::json!({"schemaVersion": 2, "manifests": [foreign, ours]});
    let inner = layout.blob(
        "application/vnd.oci.image.index.v1+json",
        inner.to_string().as_bytes(),
    );
    layout.index(&[inner]);
    let image = watched(|watch| place.images.from_oci_layout("ours", &layout.path, watch)).unwrap();
    assert_eq!(listing(&image.layers[0]), ["ours="]);
    place.images.remove("ours").unwrap();

    layout.index(&[with_platform("s390x", "foreign")]);
    let error = refused(&place, &layout);
    assert!(error.contains("linux/s390x"), "{error}");
    // Without a platform, the configuration tells.
    layout.index(&[layout.image("s390x", &[base().bytes()])]);
    let error = refused(&place, &layout);
    assert!(error.contains("linux/s390x"), "{error}");
}

#[test]
fn bytes_that_are_not_what_their_digest_says_are_refused() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let layer = gzip(&base().bytes());
    let manifest = layout.image(this_architecture(), std::slice::from_ref(&layer));
    layout.index(std::slice::from_ref(&manifest));
    let manifest_path = layout.blob_path(manifest["digest"].as_str().unwrap());
    let text = fs::read_to_string(&manifest_path).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let config_path = layout.blob_path(parsed["config"]["digest"].as_str().unwrap());
    for (what, path) in [
        ("layer", layout.blob_path(&sha256(&layer))),
        ("configuration", config_path),
        ("manifest", manifest_path),
    ] {
        let honest = fs::read(&path).unwrap();
        let mut swapped = honest.clone();
        let last = swapped.len() - 1;
        swapped[last] ^= 1;
        fs::write(&path, &swapped).unwrap();
        let error = refused(&place, &layout);
        assert!(
            error.contains("not what its digest says"),
            "{what}: {error}"
        );
        fs::write(&path, &honest[..last]).unwrap();
        let error = refused(&place, &layout);
        assert!(
            error.contains("not what its digest says"),
            "cut {what}: {error}"
        );
        fs::remove_file(&path).unwrap();
        assert!(
            refused(&place, &layout).contains("does not exist"),
            "{what}"
        );
        fs::write(&path, honest).unwrap();
    }
}

#[test]
fn hostile_layouts_are_refused() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let secret = place.file("secret", b"{}");
    let manifest = layout.image(this_architecture(), &[base().bytes()]);
    let with_digest = |digest: &str| {
        let mut manifest = manifest.clone();
        manifest["digest"] = digest.into();
        manifest
    };
    layout.index(&[with_digest("sha256:../../../secret")]);
    assert!(refused(&place, &layout).contains("not a SHA-256 digest"));
    // A blob that is a link to a file of the host.
    let digest = sha256(b"{}");
    std::os::unix::fs::symlink(&secret, layout.blob_path(&digest)).unwrap();
    layout.index(&[with_digest(&digest)]);
    assert!(refused(&place, &layout).contains("leads out"));
    // An index that names itself would be a digest of itself; a chain of them is cut off.
    let mut nested = manifest.clone();
    for _ in 0..5 {
        let index = serde_json::json!({"schemaVersion": 2, "manifests": [nested]});
        nested = layout.blob(
            "application/vnd.oci.image.index.v1+json",
            index.to_string().as_bytes(),
        );
    }
    layout.index(&[nested]);
    assert!(refused(&place, &layout).contains("nested too deep"));
    layout.index(&[]);
    assert!(refused(&place, &layout).contains("nothing"));
    let named = |name: &str| {
        let mut manifest = manifest.clone();
        manifest["annotations"] = serde_json::json!({"org.opencontainers.image.ref.name": name});
        manifest
    };
    layout.index(&[named("one"), named("two")]);
    assert!(refused(&place, &layout).contains("several images: one, two"));
    let chart = layout.blob("application/vnd.cncf.helm.chart", b"chart");
    let config = layout.blob("application/vnd.cncf.helm.config", b"{}");
    let artifact = serde_json::json!({"schemaVersion": 2, "config": config, "layers": [chart]});
    layout.index(&[layout.blob("x", artifact.to_string().as_bytes())]);
    assert!(refused(&place, &layout).contains("not a layer of a root file system"));
    fs::write(layout.path.join("index.json"), "{\"schemaVersion\": 1}").unwrap();
    assert!(refused(&place, &layout).contains("schema version 1"));
    fs::write(layout.path.join("index.json"), "[").unwrap();
    refused(&place, &layout);
    fs::remove_file(layout.path.join("index.json")).unwrap();
    assert!(refused(&place, &layout).contains("no OCI image layout"));
}

#[test]
fn hostile_whiteouts_stay_inside() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    let outside = place.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "untouched").unwrap();
    let lower = Archive::default()
        .long(b'K', outside.to_str().unwrap())
        .with(Item::symlink("door", "x"));
    let upper = Archive::of([
        Item::file("door/.wh.victim", ""),
        Item::file("door/.wh..wh..opq", ""),
    ]);
    layout.index(&[layout.image(this_architecture(), &[lower.bytes(), upper.bytes()])]);
    watched(|watch| place.images.from_oci_layout("image", &layout.path, watch)).unwrap();
    assert_eq!(fs::read(outside.join("victim")).unwrap(), b"untouched");
    place.images.remove("image").unwrap();
    for name in [".wh...", ".wh.", "../.wh.victim"] {
        let upper = Archive::of([Item::file(name, "")]);
        layout.index(&[layout.image(this_architecture(), &[lower.bytes(), upper.bytes()])]);
        let error = refused(&place, &layout);
        assert!(error.contains("refused"), "{name}: {error}");
    }
}

/// The folder as an archive, with names as `tar` would write them.
fn archive_of(folder: &std::path::Path) -> Archive {
    let mut archive = Archive::default();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(folder)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if path.is_dir() {
                waiting.push(path);
                archive = archive.with(Item::folder(&name));
            } else {
                let content = fs::read(&path).unwrap();
                archive = archive.with(Item {
                    content,
                    ..Item::file(&name, "")
                });
            }
        }
    }
    archive
}

#[test]
fn an_archive_of_a_layout_is_an_image() {
    let Some(place) = place() else { return };
    let layout = layout(&place);
    layout.index(&[layout.image(this_architecture(), &[gzip(&base().bytes())])]);
    let path = place.file("image.tar", &zstd(&archive_of(&layout.path).bytes()));
    let image = watched(|watch| place.images.from_tar("image", &path, watch)).unwrap();
    assert!(listing(&image.layers[0]).contains(&"etc/kept=1".to_owned()));
    assert_eq!(image.config.cmd, ["sh"]);
    let names: Vec<_> = fs::read_dir(place.folder.path().join("images/image"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn what_docker_save_wrote_is_an_image() {
    let Some(place) = place() else { return };
    let (lower, upper) = (base().bytes(), change().bytes());
    let config = |second: &str| {
        serde_json::json!({
            "architecture": this_architecture(), "os": "linux",
            "config": {"Entrypoint": ["/entry"], "ExposedPorts": {"80/tcp": {}}},
            "rootfs": {"type": "layers", "diff_ids": [sha256(&lower), second]},
        })
        .to_string()
    };
    let saved = |config: &str| {
        let manifest =
            r#"[{"Config":"c.json","RepoTags":["a:b"],"Layers":["1/layer.tar","2/layer.tar"]}]"#;
        let layer = |name: &str, content: &[u8]| Item {
            content: content.to_vec(),
            ..Item::file(name, "")
        };
        Archive::of([
            layer("1/layer.tar", &lower),
            layer("shared/layer.tar", &upper),
            // Layers that are the same are links to each other.
            Item::symlink("2/layer.tar", "../shared/layer.tar"),
            Item::file("manifest.json", manifest),
            Item::file("repositories", "{}"),
            Item::file("c.json", config),
        ])
    };
    // Folders for links are made when they are missing.
    let tree = place.unpacked(&saved(&config(&sha256(&upper))));
    let mut found = listing(&tree);
    found.retain(|name| name != "missing");
    assert_eq!(found, RESULT);
    let image = place.images.get("image").unwrap();
    assert_eq!(image.config.entrypoint, ["/entry"]);
    assert_eq!(image.config.exposed_ports, ["80/tcp"]);
    place.images.remove("image").unwrap();
    let error = place.refused(&saved(&config(&sha256(b"other"))).bytes());
    assert!(error.contains("not what its digest says"), "{error}");
}

#[test]
fn a_root_file_system_may_have_a_manifest_of_its_own() {
    let Some(place) = place() else { return };
    let archive = Archive::of([Item::file("manifest.json", "{\"name\": \"web\"}")]);
    assert_eq!(listing(&place.unpacked(&archive)).len(), 1);
    let error = place.images.get("other").unwrap_err();
    assert!(matches!(error, ImagesError::NotFound { .. }));
}
