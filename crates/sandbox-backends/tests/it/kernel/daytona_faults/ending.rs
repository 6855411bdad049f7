//! Faults at the end of a sandbox.

use std::path::PathBuf;

use holm_sandbox::{Sandbox as _, UncommittedWork};
use holm_testserver::Fault;

use super::{Setting, told};

const DELETE: &str = "DELETE /api/sandbox/";

#[test]
fn a_delete_that_fails_once_is_asked_for_again() {
    let setting = Setting::new();
    for fault in [
        Fault::Reset,
        Fault::status(429),
        Fault::status(500),
        Fault::status(502),
        Fault::AnswerLost,
        Fault::AnswerReplaced { status: 502 },
        Fault::AnswerCut { body_bytes: 1 },
    ] {
        let sandbox = setting.create().unwrap();
        setting.proxy.once(DELETE, fault);
        setting.end(&sandbox);
        setting.heal();
    }
}

#[test]
fn a_delete_that_always_fails_is_told_and_can_be_done_again() {
    let setting = Setting::new();
    let sandbox = setting.create().unwrap();
    setting.proxy.always(DELETE, Fault::status(500));
    let report = setting.run(sandbox.teardown(UncommittedWork::Discard));
    assert_eq!(report.leftovers, [PathBuf::from(sandbox.id())]);
    let expected = format!(
        "sandbox `{0}` could not be deleted: could not delete sandbox `{0}`: a bad day (status 500)",
        sandbox.id()
    );
    assert_eq!(report.warnings, [expected]);
    // It is still there, and the next teardown does not claim anything else.
    setting.finish(&sandbox);
}

#[test]
fn a_teardown_that_is_disturbed_once_brings_the_work_home() {
    let setting = Setting::with_repository();
    for (request, fault) in [
        ("/process/execute", Fault::status(502)),
        ("/process/execute", Fault::Reset),
        ("/process/execute", Fault::AnswerLost),
        ("/files/bulk-download", Fault::status(502)),
        ("/files/bulk-download", Fault::Reset),
        ("/files/bulk-download", Fault::AnswerCut { body_bytes: 200 }),
        (
            "/files/bulk-download",
            Fault::AnswerShort { body_bytes: 200 },
        ),
    ] {
        let sandbox = setting.create().unwrap();
        setting.run(told(&sandbox, "echo precious > work"));
        setting.proxy.once(request, fault.clone());
        let report = setting.run(sandbox.teardown(UncommittedWork::Keep));
        assert_eq!(report.warnings, Vec::<String>::new(), "{fault:?}");
        setting.heal();
        setting.assert_no_sandbox_is_left();
        let [branch] = report.branches.as_slice() else {
            panic!("{fault:?}: {report:?}");
        };
        let (_, repository) = setting.git.as_ref().unwrap();
        let bundle = branch.bundle.as_ref().unwrap();
        repository.git(["fetch", bundle.to_str().unwrap(), "+fix:brought"]);
        let brought = repository.git(["show", "brought:work"]);
        assert_eq!(brought.trim(), "precious");
        // Nothing half lies beside it.
        let files = std::fs::read_dir(setting.bundles.path()).unwrap();
        let mut names = files.map(|file| file.unwrap().path());
        assert!(names.all(|path| path.extension().unwrap() == "bundle"));
    }
}

#[test]
fn work_that_cannot_come_home_keeps_its_sandbox_until_it_can() {
    let setting = Setting::with_repository();
    let sandbox = setting.create().unwrap();
    setting.run(told(&sandbox, "echo precious > work"));
    setting
        .proxy
        .always("/files/bulk-download", Fault::status(500));
    let report = setting.run(sandbox.teardown(UncommittedWork::Keep));
    assert_eq!(report.leftovers, [PathBuf::from(sandbox.id())]);
    let [warning] = report.warnings.as_slice() else {
        panic!("{report:?}");
    };
    assert!(
        warning.contains("could not be brought home, so it was not deleted"),
        "{warning}"
    );
    assert_eq!(setting.server.sandboxes(), [sandbox.id()]);
    setting.heal();
    let report = setting.run(sandbox.teardown(UncommittedWork::Keep));
    assert_eq!(report.branches.len(), 1, "{report:?}");
    setting.assert_no_sandbox_is_left();
}
