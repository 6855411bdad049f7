//! Tests that make boxes.

mod privileged;
mod unprivileged;
