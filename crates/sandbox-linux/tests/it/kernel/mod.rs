//! Boxes made for real. They share the machine's mounts and control groups, so they run one by one.

mod image_users;
mod images;
mod privileged;
mod ranges;
mod unprivileged;
