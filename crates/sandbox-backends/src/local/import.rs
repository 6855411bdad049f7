//! The pack of a sandbox, on its way into the user's repository.
//!
//! It is indexed and checked in a place of its own first, because a pack that git refuses half-way
//! stays where it was, as a temporary file that nobody removes.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};

use holm_sandbox::Result;

use super::checkout::{at, remove_tree};
use super::git::GitCommand;
use super::harvest::{Home, check};
use super::private_git::quoted_paths;

impl Home<'_> {
    /// Copies the commits that lead from `base` to `tip` into the user's repository.
    pub(crate) fn import(&self, tip: &str, base: &str) -> Result<()> {
        let path = self.remains.directory.join("harvest.pack");
        let mut pack = File::create(&path).map_err(at("make", &path))?;
        self.inside.pack(tip, base, &mut pack)?;
        drop(pack);
        let quarantine = self.make_quarantine()?;
        let checked = self.check_in_quarantine(&path, tip, &quarantine);
        remove_tree(&quarantine)?;
        checked?;
        self.index(&path, self.git())?;
        fs::remove_file(&path).map_err(at("remove", &path))
    }

    fn check_in_quarantine(&self, pack: &Path, tip: &str, quarantine: &Path) -> Result<()> {
        let git = || {
            self.git().env("GIT_OBJECT_DIRECTORY", quarantine).env(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                quoted_paths(&self.repository.object_dirs),
            )
        };
        self.index(pack, git())?;
        // The pack may be whole in itself and still lack what its commits name.
        git()
            .args(["rev-list", "--objects", "--quiet", tip, "--not", "--all"])
            .run("check that the sandbox's commits are complete")?;
        Ok(())
    }

    /// Git on the repository itself: in a folder of the work tree, `index-pack` does not find it.
    fn git(&self) -> GitCommand {
        self.repository
            .git(&self.remains.runtime.config)
            .env("GIT_DIR", &self.repository.common_dir)
    }

    fn index(&self, pack: &Path, git: GitCommand) -> Result<()> {
        let doing = "take over the sandbox's commits";
        let pack = File::open(pack).map_err(at("open", pack))?;
        let indexed = git
            .args(["index-pack", "--stdin", "--fix-thin", "--strict"])
            .output_with(doing, Some(pack))?;
        check(indexed, doing)
    }

    /// A folder that whoever git runs as can write to. A killed harvest is repeated with the same name.
    fn make_quarantine(&self) -> Result<PathBuf> {
        let path = match self.repository.git_user {
            None => self.remains.directory.join("incoming"),
            Some(_) => {
                let mut name = self.remains.record.work_dir.clone().into_os_string();
                name.push("-incoming");
                name.into()
            }
        };
        remove_tree(&path)?;
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(at("make folder", &path))?;
        if let Some(owner) = self.repository.git_user {
            lchown(&path, Some(owner.uid), Some(owner.gid)).map_err(at("give away", &path))?;
        }
        Ok(path)
    }
}
