//! Root file systems for boxes, made from what people have: archives, OCI images, registries, Debian, Dockerfiles.
//!
//! ```text
//! registry ─────┐
//! Dockerfile ───┤ (buildah)
//!               ▼
//! archive ──▶ OCI layout ──▶ layers, verified ──▶ one tree ──rename──▶ <directory>/<name>
//!    └────── root file system ───────────────────────▲
//! debootstrap ───────────────────────────────────────┘
//! ```
//!
//! - [`Images`] is a folder of images; each source is a method that returns an [`ImportedImage`].
//! - Everything blocks: call it on a thread that may wait. [`Watch`] carries progress, cancellation and a deadline.
//! - Archives and registries are hostile. Where an entry goes is decided by the kernel (`tree`), what is read into memory
//!   is bounded (`tar_reader`), and nothing is used whose digest is wrong (`oci`).
//! - What fails leaves nothing; what has a name is complete (`store`).

mod build;
mod config;
mod debootstrap;
mod decompress;
mod digest;
mod docker_archive;
mod dockerfile;
mod error;
mod import;
mod oci;
mod pax;
mod program;
mod registry;
mod store;
mod tar_reader;
mod tree;
mod unpack;
mod watch;

pub use build::{BuildNetwork, BuildOptions};
pub use config::{IMAGE_FILE_VERSION, ImageConfig};
pub use error::{ImagesError, Result};
pub use registry::{Credentials, PlainHttp, RegistryOptions};
pub use store::{Images, ImportedImage};
pub use watch::{Cancel, Limits, Progress, Watch};
