//! Cached checkouts: one immutable tree per repository, commit and sparse set, shared by all sandboxes.
//!
//! ```text
//! checkouts/<key>/tree/        the files, and a private `.git` whose objects are borrowed
//! checkouts/<key>/lock         held shared by every box that stands on the tree
//! checkouts/<key>/entry.json   what it is a checkout of, and how big
//! checkouts/<key>.build        held by whoever builds it
//! ```
//!
//! A sandbox lays its own layer over the tree, so making one costs the same for any number of files.
//! The index is made to be right inside: files are dated into the past and compared by time and size
//! only, so the first `git status` reads no file.
//!
//! **Invariants:** a tree that has its final name is complete and is never changed; it is removed only
//! by someone who holds its lock alone. A process that is killed while building leaves a folder
//! `*.new`, which the next builder removes.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use holm_sandbox::{Result, SandboxError};
use holm_sandbox_linux::files::ConfinedDir;
use holm_sandbox_linux::{IdRange, Owner, Power};
use rustix::fs::{AtFlags, CWD, FlockOperation, Timespec, Timestamps};
use serde::{Deserialize, Serialize};

use super::config::{CacheLimits, LocalConfig};
use super::git::GitCommand;
use super::index;
use super::private_git::{NOTHING_CHANGED, monitoring_config, quoted_paths, write_private_git};
use super::record::lock_file;
use super::repository::Repository;

/// Entries of another layout are other entries.
const LAYOUT_VERSION: u32 = 4;
/// Where a box finds the objects of the user's repository.
pub(crate) const OBJECTS_PLACE: &str = "/run/holm/objects";
/// How far files are dated back, so that no edit can carry the date that the index knows.
const BACKDATED: Duration = Duration::from_secs(60);

/// From here on, asking whether anything has changed is quicker than looking.
const FILES_WORTH_MONITORING: u64 = 300;

/// How much a checkout holds.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    files: u64,
    bytes: u64,
}

/// A checkout that is in use: it stays as long as this value, or a copy of its lock, is open.
#[derive(Debug)]
pub(crate) struct Checkout {
    pub(crate) key: String,
    pub(crate) tree: PathBuf,
    pub(crate) lock: File,
    /// Where its index names the sandbox that uses it.
    pub(crate) location_offset: Option<u64>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    version: u32,
    repository: Vec<u8>,
    commit: String,
    bytes: u64,
    /// Where the index names the sandbox that it is for, if it has an untracked cache.
    location_offset: Option<u64>,
}

/// The checkout of the repository's commit, made if this is the first time that it is asked for.
pub(crate) fn checkout(
    config: &LocalConfig,
    repository: &Repository,
    power: Power,
    temp_dir: &Path,
    pinned: impl FnOnce() -> Result<Vec<String>>,
) -> Result<Checkout> {
    let directory = config.checkouts_dir();
    let key = key_of(repository, temp_dir);
    if let Some(found) = open(&directory, &key)? {
        return Ok(found);
    }
    fs::create_dir_all(&directory).map_err(at("make folder", &directory))?;
    // One builder at a time; the others wait and then find what it made.
    let build_lock = directory.join(format!("{key}.build"));
    let _building = lock_file(&build_lock)?;
    if let Some(found) = open(&directory, &key)? {
        return Ok(found);
    }
    let unfinished = directory.join(format!("{key}.new"));
    remove_tree(&unfinished)?;
    let built = build(config, repository, power, temp_dir, &unfinished);
    if let Err(error) = built {
        remove_tree(&unfinished)?;
        return Err(error);
    }
    let finished = directory.join(&key);
    fs::rename(&unfinished, &finished).map_err(at("rename", &unfinished))?;
    let found = open(&directory, &key)?;
    evict(&directory, config.cache, &key, &pinned()?)?;
    found.ok_or_else(|| SandboxError::Io {
        doing: "open".into(),
        path: finished,
        source: io::ErrorKind::NotFound.into(),
    })
}

