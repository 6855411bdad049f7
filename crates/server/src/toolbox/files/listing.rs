//! What is where: listings and descriptions.

use std::path::Path;
use std::time::SystemTime;

use axum::Json;
use holm_daytona_wire::files::FileInfo;
use holm_sandbox_linux::files::{EntryKind, Metadata, WalkLimits};
use jiff::Timestamp;

use super::failure::failure;
use super::path::Place;
use crate::api::query::Pairs;
use crate::error::{ApiError, Result};
use crate::machines::BoxIds;
use crate::toolbox::Inside;

/// A listing is one answer, held in memory.
const ENTRIES_MAX: u64 = 100_000;
const DEPTH_MAX: usize = 1_000;

pub(super) async fn list(inside: Inside, pairs: Pairs) -> Result<Json<Vec<FileInfo>>> {
    let place = Place::entry(&inside.machine, pairs.get("path").unwrap_or("."))?;
    let depth: usize = pairs.parsed("depth")?.unwrap_or(1);
    if !(1..=DEPTH_MAX).contains(&depth) {
        return Err(ApiError::bad_request(format!(
            "`depth` has to be between 1 and {DEPTH_MAX}"
        )));
    }
    let limits = WalkLimits {
        entries_max: ENTRIES_MAX,
        depth_max: depth - 1,
    };
    let listed = inside.machine.blocking(move |machine| {
        let walk = || {
            let mut entries = Vec::new();
            for entry in machine.files()?.walk(&place.path, limits)? {
                let entry = entry?;
                let full = place.path.join(&entry.path);
                entries.push(describe(&full, &entry.metadata, machine.ids));
            }
            Ok(entries)
        };
        walk().map_err(|error| failure(&place, error))
    });
    Ok(Json(listed.await?))
}

pub(super) async fn info(inside: Inside, pairs: Pairs) -> Result<Json<FileInfo>> {
    let place = Place::entry(&inside.machine, pairs.required("path")?)?;
    let found = inside.machine.blocking(move |machine| {
        let found = machine
            .files()
            .and_then(|files| files.metadata(&place.path))
            .map_err(|error| failure(&place, error))?;
        Ok::<_, ApiError>(describe(&place.path, &found, machine.ids))
    });
    Ok(Json(found.await?))
}

/// An entry in Daytona's words. `path` is absolute.
fn describe(path: &Path, found: &Metadata, ids: BoxIds) -> FileInfo {
    let modified = time(found.modified);
    FileInfo {
        name: path
            .file_name()
            .map_or_else(|| "/".into(), |name| name.to_string_lossy().into_owned()),
        size: found.size_bytes,
        mode: mode_text(found.kind, found.mode),
        // The layout of Go's `time.String()`.
        mod_time: modified
            .strftime("%Y-%m-%d %H:%M:%S%.f +0000 UTC")
            .to_string(),
        modified_at: modified.to_string(),
        is_dir: found.kind == EntryKind::Directory,
        owner: ids.user_inside(found.uid).to_string(),
        group: ids.group_inside(found.gid).to_string(),
        permissions: format!("{:04o}", found.mode & 0o777),
        path: Some(path.to_string_lossy().into_owned()),
    }
}

fn time(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// As Go writes a mode: `-rw-r--r--`, `drwxr-xr-x`, `Lrwxrwxrwx`.
fn mode_text(kind: EntryKind, mode: u32) -> String {
    let mut text = String::from(match kind {
        EntryKind::File => "-",
        EntryKind::Directory => "d",
        EntryKind::Symlink => "L",
        EntryKind::Other => "?",
    });
    for (shift, letter) in (0..9).rev().zip("rwxrwxrwx".chars()) {
        let is_set = mode >> shift & 1 == 1;
        text.push(if is_set { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holm_sandbox_linux::{IdRange, Power};

    use super::*;

    #[test]
    fn an_entry_is_described_as_daytona_does() {
        let found = Metadata {
            kind: EntryKind::File,
            size_bytes: 5,
            mode: 0o640,
            uid: IdRange::FIRST.base() + 1_000,
            gid: 0,
            modified: SystemTime::UNIX_EPOCH + Duration::from_millis(1_794_771_988_471),
        };
        let ids = BoxIds {
            power: Power::Root,
            range: IdRange::FIRST,
        };
        let info = describe(Path::new("/home/daytona/a.txt"), &found, ids);
        assert_eq!(
            serde_json::to_value(info).unwrap(),
            serde_json::json!({
                "name": "a.txt", "size": 5, "mode": "-rw-r-----", "isDir": false, "owner": "1000", "group": "65534",
                "modTime": "2026-11-15 19:46:28.471 +0000 UTC", "modifiedAt": "2026-11-15T19:46:28.471Z",
                "permissions": "0640", "path": "/home/daytona/a.txt",
            })
        );
        assert_eq!(mode_text(EntryKind::Directory, 0o1755), "drwxr-xr-x");
        assert_eq!(mode_text(EntryKind::Symlink, 0o777), "Lrwxrwxrwx");
    }
}
