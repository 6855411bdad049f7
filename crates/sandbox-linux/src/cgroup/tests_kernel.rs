//! The real kernel's groups. Without the right to make any, each test says that it was skipped.

mod kernel {
    use std::fs;
    use std::io::{BufRead, BufReader, Read};
    use std::os::fd::AsFd;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::Pid;

    use super::super::*;

    /// A parent group of its own for each test, so that none sees another's boxes.
    struct Real {
        hierarchy: Hierarchy,
    }

    impl Real {
        /// `None`, with a line, when this host does not let us limit memory and pids.
        fn new(test: &str) -> Option<Self> {
            let parent = format!("holm-test-{}-{test}", std::process::id());
            let hierarchy = Hierarchy::detect_under(&parent).unwrap();
            let real = Self { hierarchy };
            let missing: Vec<_> = real
                .hierarchy
                .availability()
                .into_iter()
                .filter_map(|line| Some((line.controller, line.place.err()?)))
                .collect();
            if missing.is_empty() {
                return Some(real);
            }
            eprintln!("skipped: this host's cgroups lack {missing:?}");
            None
        }

        fn create(&self, limits: Limits) -> BoxGroup {
            let group = self.hierarchy.create("box", &limits).unwrap();
            assert_eq!(group.unenforced(), []);
            group
        }
    }

    impl Drop for Real {
        fn drop(&mut self) {
            if let Ok(group) = self.hierarchy.open_existing("box") {
                drop(group.kill_all());
                drop(group.remove());
            }
            self.hierarchy.remove_parent();
        }
    }

    /// Starts a shell that waits for a line, attaches it, and lets it run `script`.
    ///
    /// The address space is bounded as well, should a group not hold what is tested.
    fn start(group: &BoxGroup, script: &str) -> Child {
        let script = format!("ulimit -v 4000000; read -r line; {script}");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        group.attach(Pid::from_child(&child)).unwrap();
        drop(child.stdin.take());
        child
    }

    fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(started.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::yield_now();
        }
    }

    fn output(child: &mut Child) -> String {
        let mut text = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_memory_hog_is_killed_at_the_limit_and_only_it() {
        let Some(real) = Real::new("memory") else {
            return;
        };
        let group = real.create(Limits {
            memory_bytes: Some(48 << 20),
            ..Limits::default()
        });
        let mut child = start(
            &group,
            "sleep 100 & tail /dev/zero; echo $?; kill -0 $! && echo alive; kill $!",
        );
        // 137: killed by signal 9.
        assert_eq!(output(&mut child), "137\nalive\n");
        child.wait().unwrap();
        let usage = group.usage();
        assert_eq!(usage.oom_kills, Some(1));
        let peak = usage.memory_peak_bytes.unwrap();
        assert!((40 << 20..=48 << 20).contains(&peak), "{peak}");
    }

    #[test]
    fn forks_stop_at_the_limit() {
        let Some(real) = Real::new("pids") else {
            return;
        };
        let group = real.create(Limits {
            pids: Some(8),
            ..Limits::default()
        });
        let mut child = start(
            &group,
            "for i in 1 2 3 4 5 6 7 8 9; do sleep 100 & echo $i; done",
        );
        let stdout = child.stdout.take().unwrap();
        // The sleepers hold the pipe open, so it is read line by line until the shell has ended.
        let status = child.wait().unwrap();
        assert!(!status.success());
        let lines: Vec<_> = BufReader::new(stdout)
            .lines()
            .take(7)
            .map(Result::unwrap)
            .collect();
        assert_eq!(lines.last().map(String::as_str), Some("7"));
        assert_eq!(group.usage().pids, Some(7));
        group.kill_all().unwrap();
        assert!(group.pids().unwrap().is_empty());
    }

    #[test]
    fn a_busy_box_is_throttled() {
        let Some(real) = Real::new("cpu") else {
            return;
        };
        let mut group = real.create(Limits {
            cpu_millis: Some(100),
            ..Limits::default()
        });
        let mut child = start(&group, "while :; do :; done");
        wait_for("throttled periods", || {
            group.usage().cpu_throttled_periods >= Some(5)
        });
        assert!(group.usage().cpu_usec >= Some(10_000));
        assert_eq!(group.update(&Limits::default()).unwrap(), []);
        group.kill_all().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_frozen_box_uses_no_time_until_it_is_thawed() {
        let Some(real) = Real::new("freeze") else {
            return;
        };
        let group = real.create(Limits::default());
        let mut child = start(&group, "while :; do :; done");
        wait_for("use of time", || group.usage().cpu_usec > Some(1_000));
        group.freeze().unwrap();
        let before = group.usage().cpu_usec;
        let started = Instant::now();
        wait_for("some time", || {
            started.elapsed() > Duration::from_millis(50)
        });
        assert_eq!(group.usage().cpu_usec, before);
        group.thaw().unwrap();
        wait_for("use of time", || group.usage().cpu_usec > before);
        // Also a frozen one is killed.
        group.freeze().unwrap();
        group.kill_all().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn killing_outruns_a_box_that_keeps_forking() {
        let Some(real) = Real::new("kill") else {
            return;
        };
        let group = real.create(Limits {
            pids: Some(200),
            ..Limits::default()
        });
        let mut child = start(
            &group,
            "f() { while :; do sleep 0.01 & sleep 0.001; done; }; f & f & f & f",
        );
        wait_for("many processes", || group.usage().pids > Some(5));
        group.kill_all().unwrap();
        assert!(group.pids().unwrap().is_empty());
        child.wait().unwrap();
        group.remove().unwrap();
        group.remove().unwrap();
        assert!(real.hierarchy.list().unwrap().is_empty());
    }

    #[test]
    fn a_group_is_found_again_and_cannot_be_made_twice() {
        let Some(real) = Real::new("again") else {
            return;
        };
        let mut group = real.create(Limits {
            memory_bytes: Some(64 << 20),
            ..Limits::default()
        });
        let twice = real.hierarchy.create("box", &Limits::default());
        assert!(matches!(twice, Err(CgroupError::AlreadyExists { .. })));
        // Up, down and away, with swap in step.
        for bytes in [Some(256 << 20), Some(32 << 20), None] {
            let limits = Limits {
                memory_bytes: bytes,
                ..Limits::default()
            };
            assert_eq!(group.update(&limits).unwrap(), [], "{bytes:?}");
        }
        assert_eq!(Vec::from_iter(real.hierarchy.list().unwrap()), ["box"]);
        let again = real.hierarchy.open_existing("box").unwrap();
        // Inner groups, as a box with a group namespace of its own may make them.
        for dir in &again.dirs {
            fs::create_dir_all(dir.path.join("inner/deep")).unwrap();
        }
        again.remove().unwrap();
        assert!(real.hierarchy.open_existing("box").is_err());
    }

    #[test]
    fn a_used_group_is_not_removed_in_silence() {
        let Some(real) = Real::new("used") else {
            return;
        };
        let group = real.create(Limits::default());
        let mut child = start(&group, "sleep 100");
        assert!(matches!(group.remove(), Err(CgroupError::TimedOut { .. })));
        group.kill_all().unwrap();
        child.wait().unwrap();
    }

    /// The way in that a box takes: this thread joins by itself, and what it starts is born inside.
    #[test]
    fn a_thread_joins_by_writing_to_the_opened_files() {
        let Some(real) = Real::new("join") else {
            return;
        };
        let group = real.create(Limits::default());
        let fds = group.join_fds().unwrap();
        if fds.is_empty() {
            eprintln!("skipped: this host has v2 only, where a process is born into its group");
            return;
        }
        let joined = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                    join_via_fds(&fds).unwrap();
                    fs::read_to_string("/proc/thread-self/cgroup").unwrap()
                })
                .join()
                .unwrap()
        });
        let inside = joined
            .lines()
            .filter(|line| line.ends_with("-join/box"))
            .count();
        assert_eq!(inside, fds.len(), "{joined}");
    }
}