/// Opens a finished checkout by its key.
pub(crate) fn open(directory: &Path, key: &str) -> Result<Option<Checkout>> {
    let entry = directory.join(key);
    let lock_path = entry.join("lock");
    let lock = match File::options().write(true).open(&lock_path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at("open", &lock_path)(error)),
    };
    rustix::fs::flock(&lock, FlockOperation::LockShared)
        .map_err(|error| at("lock", &lock_path)(error.into()))?;
    // It may have been removed, or made anew, between the opening and the lock.
    let tree = entry.join("tree");
    if !tree.is_dir() || !is_at(&lock, &lock_path) {
        return Ok(None);
    }
    // The lock's date says when the checkout was last used.
    lock.set_modified(SystemTime::now())
        .map_err(at("touch", &lock_path))?;
    let entry_path = entry.join("entry.json");
    let text = fs::read(&entry_path).map_err(at("read", &entry_path))?;
    let described: Entry = serde_json::from_slice(&text)
        .map_err(|error| at("understand", &entry_path)(error.into()))?;
    Ok(Some(Checkout {
        key: key.to_owned(),
        tree,
        lock,
        location_offset: described.location_offset,
    }))
}

/// Whether an open file is the one that has this name now.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(opened), Ok(named)) => (opened.dev(), opened.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

fn key_of(repository: &Repository, temp_dir: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    temp_dir.hash(&mut hasher);
    LAYOUT_VERSION.hash(&mut hasher);
    repository.common_dir.hash(&mut hasher);
    repository.commit.hash(&mut hasher);
    repository.sparse.hash(&mut hasher);
    repository.shallow.hash(&mut hasher);
    repository.settings.hash(&mut hasher);
    repository.remotes.hash(&mut hasher);
    repository.object_dirs.hash(&mut hasher);
    let commit = repository.commit.get(..12).unwrap_or(&repository.commit);
    format!("{commit}-{:016x}", hasher.finish())
}

fn build(
    config: &LocalConfig,
    repository: &Repository,
    power: Power,
    temp_dir: &Path,
    directory: &Path,
) -> Result<()> {
    let tree = directory.join("tree");
    let git_dir = tree.join(".git");
    write_private_git(&git_dir, repository)?;
    let git = || {
        GitCommand::new(config, &tree, None)
            .env("GIT_DIR", &git_dir)
            .env("GIT_WORK_TREE", &tree)
            .env(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                quoted_paths(&repository.object_dirs),
            )
            .args(["-c", "checkout.workers=2"])
    };
    git()
        .args(["read-tree", "--reset", "-u"])
        .arg(&repository.commit)
        .run("check out the files")?;
    let owner = match power {
        Power::Root => Some(power.box_user(IdRange::FIRST)),
        Power::User { .. } => None,
    };
    let size = settle(&tree, owner, &Dates::Set(back_then()))?;
    // Reads every file once, so that nobody has to again. Its exit code only says that some file
    // differs from its blob, as with a lossy filter.
    git()
        .args(["update-index", "-q", "--refresh"])
        .output("date the files")?;
    if size.files >= FILES_WORTH_MONITORING {
        let path = git_dir.join("config");
        let config = fs::read_to_string(&path).map_err(at("read", &path))?;
        write(&path, (config + &monitoring_config()).as_bytes())?;
    }
    let location_offset = add_untracked_cache(git, &tree, temp_dir, size)?;
    let alternates: String = (0..repository.object_dirs.len())
        .map(|index| format!("{OBJECTS_PLACE}/{index}\n"))
        .collect();
    write(
        &git_dir.join("objects/info/alternates"),
        alternates.as_bytes(),
    )?;
    if let Some(owner) = owner {
        settle(&git_dir, Some(owner), &Dates::Keep)?;
    }
    let entry = Entry {
        version: LAYOUT_VERSION,
        repository: repository.common_dir.as_os_str().as_bytes().to_vec(),
        commit: repository.commit.clone(),
        bytes: size.bytes,
        location_offset,
    };
    let entry = serde_json::to_vec(&entry).map_err(|error| SandboxError::Io {
        doing: "describe".into(),
        path: directory.into(),
        source: error.into(),
    })?;
    write(&directory.join("entry.json"), &entry)?;
    write(&directory.join("lock"), b"")
}

