//! The files of a sandbox, copied: for a fork, or as a layer for others.

use std::path::Path;

use holm_sandbox_linux::{Durability, EngineError, LayerOptions, LayerReport, copy_layer};

use super::make::{MakeError, Making, make_folder};

/// The engine's name for a box's own files.
const OWN_FILES: &str = "root-upper";

impl Making {
    /// Copies a sandbox's own files, which nobody may change meanwhile, to a folder that must not exist.
    fn copy_files(&self, id: &str, to: &Path) -> Result<LayerReport, EngineError> {
        let from = self.config.box_directory(id).join(OWN_FILES);
        let options = LayerOptions {
            owners: None,
            bytes_max: None,
            durability: Durability::Durable,
        };
        copy_layer(&from, to, &options)
    }

    /// The files of one sandbox as the beginning of another of the same organisation.
    pub(crate) fn copy_to_sandbox(&self, from: &str, to: &str) -> Result<LayerReport, MakeError> {
        let directory = self.config.box_directory(to);
        make_folder(&directory)?;
        Ok(self.copy_files(from, &directory.join(OWN_FILES))?)
    }

    /// The files of a sandbox as a layer of their own.
    pub(crate) fn copy_to_layer(&self, from: &str, layer: &str) -> Result<LayerReport, MakeError> {
        Ok(self.copy_files(from, &self.config.layers().join(layer))?)
    }
}
