//! A small root filesystem: a shell and a few tools of the host, as an image would bring them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS: [&str; 26] = [
    "cat", "chgrp", "chmod", "chown", "chroot", "cp", "env", "grep", "head", "id", "ln", "ls",
    "mkdir", "mkfifo", "mknod", "mv", "readlink", "rm", "rmdir", "sh", "sleep", "stat", "touch",
    "true", "tty", "uname",
];

/// Makes the image in an empty folder.
pub(crate) fn make(root: &Path) {
    for folder in ["bin", "etc", "home/app", "root", "var"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let mut libraries = BTreeSet::new();
    for tool in TOOLS {
        let program = find(tool);
        copy(&program, &root.join("bin").join(tool));
        let listed = Command::new("ldd").arg(&program).output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
        libraries.extend(paths.map(PathBuf::from));
    }
    for library in libraries {
        copy(&library, &root.join(library.strip_prefix("/").unwrap()));
    }
    let passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n";
    fs::write(root.join("etc/passwd"), passwd).unwrap();
    fs::write(root.join("etc/secret"), "of root\n").unwrap();
    mode(&root.join("etc/secret"), 0o600);
    std::os::unix::fs::chown(root.join("home/app"), Some(1000), Some(1000)).unwrap();
    symlink("bin/sh", root.join("link")).unwrap();
}

fn find(tool: &str) -> PathBuf {
    let folders = ["/bin", "/usr/bin", "/usr/sbin"];
    let mut found = folders.iter().map(|folder| Path::new(folder).join(tool));
    found.find(|path| path.exists()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(fs::canonicalize(from).unwrap(), to).unwrap();
}

pub(crate) fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
