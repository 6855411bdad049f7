//! Tables of what machines say, and what that means.

use super::*;

#[track_caller]
fn check(found: &Check, verdict: Verdict, fix: Option<&str>) {
    assert_eq!(
        (found.verdict, found.fix.as_deref()),
        (verdict, fix),
        "{found:?}"
    );
}

#[test]
fn kernels() {
    for (release, verdict) in [
        (Some("6.18.44-fc"), Verdict::Good),
        (Some("5.12.0"), Verdict::Good),
        (Some("5.11.9"), Verdict::Limited),
        (Some("5.4.0-100-generic"), Verdict::Missing),
        (Some("unheard of"), Verdict::Good),
        (None, Verdict::Missing),
    ] {
        assert_eq!(kernel(release).verdict, verdict, "{release:?}");
    }
}

#[test]
fn switches_for_namespaces_name_their_command() {
    let facts = |clone, max, apparmor| NamespaceFacts {
        unprivileged_clone: clone,
        count_max: max,
        apparmor_restricts: apparmor,
    };
    let user = UserKind::Ordinary;
    check(
        &namespaces(&facts(None, Some(9), None), user),
        Verdict::Good,
        None,
    );
    check(
        &namespaces(&facts(Some(0), Some(9), None), user),
        Verdict::Missing,
        Some("sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    );
    check(
        &namespaces(&facts(Some(0), Some(9), Some(1)), UserKind::Root),
        Verdict::Good,
        None,
    );
    check(
        &namespaces(&facts(None, Some(0), None), UserKind::Root),
        Verdict::Missing,
        Some("sysctl -w user.max_user_namespaces=15000"),
    );
    check(
        &namespaces(&facts(Some(1), Some(9), Some(1)), user),
        Verdict::Limited,
        Some("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    );
    check(
        &namespaces(&facts(None, None, None), user),
        Verdict::Missing,
        Some("use a kernel with CONFIG_USER_NS"),
    );
}

#[test]
fn overlay_is_a_whole_word() {
    let user = UserKind::Root;
    check(
        &overlay(Some("nodev\tproc\nnodev\toverlay"), user),
        Verdict::Good,
        None,
    );
    check(
        &overlay(Some("nodev\toverlayish"), user),
        Verdict::Missing,
        Some("modprobe overlay"),
    );
}

#[test]
fn programs_may_be_missing_or_old() {
    let user = UserKind::Ordinary;
    check(&git(Some("2.39.5"), user), Verdict::Good, None);
    check(
        &git(Some("2.25.1"), user),
        Verdict::Limited,
        Some("sudo apt-get install git"),
    );
    check(
        &git(None, user),
        Verdict::Limited,
        Some("sudo apt-get install git"),
    );
    check(
        &bubblewrap(None, UserKind::Root),
        Verdict::Limited,
        Some("apt-get install bubblewrap"),
    );
}

#[test]
fn limits_are_named_with_their_version() {
    let held = |controller, version| Availability {
        controller,
        place: Ok((version, "/sys/fs/cgroup/holm".into())),
    };
    let all = [
        held(Controller::Memory, Version::V1),
        held(Controller::Cpu, Version::V1),
        held(Controller::Pids, Version::V1),
    ];
    assert_eq!(
        limits(&all, UserKind::Root).detail,
        "memory, cpu and pids (cgroup v1)"
    );
    let some = [
        held(Controller::Memory, Version::V2),
        Availability {
            controller: Controller::Cpu,
            place: Err(Reason::NotPermitted),
        },
    ];
    let found = limits(&some, UserKind::Ordinary);
    assert_eq!(found.verdict, Verdict::Limited);
    assert_eq!(
        found.detail,
        "cpu cannot be limited: not permitted to make cgroups"
    );
    // Root's boxes share a user namespace, which counts all of them together.
    assert_eq!(
        limits(&some, UserKind::Root).detail,
        "cpu and pids cannot be limited: not permitted to make cgroups"
    );
}

#[test]
fn data_folder_is_shown_with_its_room() {
    let facts = |refusal: Option<&str>, free_bytes| DataDirFacts {
        path: Ok("/data".into()),
        refusal: refusal.map(str::to_owned),
        filesystem: Some("xfs"),
        free_bytes: Some(free_bytes),
    };
    assert_eq!(
        data_dir(&facts(None, 5 << 30)).detail,
        "/data (xfs, 5.0 GiB free)"
    );
    assert_eq!(data_dir(&facts(None, 5 << 20)).verdict, Verdict::Limited);
    assert_eq!(
        data_dir(&facts(Some("Permission denied (os error 13)"), 5 << 30)).detail,
        "/data: Permission denied (os error 13)"
    );
}

#[test]
fn the_proof_does_not_send_back_to_the_doctor() {
    let hint = Some("`holm doctor` shows more".to_owned());
    assert_eq!(proof_failed("no".to_owned(), hint).fix, None);
}
