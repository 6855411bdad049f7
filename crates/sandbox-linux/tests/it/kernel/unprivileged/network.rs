//! What a box can reach.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use holm_sandbox_linux::{BoxSpec, Network};

use crate::support::{TestBox, probed, token};

fn with_network(network: Network) -> impl FnOnce(&mut BoxSpec) {
    move |spec| {
        probed(spec);
        spec.network = network;
    }
}

#[test]
fn without_network_only_the_boxs_own_loopback_answers() {
    let sandbox = TestBox::with(probed);
    let text = sandbox.probe("loopback", "");
    // The second line depends on whether the host's kernel has IPv6 at all.
    let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
    assert!(text.starts_with("127.0.0.1:0: done\n"), "{text}");
    assert!(!has_ipv6 || text.contains("[::1]:0: done\n"), "{text}");
    let devices: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("device"))
        .collect();
    assert_eq!(devices, ["device lo"]);
}

#[test]
fn the_hosts_loopback_is_reached_with_the_hosts_network_only() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let alone = TestBox::with(probed);
    assert_eq!(
        alone.probe("connect_tcp", &address),
        "connect: Connection refused (os error 111)\n"
    );
    let sharing = TestBox::with(with_network(Network::Host));
    assert_eq!(sharing.probe("connect_tcp", &address), "connect: done\n");
}

#[test]
fn abstract_sockets_of_the_host_are_out_of_reach() {
    let name = token();
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    let alone = TestBox::with(probed);
    assert_eq!(
        alone.probe("connect_abstract", &name),
        "connect: Connection refused (os error 111)\n"
    );
    let sharing = TestBox::with(with_network(Network::Host));
    assert_eq!(sharing.probe("connect_abstract", &name), "connect: done\n");
    drop(listener);
}

#[test]
fn sockets_among_the_hosts_temporary_files_are_out_of_reach() {
    for network in [Network::None, Network::Host] {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let path = folder.path().join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let sandbox = TestBox::with(with_network(network));
        let text = sandbox.probe("connect_unix", path.to_str().unwrap());
        assert_eq!(text, "connect: No such file or directory (os error 2)\n");
        drop(listener);
    }
}

#[test]
fn names_are_resolved_where_there_is_a_network() {
    let sandbox = TestBox::new();
    assert_eq!(
        sandbox.sh("cat /etc/resolv.conf").success(),
        "# This box has no network.\n"
    );
    assert_eq!(
        sandbox.sh("cat /etc/hosts").success(),
        "127.0.0.1 localhost holm\n::1 localhost ip6-localhost\n"
    );
}
