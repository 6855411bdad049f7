//! The key by which clients know this server again.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use russh::keys::PrivateKey;
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::Ed25519Keypair;
use sha2::{Digest, Sha256};

use crate::error::ServeError;
use crate::keys::random_token;

const NAME: &str = "ssh_host_ed25519_key";

/// Reads the key, or makes it at the first start.
pub(super) fn load_or_make(data: &Path) -> Result<PrivateKey, ServeError> {
    let path = data.join(NAME);
    let failed = |doing: &'static str, source: io::Error| ServeError::Folder {
        doing,
        path: path.clone(),
        source,
    };
    match fs::read_to_string(&path) {
        Ok(text) => PrivateKey::from_openssh(text.as_bytes())
            .map_err(|error| failed("read the SSH host key", io::Error::other(error))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let seed: [u8; 32] = Sha256::digest(random_token().as_bytes()).into();
            let key = PrivateKey::from(Ed25519Keypair::from_seed(&seed));
            let text = key
                .to_openssh(LineEnding::LF)
                .map_err(|error| failed("make the SSH host key", io::Error::other(error)))?;
            write_private(&path, text.as_bytes())
                .map_err(|error| failed("write the SSH host key", error))?;
            Ok(key)
        }
        Err(error) => Err(failed("read the SSH host key", error)),
    }
}

/// Whole or not at all, and for nobody else's eyes.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_stays_and_is_ours_alone() {
        let data = tempfile::tempdir().unwrap();
        let made = load_or_make(data.path()).unwrap();
        let again = load_or_make(data.path()).unwrap();
        assert_eq!(made.public_key(), again.public_key());
        let mode = fs::metadata(data.path().join(NAME)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        fs::write(data.path().join(NAME), "nonsense").unwrap();
        assert!(load_or_make(data.path()).is_err());
    }
}
