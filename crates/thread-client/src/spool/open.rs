//! From a folder to a spool: found as the last user left it, however that ended, or made.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Seek as _, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::contents::{Contents, End, Pending, ReadError, scan};
use super::record::{self, Record};
use super::{
    Header, Health, Identity, LOCK_NAME, LOG_NAME, Life, NEW_NAME, Spool, SpoolError, SpoolLimits,
    VERSION, remove_if_there, sync_folder,
};

impl Spool {
    /// Opens the spool of a folder, or makes it. `epoch` is higher than that of any life before: the time in microseconds.
    pub(crate) fn open(
        folder: &Path,
        identity: &Identity,
        limits: SpoolLimits,
        epoch: u64,
    ) -> Result<Self, SpoolError> {
        let failed = |doing, path: &Path| {
            let path = path.to_path_buf();
            move |source| SpoolError::Io {
                doing,
                path,
                source,
            }
        };
        // Entries are nobody else's business.
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        made.map_err(failed("make folder", folder))?;
        let lock_path = folder.join(LOCK_NAME);
        let lock = private_file(&lock_path).map_err(failed("make", &lock_path))?;
        lock.try_lock().map_err(|_| SpoolError::InUse {
            path: folder.to_path_buf(),
        })?;
        // A file that was on its way when its writer died: the old one is still there.
        remove_if_there(&folder.join(NEW_NAME))?;
        let path = folder.join(LOG_NAME);
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let (file, end, contents) = match opened {
            Ok(file) => found(file, &path, identity)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => made_new(folder, identity)?,
            Err(source) => return Err(failed("open", &path)(source)),
        };
        Ok(Self {
            folder: folder.to_path_buf(),
            file,
            end,
            room_end: end,
            contents,
            limits,
            health: Health::Well,
            life: Life::New { epoch },
            _lock: lock,
        })
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn found(
    file: File,
    path: &Path,
    identity: &Identity,
) -> Result<(File, u64, Contents), SpoolError> {
    let failed = |doing| {
        move |source| SpoolError::Io {
            doing,
            path: path.to_path_buf(),
            source,
        }
    };
    let length = file.metadata().map_err(failed("look at"))?.len();
    let (contents, end, ending) =
        scan(&file, length).map_err(|error| error.into_spool_error(path))?;
    check(path, &contents.header, identity)?;
    if ending == End::Torn {
        tracing::warn!(path = %path.display(), at = end, "the last record of a spool was torn: it was never promised");
        file.set_len(end).map_err(failed("cut the torn end off"))?;
    }
    // What a killed writer had written and not synced counts from now on, and therefore must not vanish.
    file.sync_all().map_err(failed("sync"))?;
    Ok((file, end, contents))
}

fn check(path: &Path, header: &Header, identity: &Identity) -> Result<(), SpoolError> {
    if header.version != VERSION {
        return Err(SpoolError::Version {
            path: path.to_path_buf(),
            version: header.version,
        });
    }
    let of_another = |what, found: &str, wanted: &str| SpoolError::OfAnother {
        path: path.to_path_buf(),
        what,
        found: found.to_owned(),
        wanted: wanted.to_owned(),
    };
    if header.stream != identity.stream.as_str() {
        let wanted = identity.stream.as_str();
        return Err(of_another("stream", &header.stream, wanted));
    }
    if let Some(producer) = &identity.producer
        && header.producer != producer.as_str()
    {
        return Err(of_another("producer", &header.producer, producer.as_str()));
    }
    if header.kind != identity.kind {
        let shown = |kind| format!("{kind:?}");
        return Err(of_another(
            "entries of kind",
            &shown(header.kind),
            &shown(identity.kind),
        ));
    }
    Ok(())
}

fn made_new(folder: &Path, identity: &Identity) -> Result<(File, u64, Contents), SpoolError> {
    let producer = match &identity.producer {
        Some(producer) => producer.to_string(),
        None => uuid::Uuid::new_v4().to_string(),
    };
    let contents = Contents {
        header: Header {
            version: VERSION,
            stream: identity.stream.to_string(),
            producer,
            kind: identity.kind,
            epoch: 0,
            next_seq: 0,
            entries_before: 0,
        },
        first: 0,
        pending: Pending::default(),
        sealed: None,
        acknowledged_here: 0,
    };
    let (file, end, first) = write_file(folder, &contents, |_| Ok(()))?;
    Ok((file, end, Contents { first, ..contents }))
}

/// Writes a file with these contents and puts it in place. Yields it, its length, and where its entries begin.
fn write_file(
    folder: &Path,
    contents: &Contents,
    write_entries: impl FnOnce(&mut dyn Write) -> Result<(), ReadError>,
) -> Result<(File, u64, u64), SpoolError> {
    let written = prepare_file(folder, contents, write_entries)?;
    put_in_place(folder)?;
    Ok(written)
}

/// Writes a file beside the one that is used. An error leaves that as it is.
pub(super) fn prepare_file(
    folder: &Path,
    contents: &Contents,
    write_entries: impl FnOnce(&mut dyn Write) -> Result<(), ReadError>,
) -> Result<(File, u64, u64), SpoolError> {
    let path = folder.join(NEW_NAME);
    let failed = |doing| {
        let path = path.clone();
        move |source| SpoolError::Io {
            doing,
            path,
            source,
        }
    };
    remove_if_there(&path)?;
    let file = private_file(&path).map_err(failed("make"))?;
    let written = write_contents(&file, contents, write_entries);
    let (end, first) = written.map_err(|error| error.into_spool_error(&path))?;
    file.sync_all().map_err(failed("sync"))?;
    Ok((file, end, first))
}

/// Has the prepared file take the place of the one that is used. After an error nobody can say which of the two a power cut would leave.
pub(super) fn put_in_place(folder: &Path) -> Result<(), SpoolError> {
    let path = folder.join(NEW_NAME);
    fs::rename(&path, folder.join(LOG_NAME)).map_err(|source| SpoolError::Io {
        doing: "rename",
        path,
        source,
    })?;
    sync_folder(folder)
}

fn write_contents(
    file: &File,
    contents: &Contents,
    write_entries: impl FnOnce(&mut dyn Write) -> Result<(), ReadError>,
) -> Result<(u64, u64), ReadError> {
    let mut out = BufWriter::new(file);
    let header = serde_json::to_vec(&contents.header).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    record::write(&mut bytes, &Record::Header(header.into()));
    out.write_all(&bytes)?;
    let first = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    write_entries(&mut out)?;
    if let Some(count) = contents.sealed {
        let seq = contents.header.next_seq;
        bytes.clear();
        record::write(&mut bytes, &Record::Sealed { seq, count });
        out.write_all(&bytes)?;
    }
    out.flush()?;
    drop(out);
    let mut file = file;
    Ok((file.stream_position()?, first))
}
