//! A root file system with a shell and a few tools of the host, for tests of images.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// There is `sh` and no `bash`, as in many small images.
const TOOLS: [&str; 11] = [
    "cat", "chown", "grep", "id", "ls", "mkdir", "mkfifo", "rm", "sh", "sleep", "stat",
];

/// Makes the tree in a folder that does not exist yet. Its users are root and `app`; `/etc/tiny` says `an image`.
pub fn tiny_root(root: &Path) {
    for below in ["bin", "etc", "root", "home/app", "tmp"] {
        fs::create_dir_all(root.join(below)).unwrap();
    }
    let copy = |from: &Path, to: PathBuf| {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(fs::canonicalize(from).unwrap(), to).unwrap();
    };
    let mut libraries = BTreeSet::new();
    for tool in TOOLS {
        let places = ["/bin", "/usr/bin"].map(|place| Path::new(place).join(tool));
        let program = places.iter().find(|path| path.exists()).unwrap();
        copy(program, root.join("bin").join(tool));
        let listed = Command::new("ldd").arg(program).output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
        libraries.extend(paths.map(PathBuf::from));
    }
    for library in libraries {
        copy(&library, root.join(library.strip_prefix("/").unwrap()));
    }
    let passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n";
    fs::write(root.join("etc/passwd"), passwd).unwrap();
    fs::write(root.join("etc/tiny"), "an image\n").unwrap();
}

/// The same as an archive.
pub fn tiny_root_archive() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    tiny_root(folder.path());
    let made = Command::new("tar")
        .args(["--owner=0", "--group=0", "--numeric-owner", "-C"])
        .arg(folder.path())
        .args(["-cf", "-", "."])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    made.stdout
}
