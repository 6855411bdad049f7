//! Boxes whose ids are different ones on the host, and what that keeps apart.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use holm_sandbox_linux::{
    Access, BoxSpec, Durability, Engine, EngineError, Exit, IdRange, LayerOptions, MountSpec,
    Owners, ShiftOwners, copy_layer,
};

use super::privileged::root;
use crate::support::{TestBox, TestFolder, base_options, spec};

fn range(index: u16) -> IdRange {
    IdRange::new(index).unwrap()
}

/// Gives a box another range, with the base that this takes.
fn in_range(spec: &mut BoxSpec, ids: IdRange) {
    let mut options = base_options(&spec.directory.with_file_name("base"));
    options.ids = ids;
    spec.ids = ids;
    spec.base = Engine::start().unwrap().host_base(&options).unwrap().into();
}

fn sharing(folder: &Path, ids: IdRange) -> TestBox {
    TestBox::with(|spec| {
        in_range(spec, ids);
        spec.mounts.push(MountSpec::Bind {
            source: folder.to_path_buf(),
            place: "/shared".into(),
            access: Access::ReadWrite,
            owners: Owners::AsOnHost,
        });
    })
}

#[test]
fn boxes_of_two_ranges_cannot_touch_each_others_files() {
    if !root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // As a careless host would: everybody may make files here, the sticky bit guards them.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let first = sharing(folder.path(), range(1));
    let last = sharing(folder.path(), range(IdRange::INDEX_MAX));
    let kin = sharing(folder.path(), range(1));
    first
        .sh("umask 077; echo secret > /shared/file; mkdir /shared/folder; echo x > ~/own")
        .success();
    for attack in [
        "cat /shared/file",
        "echo lost > /shared/file",
        "rm -f /shared/file",
        "mv /shared/file /shared/other",
        "chmod 666 /shared/file",
        "ls /shared/folder",
    ] {
        let output = last.sh(attack);
        assert_ne!(output.exit, Exit::Code(0), "{attack}: {output:?}");
    }
    assert_eq!(last.sh("stat -c %u /shared/file").success(), "65534\n");
    // Boxes of the same range are users of the same machine.
    assert_eq!(kin.sh("cat /shared/file").success(), "secret\n");
    last.sh("touch ~/own /shared/mine").success();
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&folder.path().join("file")), range(1).base() + 1000);
    assert_eq!(owner(&folder.path().join("mine")), 0x7fff_0000 + 1000);
}

#[test]
fn a_saved_box_serves_another_range() {
    if !root() {
        return;
    }
    let original = TestBox::with(|spec| in_range(spec, range(1)));
    original
        .sh("umask 077; mkdir ~/private; echo text > ~/private/file")
        .success();
    original.inner.stop().unwrap();
    let upper = original.directory.path().join("box/root-upper");
    let copy = original.directory.path().join("copy");
    let options = LayerOptions {
        owners: Some(ShiftOwners {
            from: range(1),
            to: range(2),
        }),
        bytes_max: None,
        durability: Durability::Volatile,
    };
    copy_layer(&upper, &copy, &options).unwrap();
    let other = TestBox::with(|spec| {
        in_range(spec, range(2));
        spec.layers = vec![copy];
    });
    assert_eq!(
        other
            .sh("cat ~/private/file; echo more >> ~/private/file")
            .success(),
        "text\n"
    );
    // As it is, it is nobody's in the other range.
    let stranger = TestBox::with(|spec| {
        in_range(spec, range(2));
        spec.layers = vec![upper];
    });
    assert_eq!(stranger.sh("cat ~/private/file").exit, Exit::Code(1));
}

#[test]
fn a_base_of_another_range_is_refused() {
    if !root() {
        return;
    }
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let mut spec = spec(&engine, directory.path());
    spec.ids = range(5);
    match engine.create(&spec).map(|inner| inner.pid()) {
        Err(EngineError::Invalid { what, .. }) => assert!(what.contains("range 5"), "{what}"),
        other => panic!("{other:?}"),
    }
}