/// Has git remember that no folder holds a file that it does not track. Returns where the index names
/// the work tree's sandbox, or `None` where git has written no such cache.
fn add_untracked_cache(
    git: impl Fn() -> GitCommand,
    tree: &Path,
    temp_dir: &Path,
    size: Size,
) -> Result<Option<u64>> {
    let path = tree.join(".git/index");
    let git = || {
        // The user's own ignore file is not inside, so it must not count here either; and an index
        // without checksum can be copied with a change.
        git()
            .env("HOME", "/nonexistent")
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .env("GIT_OPTIONAL_LOCKS", "1")
            .args([
                "-c",
                "index.skipHash=true",
                "-c",
                "index.recordEndOfIndexEntries=false",
            ])
            .args([
                "-c",
                "index.recordOffsetTable=false",
                "-c",
                "core.untrackedCache=true",
            ])
    };
    let monitored = format!("core.fsmonitor={NOTHING_CHANGED} && :");
    let git = || match size.files {
        0..FILES_WORTH_MONITORING => git().args(["-c", "core.fsmonitor=false"]),
        _ => git().args(["-c", &monitored]),
    };
    // Whatever fails here only costs time later.
    if size.files >= FILES_WORTH_MONITORING {
        git()
            .args(["update-index", "--fsmonitor"])
            .output("watch the files")?;
    }
    let added = git()
        .args(["update-index", "--untracked-cache"])
        .output("cache the folders")?;
    let filled = git()
        .args(["status", "--porcelain"])
        .output("cache the folders")?;
    let index = fs::read(&path).map_err(at("read", &path))?;
    let tree = fs::canonicalize(tree).map_err(at("find", tree))?;
    let to = temp_dir.join("harness-00000000");
    match index::relocate(&index, &tree, &to) {
        Some(relocated) if added.success && filled.success => {
            write(&path, &relocated.index)?;
            Ok(Some(relocated.offset))
        }
        Some(_) | None => Ok(None),
    }
}

/// When the files of a checkout were last changed, as the index will know it.
#[derive(Debug)]
enum Dates {
    /// All of them at this time.
    Set(Timestamps),
    /// As they are. An index dated like its files would make git doubt every one of them.
    Keep,
}

/// Dates every file and gives it to its owner. Returns how much there is.
fn settle(directory: &Path, owner: Option<Owner>, dates: &Dates) -> Result<Size> {
    let mut size = Size::default();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        if let Some(owner) = owner {
            lchown(&folder, Some(owner.uid), Some(owner.gid)).map_err(at("give away", &folder))?;
        }
        if let Dates::Set(times) = dates {
            set_times(&folder, times)?;
        }
        for entry in fs::read_dir(&folder).map_err(at("read folder", &folder))? {
            let entry = entry.map_err(at("read folder", &folder))?;
            let path = entry.path();
            let metadata = entry.metadata().map_err(at("look at", &path))?;
            if metadata.is_dir() {
                waiting.push(path);
                continue;
            }
            size.files += 1;
            size.bytes += metadata.len();
            if let Some(owner) = owner {
                lchown(&path, Some(owner.uid), Some(owner.gid)).map_err(at("give away", &path))?;
            }
            if let Dates::Set(times) = dates {
                set_times(&path, times)?;
            }
        }
    }
    Ok(size)
}

fn set_times(path: &Path, times: &Timestamps) -> Result<()> {
    rustix::fs::utimensat(CWD, path, times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| at("date", path)(error.into()))
}

