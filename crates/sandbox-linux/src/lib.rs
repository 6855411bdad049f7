//! The Linux engine: boxes made of namespaces, overlays, control groups and a seccomp filter.
//!
//! ```text
//! Engine ──▶ spawner ──clone3──▶ init (PID 1 of the box) ──fork──▶ commands
//!    │                              ▲
//!    └── plan: Vec<Step> ───────────┘
//! ```
//!
//! - [`Engine`] makes a [`LinuxBox`] from a [`BoxSpec`]; [`LinuxBox::start`] runs a [`Command`] in it.
//! - [`files`] reads and writes below a descriptor that an attacker controls, confined by the kernel.
//! - [`plain`] runs commands without isolation, with the same care for their processes.
//!
//! This crate blocks, knows no async runtime, prints nothing, and is the only one with unsafe code.

#![expect(unsafe_code, reason = "this crate is where the kernel is spoken to")]

mod account;
mod base;
mod boxes;
pub mod cgroup;
mod checks;
mod descriptors;
mod disk;
mod engine;
mod error;
pub mod files;
mod identity;
mod ids;
mod image;
mod init;
mod job;
mod kernel;
mod layer;
mod mounts;
mod names;
mod parking;
pub mod plain;
mod plan;
#[cfg(test)]
mod plan_image_tests;
#[cfg(test)]
mod plan_tests;
mod ports;
mod power;
mod prepared;
mod process_tree;
mod protocol;
pub mod pump;
#[cfg(test)]
mod recorder;
pub mod seccomp;
mod skeleton;
mod spawner;
mod spec;
mod step;
mod sys;
mod wire;

pub use account::Account;
pub use base::{BaseOptions, HostBase, ShownToolchain, TOOLCHAINS};
pub use boxes::LinuxBox;
pub use cgroup::Limits;
pub use descriptors::raise_descriptor_limit;
pub use disk::{DiskSpace, disk_space};
pub use engine::Engine;
pub use error::{EngineError, Result};
pub use identity::ProcessIdentity;
pub use ids::{HOST_ID_BASE, IdRange, NoSuchRange};
pub use image::{ImageBase, ImageOptions};
pub use job::{Command, Job, Streams, make_nonblocking, resize_terminal};
pub use layer::{LayerOptions, LayerReport, ShiftOwners, copy_layer};
pub use names::HOSTNAME;
pub use parking::Parked;
pub use power::Power;
pub use prepared::{Prepared, PreparedSpec};
pub use process_tree::{MARKER_VARIABLE, ticks_now};
pub use protocol::{Exit, LaunchStage, OnDisconnect, Reach, TerminalSize};
pub use spec::{
    BOX_USER, Base, BoxSpec, CommandUser, CommandUsers, Lifetime, MountSpec, Network, Owners,
    Profile,
};
pub use step::{
    Access, DescriptorIndex, Durability, OverlayMarks, OverlayOptions, Owner, RootMount, Step,
    TranslatedLayers, UpperLayer,
};
pub use wire::WIRE_VERSION;

/// Sixteen hexadecimal digits from the kernel's random source.
pub fn random_hex() -> String {
    let mut bytes = [0_u8; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = bytes.get_mut(filled..).unwrap_or_default();
        // Interrupted, or too early in the machine's boot: the source comes.
        if let Ok(count) = rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            filled += count;
        }
    }
    format!("{:016x}", u64::from_ne_bytes(bytes))
}
