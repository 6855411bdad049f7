//! Sandboxes inside a box.

use std::path::Path;

use holm_sandbox_linux::{Exit, Profile};

use crate::support::TestBox;

const BWRAP: &str = "bwrap --ro-bind / / --proc /proc --dev /dev --unshare-all \
                     sh -c 'echo /proc/[0-9]*'";

fn nested() -> TestBox {
    TestBox::with(|spec| spec.profile = Profile::Nested)
}

fn has_bwrap() -> bool {
    let found = Path::new("/usr/bin/bwrap").exists();
    if !found {
        eprintln!("skipped: this host has no bubblewrap");
    }
    found
}

#[test]
fn bubblewrap_works_in_the_nested_profile() {
    if has_bwrap() {
        assert_eq!(nested().sh(BWRAP).success(), "/proc/1 /proc/2\n");
    }
}

#[test]
fn bubblewrap_fails_in_the_strict_profile() {
    if has_bwrap() {
        let output = TestBox::new().sh(BWRAP);
        assert_eq!(output.exit, Exit::Code(1), "{output:?}");
        assert!(
            output
                .stderr
                .contains("No permissions to create new namespace"),
            "{output:?}"
        );
    }
}

#[test]
fn a_namespace_inside_gives_no_power_over_the_box() {
    let sandbox = nested();
    // Root of a user namespace of one's own, with a mount namespace: the box's read-only stays.
    let script = "unshare --user --map-root-user --mount sh -c 'id -u; \
        for p in /usr /etc /proc; do umount $p 2>/dev/null && echo unmounted $p; \
        mount -o remount,rw,bind $p 2>/dev/null && touch $p/holm-was-here 2>/dev/null && echo wrote $p; done; \
        mknod ~/disk b 254 0 2>/dev/null && cat ~/disk >/dev/null && echo read disk; \
        echo 1 2>/dev/null > /proc/sys/kernel/sysrq && echo wrote sysctl; \
        cat /proc/1/environ /proc/kcore 2>/dev/null | head -c1; \
        mount -t tmpfs none /tmp && echo own mount'; ls /tmp | wc -l";
    assert_eq!(sandbox.sh(script).stdout, "0\nown mount\n0\n");
}
