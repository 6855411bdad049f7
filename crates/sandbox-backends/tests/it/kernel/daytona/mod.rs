//! Sandboxes of Daytona, over a server of this machine: the contract, and the criteria of its seed.

mod bootstrap;
mod commands;
mod conformance;
mod ending;
mod pushing;
mod writing;

use holm_sandbox_backends::daytona::DaytonaSandbox;
use holm_testkit::TestRepository;

use crate::support::daytona::DaytonaBackend;
use crate::support::recorder::Recorder;

/// A sandbox on a repository, and all that is sent to its server from now on.
async fn recorded() -> (DaytonaBackend, Recorder, DaytonaSandbox) {
    let (backend, recorder) = DaytonaBackend::recorded();
    let repository = TestRepository::new();
    backend.serve(&repository, None);
    let sandbox = backend.create("work").await;
    recorder.forget();
    (backend, recorder, sandbox)
}

/// Fails unless these stand in the text one after the other.
#[track_caller]
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part);
        assert!(
            at.is_some(),
            "`{part}` is not, or not in order, in:\n{text}"
        );
        rest = &rest[at.unwrap() + part.len()..];
    }
}
