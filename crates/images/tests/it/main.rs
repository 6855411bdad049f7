//! Images from the outside: what a user gives, and what lies in the folder afterwards.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a helper of tests may fail and tell as a test does"
)]

mod archives;
mod builds;
mod debian;
mod fake_registry;
mod hostile;
mod layouts;
mod random_archives;
mod real_registry;
mod registries;
mod support;
