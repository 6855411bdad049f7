//! Tests that make boxes.

mod crash;
mod daytona;
mod privileged;
mod unprivileged;
