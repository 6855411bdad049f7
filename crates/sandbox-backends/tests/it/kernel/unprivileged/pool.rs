//! Boxes prepared ahead of time: used when they fit, gone when nobody wants them.

use holm_sandbox::{Exec, UncommittedWork};
use holm_sandbox_backends::local::{CreateOptions, IsolationChoice};
use holm_sandbox_linux::{Limits, Network};

use crate::support::{TestHost, wait_until};

fn isolated() -> CreateOptions {
    CreateOptions {
        isolation: IsolationChoice::Namespaces,
        ..CreateOptions::default()
    }
}

#[test]
fn a_prepared_box_is_taken_replaced_and_removed() {
    let host = TestHost::with(|config| config.prepared_boxes = 2);
    wait_until("two boxes are prepared", || {
        host.runtime.prepared_boxes() == 2
    });
    let prepared: Vec<String> = names(&host);
    let sandbox = host.runtime.create(&isolated()).unwrap();
    assert!(prepared.contains(&sandbox.record().run_id.to_string()));
    let outcome = sandbox
        .exec_blocking(Exec::new(["echo", "hello"]), None)
        .unwrap();
    assert_eq!(outcome.stdout_text(), "hello\n");
    wait_until("the taken one is replaced", || {
        host.runtime.prepared_boxes() == 2
    });
    assert!(
        sandbox
            .teardown_blocking(UncommittedWork::Keep)
            .warnings
            .is_empty()
    );
}

#[test]
fn what_was_not_prepared_is_made_as_asked() {
    let host = TestHost::with(|config| config.prepared_boxes = 1);
    wait_until("a box is prepared", || host.runtime.prepared_boxes() == 1);
    let other = CreateOptions {
        network: Network::Host,
        limits: Limits {
            pids: Some(64),
            ..Limits::default()
        },
        ..isolated()
    };
    let sandbox = host.runtime.create(&other).unwrap();
    assert_eq!(host.runtime.prepared_boxes(), 1);
    assert_eq!(sandbox.record().network, Network::Host);
    assert!(
        sandbox
            .teardown_blocking(UncommittedWork::Keep)
            .leftovers
            .is_empty()
    );
}

#[test]
fn the_limits_of_a_claimed_box_hold() {
    let host = TestHost::with(|config| config.prepared_boxes = 1);
    wait_until("a box is prepared", || host.runtime.prepared_boxes() == 1);
    let few = CreateOptions {
        limits: Limits {
            pids: Some(12),
            ..Limits::default()
        },
        ..isolated()
    };
    let sandbox = host.runtime.create(&few).unwrap();
    let script = "for i in $(seq 30); do sleep 5 & done 2>/dev/null; true";
    let outcome = sandbox
        .exec_blocking(Exec::new(["bash", "-c", script]), None)
        .unwrap();
    assert!(!outcome.success(), "{outcome:?}");
    drop(sandbox.teardown_blocking(UncommittedWork::Keep));
}

fn names(host: &TestHost) -> Vec<String> {
    let boxes = std::fs::read_dir(host.data("boxes")).unwrap();
    boxes
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}
