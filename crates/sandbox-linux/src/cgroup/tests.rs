//! Decisions from text, and v2's files in a tree that only looks like the kernel's.

use std::fs;
use std::path::{Path, PathBuf};

use super::hierarchy::child_groups;
use super::lifecycle::parse_pids;
use super::parse::{Site, parse_memberships, parse_mounts, plan_sites};
use super::usage::find_field;
use super::*;

fn plan(mountinfo: &str, cgroup: &str, unified: &str) -> Vec<Site> {
    plan_sites(
        &parse_mounts(mountinfo),
        &parse_memberships(cgroup),
        unified,
    )
}

fn paths(list: &[&str]) -> Vec<PathBuf> {
    list.iter().map(PathBuf::from).collect()
}

const ALL_BUT_ACCOUNT: [Controller; 4] = [
    Controller::Memory,
    Controller::Cpu,
    Controller::Pids,
    Controller::Freezer,
];

#[test]
fn a_systemd_host_with_v2_only() {
    let sites = plan(
        "25 30 0:22 / /proc rw shared:12 - proc proc rw\n\
         29 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n",
        "cpuset cpu io memory hugetlb pids rdma misc\n",
    );
    assert_eq!(sites.len(), 1);
    let site = sites.first().unwrap();
    assert_eq!(site.version, Version::V2);
    assert_eq!(site.controllers, Controller::ALL);
    let top = "/sys/fs/cgroup";
    assert_eq!(
        site.candidates,
        paths(&[
            top,
            &format!("{top}/user.slice"),
            &format!("{top}/user.slice/user-1000.slice"),
            &format!("{top}/user.slice/user-1000.slice/user@1000.service"),
            &format!("{top}/user.slice/user-1000.slice/user@1000.service/app.slice"),
            &format!("{top}/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope"),
        ])
    );
}

const HYBRID_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

#[test]
fn a_hybrid_host_is_used_as_v1() {
    let cgroup = "8:pids:/\n6:freezer:/\n4:memory:/api/1\n2:cpuacct:/\n1:cpu:/\n0::/\n";
    let sites = plan(HYBRID_MOUNTS, cgroup, "");
    assert_eq!(sites.len(), 5);
    assert!(sites.iter().all(|site| site.version == Version::V1));
    let memory = sites
        .iter()
        .find(|site| site.controllers == [Controller::Memory])
        .unwrap();
    let top = "/sys/fs/cgroup/memory";
    assert_eq!(
        memory.candidates,
        paths(&[
            top,
            "/sys/fs/cgroup/memory/api",
            "/sys/fs/cgroup/memory/api/1"
        ])
    );
}

#[test]
fn what_v1_lacks_comes_from_v2() {
    let mounts: String = HYBRID_MOUNTS
        .lines()
        .filter(|line| !line.contains("freezer") && !line.contains("memory"))
        .map(|line| format!("{line}\n"))
        .collect();
    let sites = plan(&mounts, "0::/\n", "memory io\n");
    let last = sites.last().unwrap();
    assert_eq!(last.version, Version::V2);
    assert_eq!(last.controllers, [Controller::Memory, Controller::Freezer]);
}

#[test]
fn joint_v1_controllers_are_one_place() {
    let sites = plan(
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n",
        "4:cpu,cpuacct:/system.slice\n",
        "",
    );
    assert_eq!(sites.len(), 1);
    let site = sites.first().unwrap();
    assert_eq!(site.controllers, [Controller::Cpu, Controller::CpuAccount]);
    assert_eq!(
        site.candidates,
        paths(&[
            "/sys/fs/cgroup/cpu,cpuacct",
            "/sys/fs/cgroup/cpu,cpuacct/system.slice"
        ])
    );
}

#[test]
fn in_a_container_paths_are_seen_from_its_root() {
    let bound = "700 690 0:29 /docker/abc /sys/fs/cgroup/pids ro,nosuid master:11 - cgroup cgroup rw,pids\n";
    let candidates = |cgroup| plan(bound, cgroup, "").first().unwrap().candidates.clone();
    let top = "/sys/fs/cgroup/pids";
    assert_eq!(candidates("3:pids:/docker/abc\n"), paths(&[top]));
    assert_eq!(
        candidates("3:pids:/docker/abc/x\n"),
        paths(&[top, "/sys/fs/cgroup/pids/x"])
    );
    // A group that this mount does not show.
    assert_eq!(candidates("3:pids:/elsewhere\n"), paths(&[top]));
    let namespaced = "700 690 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
    let sites = plan(namespaced, "0::/../../other\n", "pids\n");
    assert_eq!(
        sites.first().unwrap().candidates,
        paths(&["/sys/fs/cgroup"])
    );
}