/// A minute ago, in whole seconds.
fn back_then() -> Timestamps {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = i64::try_from(now.saturating_sub(BACKDATED).as_secs()).unwrap_or_default();
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

/// Removes the checkouts that were not used for longest, until the rest is within the limits.
fn evict(directory: &Path, limits: CacheLimits, newest: &str, pinned: &[String]) -> Result<()> {
    remove_unfinished(directory, newest)?;
    let mut entries = Vec::new();
    for found in fs::read_dir(directory).map_err(at("read folder", directory))? {
        let found = found.map_err(at("read folder", directory))?;
        let path = found.path();
        let Ok(used) = fs::metadata(path.join("lock")).and_then(|lock| lock.modified()) else {
            continue;
        };
        let bytes = fs::read(path.join("entry.json"))
            .ok()
            .and_then(|text| serde_json::from_slice::<Entry>(&text).ok())
            .map_or(0, |entry| entry.bytes);
        entries.push((used, bytes, path));
    }
    entries.sort_by_key(|(used, _, _)| std::cmp::Reverse(*used));
    let (mut count, mut total) = (0, 0);
    for (_, bytes, path) in entries {
        count += 1;
        total += bytes;
        let is_needed = path.file_name().is_some_and(|name| {
            name == OsStr::new(newest) || pinned.iter().any(|key| name == OsStr::new(key))
        });
        if is_needed || (count <= limits.entries_max && total <= limits.bytes_max) {
            continue;
        }
        remove_if_unused(&path)?;
    }
    Ok(())
}

/// Removes what killed builders and removals left, unless somebody is at it.
fn remove_unfinished(directory: &Path, newest: &str) -> Result<()> {
    for found in fs::read_dir(directory).map_err(at("read folder", directory))? {
        let path = found.map_err(at("read folder", directory))?.path();
        let is_unfinished = path.extension() == Some(OsStr::new("new"));
        if !is_unfinished || path.file_stem() == Some(OsStr::new(newest)) {
            continue;
        }
        let build_lock = path.with_extension("build");
        let building = File::create(&build_lock).map_err(at("make", &build_lock))?;
        if rustix::fs::flock(&building, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_tree(&path)?;
        }
    }
    Ok(())
}

fn remove_if_unused(entry: &Path) -> Result<()> {
    let Ok(lock) = File::open(entry.join("lock")) else {
        return Ok(());
    };
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        // In use by a box.
        return Ok(());
    }
    // Somebody who builds the same again uses the name that the removal needs.
    let build_lock = entry.with_extension("build");
    let building = File::create(&build_lock).map_err(at("make", &build_lock))?;
    if rustix::fs::flock(&building, FlockOperation::NonBlockingLockExclusive).is_err()
        || !is_at(&lock, &entry.join("lock"))
    {
        return Ok(());
    }
    // Renamed first: from here on nobody can find it, and a removal cut short is known by its name.
    let doomed = entry.with_extension("new");
    fs::rename(entry, &doomed).map_err(at("rename", entry))?;
    remove_tree(&doomed)
}

/// Removes a folder with everything in it; one that is not there is fine.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    if !path.exists() {
        return Ok(());
    }
    ConfinedDir::open(parent)
        .and_then(|parent| parent.remove_tree(Path::new(name)))
        .map_err(|source| SandboxError::Backend {
            doing: format!("remove `{}`", path.display()),
            hint: None,
            source: source.into(),
        })
}

pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).map_err(at("write", path))
}

pub(crate) fn at<'a>(doing: &'a str, path: &'a Path) -> impl Fn(io::Error) -> SandboxError + 'a {
    move |source| SandboxError::Io {
        doing: doing.to_owned(),
        path: path.to_path_buf(),
        source,
    }
}

/// Makes a folder that only its owner can enter.
pub(crate) fn make_private_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(at("make folder", path))?;
    fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(at("set the mode of", path))
}
