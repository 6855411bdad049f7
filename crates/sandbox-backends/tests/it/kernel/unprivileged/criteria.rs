//! Seed 001 and seed 004 by their own names, in a box.

use holm_sandbox_backends::local::IsolationChoice;

crate::criteria::acceptance_criteria!(IsolationChoice::Namespaces);
crate::seed_004::seed_004_tests!(IsolationChoice::Namespaces);