#[test]
fn a_host_without_cgroups_enforces_nothing_and_says_so() {
    assert_eq!(plan("25 30 0:22 / /proc rw - proc proc rw\n", "", ""), []);
    let hierarchy = Hierarchy::settle(&[], "holm");
    let limits = Limits {
        memory_bytes: Some(1 << 30),
        cpu_millis: Some(500),
        pids: None,
    };
    let group = hierarchy.create("a", &limits).unwrap();
    let reasons: Vec<_> = group
        .unenforced()
        .iter()
        .map(|it| (it.limit, it.reason.to_string()))
        .collect();
    let reason = "no mounted cgroup has the controller".to_owned();
    assert_eq!(
        reasons,
        [
            (LimitKind::Memory, reason.clone()),
            (LimitKind::Cpu, reason)
        ]
    );
    assert!(group.join_fds().unwrap().is_empty());
    assert!(group.clone_into_fd().unwrap().is_none());
    assert!(matches!(
        group.kill_all(),
        Err(CgroupError::Unsupported { .. })
    ));
    assert!(matches!(
        group.freeze(),
        Err(CgroupError::Unsupported { .. })
    ));
    group.remove().unwrap();
}

#[test]
fn escaped_and_broken_lines_do_no_harm() {
    let mounts = parse_mounts(
        "1 2 0:3 / /odd\\040place\\134x rw - cgroup cgroup rw,pids\nnonsense\n - cgroup\n\n1 2 3 - cgroup2\n",
    );
    assert_eq!(mounts.len(), 1);
    assert_eq!(
        mounts.first().unwrap().mount_point,
        Path::new("/odd place\\x")
    );
    assert_eq!(parse_memberships("junk\n1:x\n0::/a:b\n").len(), 1);
    assert_eq!(
        parse_pids("12\n0\n-4\nx\n7\n")
            .iter()
            .map(|pid| pid.as_raw_nonzero().get())
            .collect::<Vec<_>>(),
        [12, 7]
    );
    assert_eq!(find_field("oom 1\noom_kill 2\n", "oom_kill"), Some(2));
    assert_eq!(find_field("oom_kill\n", "oom_kill"), None);
}

proptest::proptest! {
    #[test]
    fn no_text_breaks_the_parsers(mountinfo in "[ -~\n]{0,200}", cgroup in "[a-z0-9:,/.\n]{0,80}", unified in "[a-z ]{0,30}") {
        let line = format!("1 2 0:3 {mountinfo} - cgroup cgroup rw,{cgroup}");
        plan(&mountinfo, &cgroup, &unified);
        plan(&line, &cgroup, &unified);
    }
}

#[test]
fn names_and_limits_are_checked() {
    let hierarchy = Hierarchy::settle(&[], "holm");
    let long = "n".repeat(129);
    for name in [
        "", ".", "..", "a/b", ".hidden", "a b", "a\n", "\u{e9}", &long,
    ] {
        let refused = hierarchy.create(name, &Limits::default());
        assert!(
            matches!(refused, Err(CgroupError::InvalidName { .. })),
            "{name:?}"
        );
    }
    let limits = Limits {
        cpu_millis: Some(9),
        ..Limits::default()
    };
    let error = hierarchy.create("a", &limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a limit of 9 is too small for cpu (at least 10)"
    );
}

/// A directory with the files that the kernel would show, for one v2 site.
struct FakeUnified {
    scratch: tempfile::TempDir,
}

