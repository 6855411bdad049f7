//! Sandboxes in boxes. They share the machine's mounts and control groups, so they run one by one.

mod daytona;
mod daytona_faults;
mod privileged;
mod provider;
mod unprivileged;
