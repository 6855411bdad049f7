//! The contract, at Daytona.

use crate::support::daytona::DaytonaBackend;

holm_testkit::conformance_tests!(DaytonaBackend::new());
