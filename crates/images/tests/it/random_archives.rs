//! Whatever an archive holds, nothing outside of its image changes and nothing panics.

use std::fs;

use holm_images::Images;
use holm_testkit::Fingerprint;
use proptest::prelude::*;

use crate::support::{Archive, Item, watched};

/// Few names, so that entries meet each other's links and folders.
fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a",
        "b",
        "c",
        ".",
        "..",
        "",
        ".wh.a",
        ".wh..wh..opq",
        "outside",
    ])
}

fn name() -> impl Strategy<Value = String> {
    (any::<bool>(), prop::collection::vec(part(), 0..5)).prop_map(|(absolute, parts)| {
        format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"))
    })
}

/// Names as above, and ways to the sentinel.
fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => name(),
        1 => Just("../../../../outside".to_owned()),
        1 => Just("../../../../outside/victim".to_owned()),
        1 => Just("/proc/self/root/etc".to_owned()),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let kind = prop::sample::select(b"0000012255567LKxgS3".to_vec());
    (
        kind,
        name(),
        target(),
        "[ -~]{0,20}",
        0_u32..0o10_000,
        0_u64..70_000,
    )
        .prop_map(|(kind, name, link, content, mode, uid)| Item {
            content: if matches!(kind, b'1' | b'2' | b'3' | b'5' | b'6') {
                Vec::new()
            } else {
                content.into_bytes()
            },
            // Mostly owners that are accepted, so that unpacking goes on.
            owner: (if uid > 65_600 { uid } else { 0 }, 0),
            ..Item::new(kind, &name, &link).mode(mode)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_outside_changes(items in prop::collection::vec(item(), 1..24), damage in prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()))) {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("victim"), "untouched").unwrap();
        let mut bytes = Archive::of(items).bytes();
        if let Some((index, byte)) = damage {
            let place = index.index(bytes.len());
            bytes[place] = byte;
        }
        let path = folder.path().join("in.tar");
        fs::write(&path, bytes).unwrap();
        let images = Images::open(&folder.path().join("images")).unwrap();
        fs::create_dir(folder.path().join("images/neighbour")).unwrap();
        let before = Fingerprint::of(folder.path());
        // Both answers are right; what it may have changed is only the image.
        if watched(|watch| images.from_tar("image", &path, watch)).is_ok() {
            images.remove("image").unwrap();
        }
        prop_assert_eq!(before.changes_to(&Fingerprint::of(folder.path())), [""; 0]);
    }
}
