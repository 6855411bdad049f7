//! The order in which a box on an image is made, without making one.

use crate::image::ImageBase;
use crate::plan_tests::{check_order, lines, spec, steps};
use crate::power::Power;
use crate::spec::{Base, BoxSpec, Network};

fn image_spec() -> BoxSpec {
    let mut spec = spec();
    spec.base = Base::Image(ImageBase {
        system_layer: "/base/image".into(),
        layers: vec!["/images/b".into(), "/images/a".into()],
    });
    spec.layers = vec!["/saved/1".into()];
    spec
}

#[test]
fn the_order_on_an_image() {
    insta::assert_snapshot!(lines(&image_spec(), Power::Root), @r"
    private mounts
    root at /boxes/b/mnt: /saved/1 <- /base/image through #0 <- /images/b through #0 <- /images/a through #0 <- volatile /boxes/b/root-upper, trusted marks, folders for 1879048192:1879048192
    mount /proc: proc
    mask /proc/keys
    mask /proc/sched_debug
    mask /proc/timer_list
    mount /tmp: tmpfs 1777 for 1879048192:1879048192
    mount /run: tmpfs 755 for 1879048192:1879048192
    mount /dev: tmpfs 755 with devices for 1879048192:1879048192
    device /dev/full
    device /dev/null
    device /dev/random
    device /dev/tty
    device /dev/urandom
    device /dev/zero
    mount /dev/pts: devpts for 1879049192:1879049192
    folder /dev/shm 1777 for 1879048192:1879048192
    link /dev/ptmx -> pts/ptmx
    link /dev/fd -> /proc/self/fd
    link /dev/stdin -> /proc/self/fd/0
    link /dev/stdout -> /proc/self/fd/1
    link /dev/stderr -> /proc/self/fd/2
    loopback up
    low ports for everybody
    host name holm
    enter root
    join control groups [0, 1]
    new cgroup namespace
    attach /work <- #1
    attach /shared <- #2
    enter user namespace #0
    become 0:0 without groups
    keep capabilities [Kill, SetGid, SetUid, DacReadSearch, SysPtrace, Chown], for root's commands [Chown, DacOverride, Fowner, Fsetid, Kill, NetBindService, SetFcap, SetGid, SetPcap, SetUid, SysChroot]
    no new privileges
    hide init
    die with spawner
    seccomp Strict
    ");
}

#[test]
fn on_the_hosts_network_ports_are_the_hosts() {
    let mut spec = image_spec();
    spec.network = Network::Host;
    let lines = lines(&spec, Power::Root);
    assert!(!lines.contains("low ports"), "{lines}");
    assert!(!lines.contains("loopback"), "{lines}");
}

#[test]
fn the_order_holds_on_an_image_too() {
    check_order(&steps(&image_spec(), Power::Root), Power::Root);
}