impl FakeUnified {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let fake = Self { scratch };
        fake.fill("holm");
        fake.write("cgroup.subtree_control", "");
        fake
    }

    fn fill(&self, group: &str) {
        fs::create_dir_all(self.at(group)).unwrap();
        for (file, content) in [
            ("cgroup.subtree_control", ""),
            ("cgroup.procs", ""),
            ("cgroup.freeze", "0"),
            ("cgroup.kill", ""),
            ("cgroup.events", "populated 1\nfrozen 1\n"),
            ("memory.max", "max"),
            ("memory.swap.max", "max"),
            ("memory.current", "4096\n"),
            ("memory.peak", "8192\n"),
            ("memory.events", "low 0\noom 3\noom_kill 2\n"),
            ("memory.stat", "anon 3072\nfile 1024\n"),
            ("cpu.max", "max 100000"),
            ("cpu.stat", "usage_usec 77\nnr_throttled 5\n"),
            ("pids.max", "max"),
            ("pids.current", "3\n"),
        ] {
            self.write(&format!("{group}/{file}"), content);
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    fn write(&self, path: &str, content: &str) {
        fs::write(self.at(path), content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn hierarchy(&self) -> Hierarchy {
        let site = Site {
            version: Version::V2,
            controllers: Controller::ALL.to_vec(),
            candidates: vec![self.at("not-there"), self.scratch.path().to_path_buf()],
        };
        Hierarchy::settle(&[site], "holm")
    }
}

#[test]
fn v2_limits_are_written_to_their_files() {
    let fake = FakeUnified::new();
    fake.fill("holm/web-7");
    let hierarchy = fake.hierarchy();
    // The last of them; each was enabled on its own, above and in `holm`.
    assert_eq!(fake.read("cgroup.subtree_control"), "+pids");
    assert_eq!(fake.read("holm/cgroup.subtree_control"), "+pids");

    let mut group = hierarchy.open_existing("web-7").unwrap();
    let limits = Limits {
        memory_bytes: Some(512 << 20),
        cpu_millis: Some(1_500),
        pids: Some(64),
    };
    assert_eq!(group.update(&limits).unwrap(), []);
    assert_eq!(fake.read("holm/web-7/memory.max"), "536870912");
    assert_eq!(fake.read("holm/web-7/memory.swap.max"), "0");
    assert_eq!(fake.read("holm/web-7/cpu.max"), "150000 100000");
    assert_eq!(fake.read("holm/web-7/pids.max"), "64");

    assert_eq!(group.update(&Limits::default()).unwrap(), []);
    assert_eq!(fake.read("holm/web-7/memory.max"), "max");
    assert_eq!(fake.read("holm/web-7/memory.swap.max"), "max");
    assert_eq!(fake.read("holm/web-7/cpu.max"), "max 100000");
    assert_eq!(fake.read("holm/web-7/pids.max"), "max");
}

#[test]
fn v2_state_is_read_and_set() {
    let fake = FakeUnified::new();
    fake.fill("holm/web-7");
    let group = fake.hierarchy().open_existing("web-7").unwrap();
    assert_eq!(
        group.usage(),
        Usage {
            memory_bytes: Some(4_096),
            memory_cache_bytes: Some(1_024),
            memory_peak_bytes: Some(8_192),
            oom_kills: Some(2),
            pids: Some(3),
            cpu_usec: Some(77),
            cpu_throttled_periods: Some(5),
        }
    );
    group.freeze().unwrap();
    assert_eq!(fake.read("holm/web-7/cgroup.freeze"), "1");
    group.thaw().unwrap();
    assert_eq!(fake.read("holm/web-7/cgroup.freeze"), "0");
    group.kill_all().unwrap();
    assert!(group.join_fds().unwrap().is_empty());
    assert!(group.clone_into_fd().unwrap().is_some());
}

#[test]
fn v2_files_that_are_missing_are_reported_by_name() {
    let fake = FakeUnified::new();
    let limits = Limits {
        pids: Some(64),
        ..Limits::default()
    };
    // Only the kernel fills a new directory, so here every file is missing.
    let group = fake.hierarchy().create("bare", &limits).unwrap();
    let file = fake.at("holm/bare/pids.max");
    assert_eq!(
        group.unenforced(),
        [Unenforced {
            limit: LimitKind::Pids,
            reason: Reason::Refused { file, os_error: 2 },
        }]
    );
    let twice = fake.hierarchy().create("bare", &limits);
    assert!(matches!(twice, Err(CgroupError::AlreadyExists { .. })));
    assert_eq!(Vec::from_iter(fake.hierarchy().list().unwrap()), ["bare"]);
    // Somebody cleaned up: the parent is made again.
    let hierarchy = fake.hierarchy();
    fs::remove_dir_all(fake.at("holm")).unwrap();
    hierarchy.create("bare", &limits).unwrap();
    fs::create_dir_all(fake.at("holm/bare/inner/deep")).unwrap();
    group.remove().unwrap();
    group.remove().unwrap();
    assert_eq!(child_groups(&fake.at("holm")).unwrap(), paths(&[]));
    let missing = fake.hierarchy().open_existing("bare");
    assert!(matches!(missing, Err(CgroupError::NotFound { .. })));
}

#[test]
fn a_controller_that_is_not_handed_down_is_missing_with_its_reason() {
    let fake = FakeUnified::new();
    fs::remove_file(fake.at("holm/cgroup.subtree_control")).unwrap();
    let hierarchy = fake.hierarchy();
    let refused = Reason::Refused {
        file: fake.at("holm/cgroup.subtree_control"),
        os_error: 2,
    };
    for line in hierarchy.availability() {
        match line.controller {
            Controller::Memory | Controller::Cpu | Controller::Pids => {
                assert_eq!(line.place, Err(refused.clone()));
            }
            Controller::CpuAccount | Controller::Freezer => {
                assert_eq!(line.place, Ok((Version::V2, fake.at("holm"))));
            }
        }
    }
}

#[test]
fn a_place_that_may_not_be_written_to_is_told() {
    let site = Site {
        version: Version::V2,
        controllers: ALL_BUT_ACCOUNT.to_vec(),
        candidates: paths(&["/proc/self/no-such-place"]),
    };
    let hierarchy = Hierarchy::settle(&[site], "holm");
    let limits = Limits {
        pids: Some(1),
        ..Limits::default()
    };
    let group = hierarchy.create("a", &limits).unwrap();
    assert_eq!(
        group.unenforced(),
        [Unenforced {
            limit: LimitKind::Pids,
            reason: Reason::NotPermitted,
        }]
    );
}
