//! Faults of transfers: a file arrives whole or not at all.

use std::path::Path;
use std::time::Duration;

use holm_sandbox::{Sandbox as _, SandboxError};
use holm_testserver::{Fault, Times};

use super::{Setting, shown, told};

const UPLOAD: &str = "/files/bulk-upload";
const DOWNLOAD: &str = "/files/bulk-download";
const BYTES: usize = 300_000;

fn content() -> Vec<u8> {
    (0..=250).cycle().take(BYTES).collect()
}

#[test]
fn an_upload_that_fails_once_is_sent_again() {
    let setting = Setting::new();
    for fault in [
        Fault::Reset,
        Fault::status(429),
        Fault::status(500),
        Fault::status(502),
        Fault::RequestCut {
            body_bytes: BYTES / 2,
        },
        Fault::AnswerLost,
    ] {
        let sandbox = setting.create().unwrap();
        let path = Path::new("deep/file");
        setting.run(sandbox.write_file(path, b"old")).unwrap();
        setting.proxy.once(UPLOAD, fault.clone());
        let written = setting.run(sandbox.write_file(path, &content()));
        assert!(written.is_ok(), "{fault:?}: {written:?}");
        assert!(setting.run(sandbox.read_file(path)).unwrap() == content());
        setting.finish(&sandbox);
    }
}

#[test]
fn an_upload_that_always_breaks_off_leaves_the_old_file() {
    let setting = Setting::new();
    for (fault, why) in [
        (
            Fault::RequestCut {
                body_bytes: BYTES / 2,
            },
            "the connection was lost",
        ),
        (Fault::Reset, "the connection was lost"),
        (Fault::status(502), "a bad day (status 502)"),
    ] {
        let sandbox = setting.create().unwrap();
        let path = Path::new("file");
        setting.run(sandbox.write_file(path, b"old")).unwrap();
        setting.proxy.always(UPLOAD, fault);
        let error = setting.run(sandbox.write_file(path, &content()));
        let text = shown(&error.unwrap_err());
        assert!(text.starts_with("could not upload files"), "{text}");
        assert!(text.contains(why), "{text}");
        setting.heal();
        assert_eq!(setting.run(sandbox.read_file(path)).unwrap(), b"old");
        // Nothing half is left beside it.
        let staged = "find .. -type f -size +10k | wc -l";
        assert_eq!(setting.run(told(&sandbox, staged)), "0");
        setting.finish(&sandbox);
    }
}

#[test]
fn a_download_is_whole_or_an_error() {
    let setting = Setting::new();
    for (fault, why) in [
        (Fault::status(500), "a bad day (status 500)"),
        (Fault::Reset, "the connection was lost"),
        (
            Fault::AnswerCut {
                body_bytes: BYTES / 2,
            },
            "the connection was lost",
        ),
        (
            Fault::AnswerShort {
                body_bytes: BYTES / 2,
            },
            "not Daytona's protocol",
        ),
        (
            Fault::AnswerShort { body_bytes: 20 },
            "not Daytona's protocol",
        ),
    ] {
        let sandbox = setting.create().unwrap();
        let path = Path::new("file");
        setting.run(sandbox.write_file(path, &content())).unwrap();
        setting.proxy.always(DOWNLOAD, fault.clone());
        let error = setting.run(sandbox.read_file(path)).unwrap_err();
        let text = shown(&error);
        assert!(
            text.starts_with("could not read `file`"),
            "{fault:?}: {text}"
        );
        assert!(text.contains(why), "{fault:?}: {text}");
        setting.heal();
        assert!(setting.run(sandbox.read_file(path)).unwrap() == content());
        setting.finish(&sandbox);
    }
}

#[test]
fn a_download_that_fails_once_is_asked_for_again() {
    let setting = Setting::new();
    for fault in [
        Fault::Reset,
        Fault::status(429),
        Fault::status(502),
        Fault::AnswerCut {
            body_bytes: BYTES / 2,
        },
        Fault::AnswerShort {
            body_bytes: BYTES / 2,
        },
    ] {
        let sandbox = setting.create().unwrap();
        let path = Path::new("file");
        setting.run(sandbox.write_file(path, &content())).unwrap();
        setting
            .proxy
            .fault(DOWNLOAD, Times::Exactly(1), fault.clone());
        let read = setting.run(sandbox.read_file(path));
        assert!(read.is_ok_and(|read| read == content()), "{fault:?}");
        setting.finish(&sandbox);
    }
}

#[test]
fn a_slow_download_is_waited_for() {
    let setting = Setting::new();
    let sandbox = setting.create().unwrap();
    let path = Path::new("file");
    setting.run(sandbox.write_file(path, &content())).unwrap();
    setting.proxy.always(
        DOWNLOAD,
        Fault::AnswerSlow {
            piece_bytes: 10_000,
            pause: Duration::from_millis(10),
        },
    );
    assert!(setting.run(sandbox.read_file(path)).unwrap() == content());
    setting.finish(&sandbox);
}

#[test]
fn looking_is_tried_again_and_what_is_not_there_stays_so() {
    let setting = Setting::new();
    for fault in [Fault::status(502), Fault::status(429), Fault::Reset] {
        let sandbox = setting.create().unwrap();
        setting
            .run(sandbox.write_file(Path::new("file"), b"here"))
            .unwrap();
        setting.proxy.once("/process/execute", fault.clone());
        let listed = setting.run(sandbox.list_directory(Path::new("."))).unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
        setting.proxy.once("/process/execute", fault.clone());
        let read = setting.run(sandbox.read_file(Path::new("file")));
        assert_eq!(read.unwrap(), b"here");
        setting.proxy.once("/process/execute", fault);
        let error = setting.run(sandbox.read_file(Path::new("missing")));
        assert!(matches!(error, Err(SandboxError::NotFound { .. })));
        setting.finish(&sandbox);
    }
}
