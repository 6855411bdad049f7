//! Removes what nothing stands on any more: images, saved layers, logs of builds.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use holm_store::StoreError;

use super::make::Making;
use super::pins::Held;
use crate::records::{Foundation, SandboxRecord, SnapshotRecord};

impl Making {
    /// Removes images, saved layers and logs that no snapshot and no sandbox needs.
    pub(crate) fn collect(&self) -> Result<(), StoreError> {
        // Held from before the store is read: see `pins`.
        let held = self.pins.hold();
        let snapshots: Vec<SnapshotRecord> = self.store.all()?;
        let sandboxes: Vec<SandboxRecord> = self.store.all()?;
        let foundations = snapshots
            .iter()
            .map(|snapshot| &snapshot.foundation)
            .chain(sandboxes.iter().map(|sandbox| &sandbox.foundation));
        let mut images: HashSet<&str> = foundations
            .filter_map(|foundation| match foundation {
                Foundation::Host => None,
                Foundation::Image { image } => Some(image.as_str()),
            })
            .collect();
        // Images have the names of the snapshots that they are made for.
        images.extend(snapshots.iter().map(|snapshot| snapshot.id.as_str()));
        self.remove_images(&held, &images);
        let layers: HashSet<&str> = snapshots
            .iter()
            .flat_map(|snapshot| &snapshot.layers)
            .chain(sandboxes.iter().flat_map(|sandbox| &sandbox.layers))
            .map(String::as_str)
            .collect();
        self.remove_others(&held, &self.config.layers(), &layers);
        let logs: HashSet<String> = snapshots
            .iter()
            .map(|snapshot| &snapshot.id)
            .chain(
                sandboxes
                    .iter()
                    .filter_map(|sandbox| sandbox.build.as_ref()),
            )
            .map(|id| format!("{id}.log"))
            .collect();
        let logs = logs.iter().map(String::as_str).collect();
        self.remove_others(&held, &self.config.builds(), &logs);
        Ok(())
    }

    fn remove_images(&self, held: &Held<'_>, known: &HashSet<&str>) {
        // Without root there are none.
        let Ok(images) = self.images() else { return };
        for name in images.list().unwrap_or_default() {
            if known.contains(name.as_str()) || held.has(&name) {
                continue;
            }
            self.forget_base(&Foundation::Image {
                image: name.clone(),
            });
            if let Err(error) = images.remove(&name) {
                let error = crate::error::chain(&error);
                tracing::warn!(image = name, error, "an image stays");
            }
        }
    }

    fn remove_others(&self, held: &Held<'_>, folder: &Path, known: &HashSet<&str>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name
                .to_str()
                .is_some_and(|name| !known.contains(name) && !held.has(name))
            {
                self.throw_away(&folder.join(name));
            }
        }
    }
}
