//! A box that works against us while we work, in a tight loop.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

const ROUNDS: u32 = 3_000;

/// After so many rounds that all went the same way, the swapping itself must be broken.
const ROUNDS_MAX: u32 = 3_000_000;

/// Does `work` while another thread does `nuisance` over and over.
fn while_repeating(nuisance: impl Fn() + Sync, work: impl FnOnce()) {
    /// Stops the other thread also when `work` panics; else the scope would wait for ever.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stopped.load(Ordering::Relaxed) {
                nuisance();
            }
        });
        let _stop = Stop(&stopped);
        work();
    });
}

/// `tree/target` is, from moment to moment, a directory of the tree or a symlink to `outside`.
struct Swapped {
    scratch: tempfile::TempDir,
    dir: ConfinedDir,
}

impl Swapped {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        fs::create_dir_all(at("outside/sub")).unwrap();
        fs::write(at("outside/file"), "outside").unwrap();
        fs::write(at("outside/sub/file"), "outside").unwrap();
        fs::create_dir_all(at("tree/target/sub")).unwrap();
        fs::write(at("tree/target/file"), "inside").unwrap();
        symlink(at("outside"), at("tree/link")).unwrap();
        let dir = ConfinedDir::open(&at("tree")).unwrap();
        Self { scratch, dir }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    /// Runs `work` many times while another thread swaps directory and link, and goes on until
    /// it has met both: a busy machine may run thousands of rounds between two swaps.
    fn race(&self, mut work: impl FnMut(&ConfinedDir, u32, &mut Tally)) {
        let (target, link) = (self.at("tree/target"), self.at("tree/link"));
        let swap = || {
            let _ = renameat_with(CWD, &target, CWD, &link, RenameFlags::EXCHANGE);
        };
        while_repeating(swap, || {
            let mut tally = Tally::default();
            let mut round = 0;
            while round < ROUNDS || !tally.raced() {
                assert!(round < ROUNDS_MAX, "{tally:?}");
                work(&self.dir, round, &mut tally);
                round += 1;
            }
        });
        self.assert_outside_untouched();
    }

    /// A refresh puts the host's directory in the link's place, and then there is no race any more.
    fn plant_link_again(&self) {
        let (target, link) = (self.at("tree/target"), self.at("tree/link"));
        if !target.is_symlink() && !link.is_symlink() {
            drop(fs::remove_dir_all(&link));
            drop(symlink(self.at("outside"), &link));
        }
    }

    fn assert_outside_untouched(&self) {
        let mut names: Vec<_> = fs::read_dir(self.at("outside"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["file", "sub"]);
        assert_eq!(fs::read(self.at("outside/file")).unwrap(), b"outside");
        assert_eq!(fs::read(self.at("outside/sub/file")).unwrap(), b"outside");
        assert_eq!(fs::read_dir(self.at("outside/sub")).unwrap().count(), 1);
    }
}

/// How the rounds of a race went.
#[derive(Debug, Default)]
struct Tally {
    worked: u32,
    refused: u32,
}

impl Tally {
    fn count<T>(&mut self, outcome: &Result<T, FilesError>) {
        match outcome {
            Ok(_) => self.worked += 1,
            Err(_) => self.refused += 1,
        }
    }

