//! Saved boxes as layers below another box.

use std::fs;
use std::path::{Path, PathBuf};

use holm_sandbox_linux::{Durability, Engine, EngineError, LayerOptions, copy_layer};

use crate::support::{TestBox, TestFolder, spec};

/// The files of a box that has ended, which another box may stand on.
fn saved(script: &str, layers: &[PathBuf], to: &Path) -> PathBuf {
    let sandbox = TestBox::with(|spec| spec.layers = layers.to_vec());
    sandbox.sh(script).success();
    sandbox.inner.stop().unwrap();
    fs::rename(sandbox.directory.path().join("box/root-upper"), to).unwrap();
    to.to_path_buf()
}

#[test]
fn a_box_stands_on_saved_ones_and_changes_none() {
    let folder = TestFolder::new();
    let first = saved(
        "cd; mkdir kept moved; echo 1 > kept/a; echo 1 > kept/b; echo 1 > moved/c",
        &[],
        &folder.path().join("first"),
    );
    let second = saved(
        "cd; echo 2 > kept/a; rm kept/b; mv moved elsewhere",
        std::slice::from_ref(&first),
        &folder.path().join("second"),
    );
    let third = TestBox::with(|spec| spec.layers = vec![second.clone(), first.clone()]);
    let script = "cd; cat kept/a elsewhere/c; ls . kept";
    let before = "2\n1\n.:\nelsewhere\nkept\n\nkept:\na\n";
    assert_eq!(third.sh(script).success(), before);
    third.sh("cd; rm -r kept; echo 3 > elsewhere/c").success();
    let fourth = TestBox::with(|spec| spec.layers = vec![second, first]);
    assert_eq!(fourth.sh(script).success(), before);
}

#[test]
fn a_copy_of_a_box_is_a_box_of_its_own() {
    let folder = TestFolder::new();
    let first = saved(
        "cd; mkdir -p tree/sub; echo 1 > tree/sub/file; echo 1 > gone",
        &[],
        &folder.path().join("first"),
    );
    let original = TestBox::with(|spec| spec.layers = vec![first.clone()]);
    original
        .sh("cd; mv tree moved; rm gone; mkdir gone; echo 2 > a; ln a b; mkfifo pipe; chmod 600 a")
        .success();
    // Where the host has no freezer the box just does nothing.
    let frozen = original.inner.freeze();
    let copy = folder.path().join("copy");
    let options = LayerOptions {
        owners: None,
        bytes_max: Some(1 << 20),
        durability: Durability::Volatile,
    };
    let upper = original.directory.path().join("box/root-upper");
    let report = copy_layer(&upper, &copy, &options).unwrap();
    if frozen.is_ok() {
        original.inner.thaw().unwrap();
    }
    assert_eq!(report.skipped, 0);
    original.sh("cd; echo changed > a; rm -r moved").success();
    let fork = TestBox::with(|spec| spec.layers = vec![copy, first]);
    let script = "cd; cat moved/sub/file a b; ls -A . gone; stat -c %a:%h a; test -p pipe";
    assert_eq!(
        fork.sh(script).success(),
        "1\n2\n2\n.:\na\nb\ngone\nmoved\npipe\n\ngone:\n600:2\n"
    );
    fork.sh("cd; echo own >> a; rm -r moved gone").success();
}

#[test]
fn a_hundred_layers_are_one_root() {
    let folder = TestFolder::new();
    let layers: Vec<PathBuf> = (0..100)
        .map(|number| {
            let layer = folder.path().join(format!("layer-{number}"));
            fs::create_dir(&layer).unwrap();
            fs::write(layer.join(format!("file-{number}")), "x").unwrap();
            layer
        })
        .collect();
    let sandbox = TestBox::with(|spec| spec.layers = layers);
    assert_eq!(sandbox.sh("ls -d /file-* | wc -l").success(), "100\n");
}

#[test]
fn a_chain_of_a_thousand_layers_says_what_to_do() {
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let mut spec = spec(&engine, directory.path());
    spec.layers = vec![directory.path().to_path_buf(); 1000];
    match engine.create(&spec).map(|inner| inner.pid()) {
        Err(EngineError::Invalid { what, hint }) => {
            assert!(what.contains("1001 layers"), "{what}");
            assert!(hint.contains("begin again"), "{hint}");
        }
        other => panic!("{other:?}"),
    }
}
