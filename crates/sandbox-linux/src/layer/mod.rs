//! Copies the writable layer of a box, to save the box or to make another one of it.
//!
//! ```text
//! from/…  ──▶  <to>.<random>.new/tree/…  ──rename──▶  to/…
//!              <to>.<random>.new/links/<inode>      one name for each file with more names
//! ```
//!
//! The tree belongs to an attacker, and we are root. Names are opened one at a time, never through a link and
//! never into another mount (`Descent`); what was opened is judged by its descriptor. Nothing is kept in
//! memory that grows with the number of files: hard links are found again through a folder, and of a folder
//! with a million folders a few names are remembered. What the kernel does not let a box make (device nodes)
//! is left out, as are sockets, which nobody would listen on.
//!
//! A copy is the same layer only while nobody writes to it: freeze or stop the box.

mod attributes;
mod data;
mod tree;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::{EngineError, HostFileContext, Result};
use crate::files::ConfinedDir;
use crate::ids::IdRange;
use crate::step::Durability;

/// How a layer is copied.
#[derive(Debug, Clone, Copy)]
pub struct LayerOptions {
    /// For a box of another id range.
    pub owners: Option<ShiftOwners>,
    /// What the files of the layer may take, holes not counted.
    pub bytes_max: Option<u64>,
    /// Whether the copy must survive a crash of the machine, once it is there.
    pub durability: Durability,
}

/// Files of one range become those of another; the ids of nobody's range stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShiftOwners {
    pub from: IdRange,
    pub to: IdRange,
}

impl ShiftOwners {
    fn shift(self, id: u32) -> u32 {
        let inside = self.from.inside_id(id);
        inside
            .and_then(|inside| self.to.host_id(inside))
            .unwrap_or(id)
    }
}

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LayerReport {
    /// Files, folders, links and overlayfs marks.
    pub entries: u64,
    /// What the files take, holes not counted.
    pub bytes: u64,
    /// Files that share their blocks with the original.
    pub reflinks: u64,
    /// Sockets and devices.
    pub skipped: u64,
}

/// Copies the layer at `from` to `to`, which must not exist. Both paths are trusted, the tree is not.
pub fn copy_layer(from: &Path, to: &Path, options: &LayerOptions) -> Result<LayerReport> {
    if to.symlink_metadata().is_ok() {
        return Err(EngineError::Invalid {
            what: format!("`{}` exists already", to.display()),
            hint: "copy the layer to a name that is free".into(),
        });
    }
    let temporary = temporary_beside(to)?;
    fs::create_dir(&temporary).doing("make folder", &temporary)?;
    let copied = copy_into(from, &temporary, options).and_then(|report| {
        let tree = temporary.join("tree");
        match options.durability {
            Durability::Durable => sync(&tree).doing("write to disk", &tree)?,
            Durability::Volatile => {}
        }
        fs::rename(&tree, to).doing("rename", &tree)?;
        Ok(report)
    });
    let removed = remove(&temporary);
    // The error that matters is the first one.
    copied.and_then(|report| removed.map(|()| report))
}

fn temporary_beside(to: &Path) -> Result<PathBuf> {
    let Some(name) = to.file_name() else {
        return Err(EngineError::Invalid {
            what: format!("`{}` cannot be the name of a layer", to.display()),
            hint: "give the path of a folder that does not exist".into(),
        });
    };
    let mut name = name.to_os_string();
    name.push(format!(".{}.new", crate::random_hex()));
    Ok(to.with_file_name(name))
}

fn copy_into(from: &Path, temporary: &Path, options: &LayerOptions) -> Result<LayerReport> {
    let [tree, links] = ["tree", "links"].map(|name| temporary.join(name));
    for folder in [&tree, &links] {
        fs::create_dir(folder).doing("make folder", folder)?;
        crate::skeleton::set_mode(folder, 0o700)?;
    }
    let open = |path: &Path| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).doing("open", path)
    };
    tree::Copy::new(from, open(from)?, open(&tree)?, open(&links)?, *options).run()
}

fn sync(tree: &Path) -> rustix::io::Result<()> {
    // One call for the whole file system, instead of one for each of many files.
    rustix::fs::syncfs(rustix::fs::open(
        tree,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

fn remove(temporary: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (temporary.parent(), temporary.file_name()) else {
        return Ok(());
    };
    // A path of one name has an empty parent.
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let removed = ConfinedDir::open(parent).and_then(|parent| parent.remove_tree(Path::new(name)));
    removed
        .map_err(std::io::Error::other)
        .doing("remove", temporary)
}
