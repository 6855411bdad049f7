//! Debian by debootstrap.

use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use holm_images::{Cancel, ImagesError, Progress, Watch};

use crate::support::{chain, place, watched};

#[test]
fn a_mirror_that_does_not_answer_is_told() {
    let Some(place) = place() else { return };
    let told = Mutex::new(Vec::new());
    let progress = |progress: Progress<'_>| {
        if let Progress::Line(line) = progress {
            told.lock().unwrap().push(line.to_owned());
        }
    };
    let watch = Watch {
        cancel: &Cancel::new(),
        deadline: Instant::now() + Duration::from_secs(50),
        progress: &progress,
    };
    let mirror = Some("http://127.0.0.1:9/debian");
    let error = place
        .images
        .debootstrap("image", "bookworm", mirror, &watch)
        .unwrap_err();
    place.assert_nothing_left();
    if matches!(error, ImagesError::ProgramMissing { .. }) {
        assert!(chain(&error).contains("apt-get install debootstrap"));
        println!("skipped: debootstrap is not installed");
        return;
    }
    let lines = told.into_inner().unwrap();
    assert!(
        matches!(error, ImagesError::ProgramFailed { .. }),
        "{error}"
    );
    assert!(
        lines
            .last()
            .is_some_and(|line| chain(&error).contains(line)),
        "{lines:?}"
    );
    assert!(chain(&error).contains("127.0.0.1:9"), "{error}");
    let refused = watched(|watch| place.images.debootstrap("image", "--help", None, watch));
    assert!(matches!(refused, Err(ImagesError::InvalidImage { .. })));
}

/// Takes minutes and a mirror: `cargo nextest run --run-ignored only -p holm-images`.
#[test]
#[ignore = "downloads a whole Debian"]
fn a_debian_can_be_entered() {
    let Some(place) = place() else { return };
    let watch = Watch {
        cancel: &Cancel::new(),
        deadline: Instant::now() + Duration::from_secs(1200),
        progress: &|_: Progress<'_>| {},
    };
    let image = place
        .images
        .debootstrap("debian", "bookworm", None, &watch)
        .unwrap();
    let output = Command::new("chroot")
        .arg(&image.layers[0])
        .args(["/bin/cat", "/etc/debian_version"])
        .output()
        .unwrap();
    assert!(output.stdout.starts_with(b"12"), "{output:?}");
    assert!(image.bytes > 50 << 20);
    assert_eq!(
        std::fs::read_dir(image.layers[0].join("dev"))
            .unwrap()
            .count(),
        0
    );
}
