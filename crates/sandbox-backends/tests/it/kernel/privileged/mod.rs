//! What only root can do: work for other users, and set limits that hold.

mod limits;
mod owners;

/// Says loudly that a test was not run; an ordinary user runs only the tests of `unprivileged`.
fn is_skipped() -> bool {
    let skipped = !crate::support::is_root();
    if skipped {
        eprintln!("SKIPPED: this test needs root");
    }
    skipped
}
