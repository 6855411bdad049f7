//! Boxes made for real. They share the machine's mounts and control groups, so they run one by one.

mod images;
mod privileged;
mod ranges;
mod unprivileged;
