//! The order in which a box is made, without making one.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::account::Account;
use crate::base::{HostBase, ShownToolchain};
use crate::cgroup::Limits;
use crate::ids::{HOST_ID_BASE, IdRange};
use crate::plan::{BasePlan, Descriptors, base_steps, final_steps, join_steps};
use crate::power::{Power, clone_flags, owner_translation};
use crate::recorder::Recorder;
use crate::spec::{Base, BoxSpec, Lifetime, MountSpec, Network, Owners, Profile};
use crate::step::{Access, Durability, Step, UpperLayer};

const USER: Power = Power::User { uid: 501, gid: 20 };

pub(crate) fn spec() -> BoxSpec {
    let path = PathBuf::from;
    BoxSpec {
        id: "b".into(),
        directory: path("/boxes/b"),
        base: Base::Host(HostBase {
            root_layer: path("/base/root"),
            etc_layer: path("/base/etc"),
            empty_layer: path("/base/empty"),
            system: vec![path("/usr"), path("/lib64")],
            optional: vec![path("/opt")],
            toolchains: vec![ShownToolchain {
                path: path("/home/a/.cargo/bin"),
                variable: None,
            }],
            ids: IdRange::FIRST,
            account: Account::holm(),
        }),
        layers: Vec::new(),
        mounts: vec![
            MountSpec::Overlay {
                place: path("/work"),
                lower: vec![path("/cache/commit")],
                upper: UpperLayer {
                    upper: path("/boxes/b/up"),
                    work: path("/boxes/b/wk"),
                },
            },
            MountSpec::Bind {
                source: path("/home/a/shared"),
                place: path("/shared"),
                access: Access::ReadWrite,
                owners: Owners::BoxUserIs { uid: 501, gid: 20 },
            },
        ],
        profile: Profile::Strict,
        network: Network::None,
        limits: Limits::default(),
        lifetime: Lifetime::WithCreator,
        durability: Durability::Volatile,
        ids: IdRange::FIRST,
        hostname: None,
    }
}

/// All steps of one box, those of the base first.
pub(crate) fn steps(spec: &BoxSpec, power: Power) -> Vec<Step> {
    let (tasks, descriptors, processes_max) = match power {
        Power::Root => {
            let made = Descriptors {
                user_namespace: Some(0),
                mounts: vec![1, 2],
            };
            (vec![0, 1], made, None)
        }
        Power::User { .. } => (Vec::new(), Descriptors::default(), Some(256)),
    };
    let mut steps = base_steps(&BasePlan {
        directory: &spec.directory,
        base: &spec.base,
        layers: &spec.layers,
        power,
        ids: spec.ids,
        profile: spec.profile,
        network: spec.network,
        durability: spec.durability,
    });
    steps.extend(join_steps(&tasks));
    steps.extend(final_steps(spec, power, &descriptors, processes_max).unwrap());
    steps
}

pub(crate) fn lines(spec: &BoxSpec, power: Power) -> String {
    Recorder::play(&steps(spec, power)).join("\n")
}

