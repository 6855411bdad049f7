//! The contract, in a box.

use holm_sandbox_backends::local::IsolationChoice;

use crate::support::{DirectoryBackend, LocalBackend};

mod repository {
    use super::{IsolationChoice, LocalBackend};

    holm_testkit::conformance_tests!(LocalBackend::new(IsolationChoice::Namespaces));
}

mod directory {
    use super::{DirectoryBackend, IsolationChoice};

    holm_testkit::directory_conformance_tests!(DirectoryBackend::in_place(
        IsolationChoice::Namespaces
    ));
}
