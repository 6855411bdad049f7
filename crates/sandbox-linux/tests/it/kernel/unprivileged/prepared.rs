//! Boxes made ahead of time.

use holm_sandbox_linux::{
    BoxSpec, Durability, Engine, Limits, LinuxBox, Network, PreparedSpec, Profile,
};

use crate::support::{
    TestFolder, command, open_descriptors, probed, remove_group, run_in, spec, wait_until,
};

/// The mount table without the numbers that every mount gets anew.
fn mounts(inner: &LinuxBox) -> Vec<String> {
    let table = run_in(inner, &command(&["cat", "/proc/self/mountinfo"]), None).success();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        // Device numbers and the layers' descriptors differ between any two boxes.
        let options: Vec<&str> = fields[fields.len() - 1]
            .split(',')
            .filter(|part| !part.contains("/proc/self/fd/"))
            .collect();
        format!(
            "{} {} {} {}",
            fields[3],
            fields[4],
            fields[5],
            options.join(",")
        )
    };
    let mut lines: Vec<String> = table.lines().map(line).collect();
    // The kernel lists mounts by their age, which is another for those made ahead of time.
    lines.sort_unstable();
    lines
}

fn facts(inner: &LinuxBox) -> String {
    let script = "id; hostname; pwd; ls -la /dev / | grep -v total | tr -s ' ' | cut -d' ' -f1,3,4,9-; \
                  grep -E 'Cap|Seccomp|NoNew' /proc/self/status; ls /proc/self/ns; ulimit -a";
    run_in(inner, &command(&["sh", "-c", script]), None).success()
}

#[test]
fn a_prepared_box_is_like_any_other() {
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    for profile in [Profile::Strict, Profile::Nested] {
        let folder = directory.path().join(format!("{profile:?}"));
        std::fs::create_dir(&folder).unwrap();
        let mut spec = spec(&engine, &folder);
        spec.profile = profile;
        probed(&mut spec);
        let cold = engine.create(&spec).unwrap();

        let mut second = spec.clone();
        second.id.push_str("-second");
        second.directory = folder.join("second");
        std::fs::create_dir(&second.directory).unwrap();
        let prepared = engine.prepare(PreparedSpec::from(&second)).unwrap();
        let warm = engine.claim(prepared, &second).unwrap();

        assert_eq!(mounts(&warm), mounts(&cold));
        assert_eq!(facts(&warm), facts(&cold));
        assert_eq!(warm.id(), second.id);
        run_in(&warm, &command(&["touch", "/home/holm/made"]), None).success();
        assert!(second.directory.join("root-upper/home/holm/made").exists());
        warm.stop().unwrap();
        cold.stop().unwrap();
    }
}

#[test]
fn what_does_not_fit_is_made_anew() {
    type Change = fn(&mut BoxSpec);
    let changes: [(&str, Change); 5] = [
        ("profile", |spec| spec.profile = Profile::Nested),
        ("network", |spec| spec.network = Network::Host),
        ("durability", |spec| spec.durability = Durability::Durable),
        ("id", |spec| spec.id.push_str("-other")),
        ("directory", |spec| {
            spec.directory = spec.directory.with_file_name("other");
            std::fs::create_dir(&spec.directory).unwrap();
        }),
    ];
    for (name, change) in changes {
        let engine = Engine::start().unwrap();
        let directory = TestFolder::new();
        let mut spec = spec(&engine, directory.path());
        let prepared = engine.prepare(PreparedSpec::from(&spec)).unwrap();
        // A volatile layer that was mounted once cannot be mounted again: use another.
        if name != "directory" {
            spec.directory = directory.path().join("fresh");
            std::fs::create_dir(&spec.directory).unwrap();
        }
        change(&mut spec);
        let inner = engine.claim(prepared, &spec).unwrap();
        let script = "touch ~/made; grep ^Seccomp: /proc/self/status";
        run_in(&inner, &command(&["sh", "-c", script]), None).success();
        assert!(
            spec.directory.join("root-upper/home/holm/made").exists(),
            "{name}"
        );
        assert_eq!(inner.id(), spec.id, "{name}");
        inner.stop().unwrap();
    }
}

#[test]
fn prepared_boxes_that_nobody_wants_are_gone() {
    let engine = Engine::start().unwrap();
    let directory = TestFolder::new();
    let mut spec = spec(&engine, directory.path());
    spec.limits = Limits::default();
    let before = open_descriptors();
    engine.discard(engine.prepare(PreparedSpec::from(&spec)).unwrap());
    spec.directory = directory.path().join("second");
    std::fs::create_dir(&spec.directory).unwrap();
    drop(engine.prepare(PreparedSpec::from(&spec)).unwrap());
    assert_eq!(open_descriptors(), before);
    wait_until("the spawner has no child", || {
        let children = crate::support::processes_with("holm: box");
        children
            .iter()
            .filter(|pid| is_child_of_ours(**pid))
            .count()
            == 1
    });
    remove_group(&engine, &spec.id);
}

/// Whether a process is our spawner, or was made by it.
fn is_child_of_ours(pid: u32) -> bool {
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?
            .1
            .split_ascii_whitespace()
            .nth(1)?
            .parse()
            .ok()
    };
    let own = std::process::id();
    let first = parent(pid);
    first == Some(own) || first.and_then(parent) == Some(own)
}
