//! Tests that make boxes.

mod crash;
mod privileged;
mod unprivileged;