    fn raced(&self) -> bool {
        self.worked > 0 && self.refused > 0
    }
}

#[test]
fn reads_never_return_outside_content() {
    let swapped = Swapped::new();
    swapped.race(|dir, _, tally| {
        let outcome = dir.read(Path::new("target/file"), 100);
        tally.count(&outcome);
        if let Ok(content) = outcome {
            assert_eq!(content, b"inside");
        }
    });
}

#[test]
fn writes_never_land_outside() {
    let swapped = Swapped::new();
    swapped.race(|dir, round, tally| {
        let path = PathBuf::from(format!("target/new{}/deep/file", round % 50));
        let outcome = dir.write_atomic(&path, b"box", WriteOptions::default());
        tally.count(&outcome);
        tally.count(&dir.write_atomic(Path::new("target/file"), b"box", WriteOptions::default()));
        tally.count(&dir.create_dir_all(Path::new("target/made/below")));
    });
}

#[test]
fn deletes_never_reach_outside() {
    let swapped = Swapped::new();
    swapped.race(|dir, _, tally| {
        drop(dir.write_atomic(
            Path::new("target/sub/file"),
            b"box",
            WriteOptions::default(),
        ));
        tally.count(&dir.delete_file(Path::new("target/sub/file")));
        tally.count(&dir.remove_tree(Path::new("target/sub")));
    });
}

#[test]
fn listings_never_show_outside() {
    let swapped = Swapped::new();
    fs::write(swapped.at("tree/target/mark"), "").unwrap();
    swapped.race(|dir, _, tally| {
        let outcome = dir.list(Path::new("target"));
        tally.count(&outcome);
        if let Ok(entries) = outcome {
            assert!(entries.iter().any(|entry| entry.name == "mark"));
        }
    });
}

#[test]
fn a_whole_tree_is_removed_beside_the_swapping() {
    let swapped = Swapped::new();
    let outside = swapped.at("outside");
    swapped.race(|dir, round, tally| {
        tally.count(&dir.metadata(Path::new("target/file")));
        if round >= ROUNDS || round % 100 != 0 {
            return;
        }
        // The same names, once as directories and once as links outwards.
        for index in 0..20 {
            let path = swapped.at(&format!("tree/bulk/{index}"));
            fs::create_dir_all(path.join("x/y")).unwrap();
            symlink(&outside, path.join("out")).unwrap();
        }
        dir.remove_tree(Path::new("bulk")).unwrap();
    });
}

#[test]
fn removal_survives_directories_that_move_about() {
    let swapped = Swapped::new();
    let (from, to) = (swapped.at("tree/bulk/a/b"), swapped.at("tree/kept"));
    let move_about = || {
        drop(fs::rename(&from, &to));
        drop(fs::rename(&to, &from));
    };
    while_repeating(move_about, || {
        for _ in 0..300 {
            drop(fs::create_dir_all(swapped.at("tree/bulk/a/b/c/d")));
            drop(fs::write(swapped.at("tree/bulk/a/b/c/d/file"), ""));
            drop(swapped.dir.remove_tree(Path::new("bulk")));
        }
    });
    swapped.assert_outside_untouched();
    assert!(swapped.at("tree/target/file").exists());
}

#[test]
fn exports_and_refreshes_stay_inside_beside_the_swapping() {
    let swapped = Swapped::new();
    let source = swapped.at("source");
    fs::create_dir_all(source.join("target/sub")).unwrap();
    fs::write(source.join("target/sub/file"), "host").unwrap();
    fs::write(source.join("target/file"), "host").unwrap();
    let limits = CopyLimits::default();
    let out = swapped.at("out");
    swapped.race(|dir, round, tally| {
        tally.count(&dir.metadata(Path::new("target/file")));
        if round >= ROUNDS || round % 10 != 0 {
            return;
        }
        drop(dir.copy_tree_in(&source, Path::new(""), limits));
        swapped.plant_link_again();
        if dir.copy_tree_out(Path::new(""), &out, limits).is_ok() {
            for entry in [
                "target/file",
                "link/file",
                "target/sub/file",
                "link/sub/file",
            ] {
                if let Ok(content) = fs::read(out.join(entry)) {
                    assert_ne!(content, b"outside", "{entry}");
                }
            }
            fs::remove_dir_all(&out).unwrap();
        }
    });
}

#[test]
fn a_hard_link_to_an_outside_file_is_broken_and_not_written_to() {
    let swapped = Swapped::new();
    let linked = swapped.at("tree/hard");
    fs::hard_link(swapped.at("outside/file"), &linked).unwrap();
    let options = WriteOptions::default();
    let path = Path::new("hard");
    swapped.dir.write_atomic(path, b"box", options).unwrap();
    assert_eq!(fs::read(&linked).unwrap(), b"box");
    swapped.assert_outside_untouched();
}

#[test]
fn concurrent_writers_leave_one_content_whole() {
    let swapped = Swapped::new();
    let contents: Vec<Vec<u8>> = (b'a'..b'e').map(|byte| vec![byte; 50_000]).collect();
    let path = Path::new("contended");
    let options = WriteOptions::default();
    let dir = &swapped.dir;
    dir.write_atomic(path, &[b'a'; 50_000], options).unwrap();
    thread::scope(|scope| {
        for content in &contents {
            scope.spawn(move || {
                for _ in 0..200 {
                    dir.write_atomic(path, content, options).unwrap();
                }
            });
        }
        for _ in 0..500 {
            let content = dir.read(path, 100_000).unwrap();
            assert!(contents.contains(&content), "torn: {} bytes", content.len());
        }
    });
    let left = dir.list(Path::new("")).unwrap();
    assert!(
        left.iter()
            .all(|entry| !entry.name.to_string_lossy().starts_with(".holm-"))
    );
}

#[test]
fn a_box_that_steals_the_temporary_file_gains_nothing() {
    let swapped = Swapped::new();
    let (tree, outside) = (swapped.at("tree/busy"), swapped.at("outside/file"));
    fs::create_dir(&tree).unwrap();
    let steal = || {
        for entry in fs::read_dir(&tree).unwrap().flatten() {
            if entry.file_name() != "file" {
                drop(fs::remove_file(entry.path()));
                drop(symlink(&outside, entry.path()));
            }
        }
    };
    while_repeating(steal, || {
        for _ in 0..ROUNDS {
            let path = Path::new("busy/file");
            let options = WriteOptions::default();
            drop(swapped.dir.write_atomic(path, b"box", options));
        }
    });
    swapped.assert_outside_untouched();
}

#[test]
fn moves_modes_and_pipes_never_land_outside() {
    let swapped = Swapped::new();
    fs::write(swapped.at("tree/mine"), "box").unwrap();
    let mode = || fs::metadata(swapped.at("outside/file")).unwrap().mode();
    let before = (mode(), fs::metadata(swapped.at("outside")).unwrap().mode());
    swapped.race(|dir, round, tally| {
        let at = |name: &str| PathBuf::from(format!("target/{name}{}", round % 20));
        tally.count(&dir.make_fifo(&at("fifo"), 0o666));
        tally.count(&dir.create_dir(&at("directory"), 0o777));
        tally.count(&dir.set_mode(Path::new("target/file"), 0o600));
        tally.count(&dir.set_mode(Path::new("target"), 0o755));
        let (inside, below) = (Path::new("mine"), Path::new("target/moved"));
        tally.count(&dir.rename(inside, below, Replace::Existing));
        tally.count(&dir.rename(below, inside, Replace::Never));
    });
    let after = (mode(), fs::metadata(swapped.at("outside")).unwrap().mode());
    assert_eq!(before, after);
}

#[test]
fn walks_never_tell_of_outside() {
    let swapped = Swapped::new();
    fs::write(swapped.at("outside/only-outside"), "").unwrap();
    fs::write(swapped.at("tree/target/sub/mark"), "").unwrap();
    let limits = WalkLimits {
        entries_max: 1_000,
        depth_max: 10,
    };
    let (target, link) = (swapped.at("tree/target"), swapped.at("tree/link"));
    let swap = || {
        let _ = renameat_with(CWD, &target, CWD, &link, RenameFlags::EXCHANGE);
    };
    while_repeating(swap, || {
        let (mut finished, mut marked) = (0, 0);
        let mut round = 0;
        while round < ROUNDS || marked == 0 {
            assert!(round < ROUNDS_MAX, "{finished} {marked}");
            round += 1;
            let mut is_whole = true;
            for entry in swapped.dir.walk(Path::new(""), limits).unwrap() {
                let Ok(entry) = entry else {
                    is_whole = false;
                    continue;
                };
                assert!(
                    !entry.path.ends_with("only-outside") && entry.path.components().count() < 4,
                    "{entry:?}"
                );
                marked += u32::from(entry.path.ends_with("mark"));
            }
            finished += u32::from(is_whole);
        }
        assert!(finished > 0);
    });
    fs::remove_file(swapped.at("outside/only-outside")).unwrap();
    swapped.assert_outside_untouched();
}

#[test]
fn a_pipe_that_is_swapped_for_a_link_opens_nothing_else() {
    let swapped = Swapped::new();
    let (fifo, link) = (swapped.at("tree/fifo"), swapped.at("tree/other"));
    swapped.dir.make_fifo(Path::new("fifo"), 0o600).unwrap();
    symlink(swapped.at("outside/file"), &link).unwrap();
    let swap = || {
        let _ = renameat_with(CWD, &fifo, CWD, &link, RenameFlags::EXCHANGE);
    };
    while_repeating(swap, || {
        let mut tally = Tally::default();
        let mut round = 0;
        while round < ROUNDS || !tally.raced() {
            assert!(round < ROUNDS_MAX, "{tally:?}");
            round += 1;
            let outcome = swapped.dir.open_fifo(Path::new("fifo"));
            tally.count(&outcome);
            match outcome {
                Ok(opened) => {
                    let found = rustix::fs::fstat(&opened).unwrap();
                    assert_eq!(kind_of(&found), FileType::Fifo);
                }
                Err(FilesError::NotAFifo { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    });
    swapped.assert_outside_untouched();
}

#[test]
fn a_directory_that_moves_away_during_a_walk_ends_it_at_worst() {
    let swapped = Swapped::new();
    fs::create_dir_all(swapped.at("tree/deep/a/b/c/d")).unwrap();
    let (from, to) = (swapped.at("tree/deep/a/b"), swapped.at("outside/moved"));
    let move_about = || {
        drop(fs::rename(&from, &to));
        drop(fs::rename(&to, &from));
    };
    let limits = WalkLimits {
        entries_max: 1_000,
        depth_max: 10,
    };
    while_repeating(move_about, || {
        for _ in 0..ROUNDS {
            for entry in swapped.dir.walk(Path::new(""), limits).unwrap() {
                match entry {
                    // The file of the folder outside is never told as one of the tree.
                    Ok(entry) => assert!(
                        !entry.path.starts_with("deep") || !entry.path.ends_with("file"),
                        "{entry:?}"
                    ),
                    Err(FilesError::Unsettled { .. } | FilesError::NotFound { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    });
    drop(fs::rename(&to, &from));
    swapped.assert_outside_untouched();
}
