//! The contract, with nothing between a command and the host.

use holm_sandbox_backends::local::IsolationChoice;

use crate::support::{DirectoryBackend, LocalBackend};

mod repository {
    use super::{IsolationChoice, LocalBackend};

    holm_testkit::conformance_tests!(LocalBackend::new(IsolationChoice::None));
}

mod empty_folder {
    use super::{DirectoryBackend, IsolationChoice};

    holm_testkit::directory_conformance_tests!(DirectoryBackend::empty(IsolationChoice::None));
}
