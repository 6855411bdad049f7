//! A picture of a folder, to prove that nothing in it changed.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Every entry below a folder with its kind, mode, owner and content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    entries: BTreeMap<PathBuf, String>,
}

impl Fingerprint {
    /// Looks at everything below `folder`.
    pub fn of(folder: &Path) -> Self {
        let mut entries = BTreeMap::new();
        let mut waiting = vec![folder.to_path_buf()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let found = fs::symlink_metadata(&path).unwrap();
                let mode = found.permissions().mode();
                let content = if found.is_dir() {
                    waiting.push(path.clone());
                    "folder".to_owned()
                } else if found.is_symlink() {
                    format!("link to {}", fs::read_link(&path).unwrap().display())
                } else if found.is_file() {
                    let bytes = fs::read(&path).unwrap();
                    let mut hasher = DefaultHasher::new();
                    bytes.hash(&mut hasher);
                    format!("{} bytes {:016x}", bytes.len(), hasher.finish())
                } else {
                    "special".to_owned()
                };
                let relative = path.strip_prefix(folder).unwrap().to_path_buf();
                let owner = format!("{}:{}", found.uid(), found.gid());
                entries.insert(relative, format!("{mode:o} {owner} {content}"));
            }
        }
        Self { entries }
    }

    /// What is different in `later`, one line each, `+` new, `-` gone, `~` changed.
    pub fn changes_to(&self, later: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for (path, before) in &self.entries {
            match later.entries.get(path) {
                None => changes.push(format!("-{}", path.display())),
                Some(after) if after != before => changes.push(format!("~{}", path.display())),
                Some(_) => {}
            }
        }
        for path in later.entries.keys() {
            if !self.entries.contains_key(path) {
                changes.push(format!("+{}", path.display()));
            }
        }
        changes
    }
}
