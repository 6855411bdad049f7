//! Saved boxes as layers below another box.

use std::fs;
use std::path::{Path, PathBuf};

use holm_sandbox_linux::{Engine, EngineError};

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