/// What another specification changes, as `-` and `+` lines.
fn difference(power: Power, change: impl FnOnce(&mut BoxSpec)) -> String {
    let mut changed = spec();
    change(&mut changed);
    let (before, after) = (lines(&spec(), power), lines(&changed, power));
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let gone = before
        .iter()
        .filter(|line| !after.contains(line))
        .map(|line| format!("- {line}"));
    let new = after
        .iter()
        .filter(|line| !before.contains(line))
        .map(|line| format!("+ {line}"));
    gone.chain(new).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_order_as_root() {
    insta::assert_snapshot!(lines(&spec(), Power::Root), @r"
    private mounts
    root at /boxes/b/mnt: /base/root <- volatile /boxes/b/root-upper, trusted marks
    bind /usr <- /usr ro
    bind /lib64 <- /lib64 ro
    overlay /etc: /base/etc <- /etc <- read-only, trusted marks
    overlay /opt: /base/empty <- /opt <- read-only, trusted marks
    bind /home/a/.cargo/bin <- /home/a/.cargo/bin ro
    mount /proc: proc
    mask /proc/keys
    mask /proc/sched_debug
    mask /proc/timer_list
    mount /tmp: tmpfs 1777
    mount /run: tmpfs 1777
    mount /dev: tmpfs 755 with devices
    device /dev/full
    device /dev/null
    device /dev/random
    device /dev/tty
    device /dev/urandom
    device /dev/zero
    mount /dev/pts: devpts for 1879049192:1879049192
    folder /dev/shm 1777
    link /dev/ptmx -> pts/ptmx
    link /dev/fd -> /proc/self/fd
    link /dev/stdin -> /proc/self/fd/0
    link /dev/stdout -> /proc/self/fd/1
    link /dev/stderr -> /proc/self/fd/2
    loopback up
    host name holm
    enter root
    join control groups [0, 1]
    new cgroup namespace
    attach /work <- #1
    attach /shared <- #2
    enter user namespace #0
    become 0:0 without groups
    keep capabilities [Kill, SetGid, SetUid, DacReadSearch, SysPtrace]
    no new privileges
    hide init
    die with spawner
    seccomp Strict
    ");
}

#[test]
fn the_order_as_an_ordinary_user() {
    insta::assert_snapshot!(lines(&spec(), USER), @r"
    private mounts
    root at /boxes/b/mnt: /base/root <- volatile /boxes/b/root-upper, user marks
    bind /usr <- /usr ro
    bind /lib64 <- /lib64 ro
    overlay /etc: /base/etc <- /etc <- read-only, user marks
    overlay /opt: /base/empty <- /opt <- read-only, user marks
    bind /home/a/.cargo/bin <- /home/a/.cargo/bin ro
    mount /proc: proc
    mask /proc/keys
    mask /proc/sched_debug
    mask /proc/timer_list
    mount /tmp: tmpfs 1777
    mount /run: tmpfs 1777
    mount /dev: tmpfs 755 with devices
    device /dev/full
    device /dev/null
    device /dev/random
    device /dev/tty
    device /dev/urandom
    device /dev/zero
    mount /dev/pts: devpts
    folder /dev/shm 1777
    link /dev/ptmx -> pts/ptmx
    link /dev/fd -> /proc/self/fd
    link /dev/stdin -> /proc/self/fd/0
    link /dev/stdout -> /proc/self/fd/1
    link /dev/stderr -> /proc/self/fd/2
    loopback up
    host name holm
    new cgroup namespace
    overlay /work: /cache/commit <- volatile /boxes/b/up, user marks
    bind /shared <- /home/a/shared rw
    enter root
    become 1000:1000 with its groups
    limit processes to 256
    keep capabilities []
    no new privileges
    hide init
    die with spawner
    seccomp Strict
    ");
}

#[test]
fn the_nested_profile_leaves_proc_whole() {
    insta::assert_snapshot!(difference(Power::Root, |spec| spec.profile = Profile::Nested), @r"
    - mask /proc/keys
    - mask /proc/sched_debug
    - mask /proc/timer_list
    - seccomp Strict
    + seccomp Nested
    ");
    insta::assert_snapshot!(difference(USER, |spec| spec.profile = Profile::Nested), @r"
    - mask /proc/keys
    - mask /proc/sched_debug
    - mask /proc/timer_list
    - seccomp Strict
    + seccomp Nested
    ");
}

#[test]
fn the_hosts_network_needs_no_loopback() {
    insta::assert_snapshot!(difference(Power::Root, |spec| spec.network = Network::Host), @r"
    - loopback up
    ");
    let new_network = u64::from(libc::CLONE_NEWNET.unsigned_abs());
    for power in [Power::Root, USER] {
        assert_eq!(clone_flags(power, Network::Host) & new_network, 0);
        assert_eq!(clone_flags(power, Network::None) & new_network, new_network);
    }
}

#[test]
fn a_box_that_stays_is_not_tied_to_its_creator() {
    let stay = |spec: &mut BoxSpec| spec.lifetime = Lifetime::UntilStopped;
    insta::assert_snapshot!(difference(Power::Root, stay), @r"
    - die with spawner
    ");
}

#[test]
fn a_durable_box_changes_its_writable_layers_only() {
    let durable = |spec: &mut BoxSpec| spec.durability = Durability::Durable;
    insta::assert_snapshot!(difference(USER, durable), @r"
    - root at /boxes/b/mnt: /base/root <- volatile /boxes/b/root-upper, user marks
    - overlay /work: /cache/commit <- volatile /boxes/b/up, user marks
    + root at /boxes/b/mnt: /base/root <- durable /boxes/b/root-upper, user marks
    + overlay /work: /cache/commit <- durable /boxes/b/up, user marks
    ");
}

#[test]
fn another_range_changes_only_who_owns_the_terminals() {
    let seven = |spec: &mut BoxSpec| spec.ids = IdRange::new(7).unwrap();
    insta::assert_snapshot!(difference(Power::Root, seven), @r"
    - mount /dev/pts: devpts for 1879049192:1879049192
    + mount /dev/pts: devpts for 1879507944:1879507944
    ");
    let maps = Power::Root.user_namespace(IdRange::new(7).unwrap());
    assert_eq!(maps.uids, maps.gids);
    assert_eq!(maps.uids[0].outside, HOST_ID_BASE + 7 * 65_536);
}

#[test]
fn a_name_of_its_own_comes_with_the_files_that_say_it() {
    let named = |spec: &mut BoxSpec| spec.hostname = Some("web-1".into());
    insta::assert_snapshot!(difference(USER, named), @r"
    + host name web-1
    + bind /etc/hosts <- /boxes/b/names/hosts ro
    + bind /etc/hostname <- /boxes/b/names/hostname ro
    ");
    let mut spec = spec();
    spec.hostname = Some("a\nb".into());
    assert!(final_steps(&spec, USER, &Descriptors::default(), None).is_err());
}

#[test]
fn saved_boxes_lie_between_the_base_and_the_box() {
    let saved = |spec: &mut BoxSpec| spec.layers = vec!["/saved/2".into(), "/saved/1".into()];
    insta::assert_snapshot!(difference(USER, saved), @r"
    - root at /boxes/b/mnt: /base/root <- volatile /boxes/b/root-upper, user marks
    + root at /boxes/b/mnt: /saved/2 <- /saved/1 <- /base/root <- volatile /boxes/b/root-upper, user marks
    ");
}

#[test]
fn namespaces_are_all_new() {
    let all = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let all = u64::from((all | libc::CLONE_NEWNET).unsigned_abs());
    let user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    // Root enters its user namespace last, so that mounts and network are not the box's own.
    assert_eq!(clone_flags(Power::Root, Network::None), all);
    assert_eq!(clone_flags(USER, Network::None), all | user);
}

/// What every plan must keep, whatever it is for.
pub(crate) fn check_order(steps: &[Step], power: Power) {
    let position = |is_it: fn(&Step) -> bool| steps.iter().position(is_it);
    let last = |is_it: fn(&Step) -> bool| steps.iter().rposition(is_it);
    let at = |is_it: fn(&Step) -> bool| {
        assert_eq!(steps.iter().filter(|step| is_it(step)).count(), 1);
        position(is_it).unwrap()
    };
    let names_host_path = |step: &Step| {
        matches!(
            step,
            Step::MountRoot { .. }
                | Step::MountOverlay { .. }
                | Step::BindMount { .. }
                | Step::Mask { .. }
        )
    };
    let is_mount = |step: &Step| {
        matches!(
            step,
            Step::MountRoot { .. }
                | Step::MountOverlay { .. }
                | Step::BindMount { .. }
                | Step::Mount { .. }
                | Step::AttachMount { .. }
                | Step::Mask { .. }
                | Step::MakeDirectory { .. }
                | Step::Symlink { .. }
        )
    };
    let enter_root = at(|step| matches!(step, Step::EnterRoot));
    let become_user = at(|step| matches!(step, Step::BecomeUser { .. }));
    let capabilities = at(|step| matches!(step, Step::KeepCapabilities { .. }));
    let no_new_privileges = at(|step| matches!(step, Step::NoNewPrivileges));
    let hide = at(|step| matches!(step, Step::HideFromBox));
    let seccomp = at(|step| matches!(step, Step::InstallSeccomp { .. }));

    assert_eq!(at(|step| matches!(step, Step::MakeMountsPrivate)), 0);
    // The host's tree is looked at before it is forgotten, and nothing is mounted without power.
    assert!(last(names_host_path).unwrap() < enter_root);
    assert!(last(is_mount).unwrap() < become_user);
    assert!(enter_root < become_user);
    let user_namespace = position(|step| matches!(step, Step::EnterUserNamespace { .. }));
    match power {
        Power::Root => {
            let user_namespace = user_namespace.unwrap();
            assert!(enter_root < user_namespace && user_namespace < become_user);
            assert!(last(is_mount).unwrap() < user_namespace);
        }
        Power::User { .. } => assert_eq!(user_namespace, None),
    }
    // Capabilities end after the ids, and what both would reset comes after both.
    assert!(become_user < capabilities);
    assert!(capabilities < no_new_privileges && no_new_privileges < seccomp);
    assert!(capabilities < hide && hide < seccomp);
    if let Some(die) = position(|step| matches!(step, Step::DieWithSpawner)) {
        assert!(capabilities < die && die < seccomp);
    }
    assert_eq!(seccomp, steps.len() - 1);
    // The box counts against its limits before anything of it can run, and sees its own groups only.
    let join = position(|step| matches!(step, Step::JoinControlGroups { .. }));
    let cgroups = at(|step| matches!(step, Step::NewCgroupNamespace));
    assert!(join.is_none_or(|join| join < cgroups));
    assert!(cgroups < become_user);
}

proptest! {
    #[test]
    fn the_order_holds_for_every_box(
        as_root in any::<bool>(),
        nested in any::<bool>(),
        host_network in any::<bool>(),
        stays in any::<bool>(),
        names in proptest::collection::vec("[a-z]{1,8}", 0..5),
    ) {
        let power = if as_root { Power::Root } else { USER };
        let mut spec = spec();
        spec.profile = if nested { Profile::Nested } else { Profile::Strict };
        spec.network = if host_network { Network::Host } else { Network::None };
        spec.lifetime = if stays { Lifetime::UntilStopped } else { Lifetime::WithCreator };
        spec.mounts.truncate(if nested { 1 } else { 2 });
        // More mounts than descriptors: those without one are made by init itself, as for a user.
        if let Power::User { .. } = power {
            spec.mounts.extend(names.iter().map(|name| bind(&format!("/srv/{name}"))));
        }
        check_order(&steps(&spec, power), power);
    }
}

fn bind(place: &str) -> MountSpec {
    MountSpec::Bind {
        source: "/somewhere".into(),
        place: place.into(),
        access: Access::ReadOnly,
        owners: Owners::AsOnHost,
    }
}

#[test]
fn what_keeps_a_box_a_box_cannot_be_mounted_over() {
    let refused = [
        "/",
        "//",
        "/.",
        "/dev",
        "/dev/null",
        "/etc",
        "/etc/passwd",
        "/./etc",
        "/proc",
        "/proc/1",
        "/sys",
        "/usr",
        "/usr/bin/env",
        "/bin",
        "/bin/sh",
        "/sbin/init",
        "/lib/x",
        "/lib64/ld.so",
        "/lib32/x",
        "relative",
        "",
        "/a/../etc",
        "/..",
        "/a/b/..",
        "/nul\0byte",
    ];
    for power in [Power::Root, USER] {
        for place in refused {
            let mut spec = spec();
            spec.mounts = vec![bind(place)];
            let planned = final_steps(&spec, power, &Descriptors::default(), None);
            assert!(planned.is_err(), "`{place}` was accepted");
        }
        for place in [
            "/work",
            "/home/holm",
            "/tmp/x",
            "/usrlocal",
            "/opt/tool",
            "/var/lib/x",
            "/..x",
        ] {
            let mut spec = spec();
            spec.mounts = vec![bind(place)];
            final_steps(&spec, power, &Descriptors::default(), None).unwrap();
        }
    }
}

#[test]
fn only_roots_boxes_translate_owners() {
    let maps = owner_translation(Power::Root, IdRange::FIRST, 501, 20).unwrap();
    let ids = |map: &[crate::spawner::IdMap]| {
        map.iter()
            .map(|map| (map.inside, map.outside, map.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&maps.uids), [(501, HOST_ID_BASE + 1000, 1)]);
    assert_eq!(ids(&maps.gids), [(20, HOST_ID_BASE + 1000, 1)]);
    assert_eq!(owner_translation(USER, IdRange::FIRST, 501, 20), None);
}

#[test]
fn every_step_says_what_it_could_not_do() {
    for power in [Power::Root, USER] {
        for step in steps(&spec(), power) {
            let text = step.describe();
            assert!(!text.is_empty() && !text.starts_with("could not"), "{text}");
            assert!(!text.ends_with('.') && text.chars().next().is_some_and(char::is_lowercase));
        }
    }
    let step = Step::BindMount {
        source: "/a".into(),
        place: Path::new("/b").into(),
        access: Access::ReadOnly,
        devices: crate::step::Devices::Hidden,
        owners: None,
    };
    assert_eq!(step.describe(), "show `/a` at `/b` in the box");
}
