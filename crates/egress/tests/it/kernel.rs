//! A box as it is: a network namespace that has loopback only, with a listener in it that is
//! accepted from outside.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use holm_egress::{Limits, Rules, proxy_environment};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::world::World;
use crate::world::origin::Origin;

/// Listens inside, hands the listener out over standard input, and tries both ways to the origin.
const INSIDE: &str = "
import array, os, socket, subprocess, sys, urllib.request
subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
listener = socket.create_server(('127.0.0.1', 3128))
channel = socket.socket(fileno=os.dup(0))
socket.send_fds(channel, [b'l'], [listener.fileno()])
listener.close()
assert channel.recv(1) == b'g'
try:
    socket.create_connection(('127.0.0.1', int(sys.argv[2])), timeout=5)
    print('reached directly')
except OSError:
    print('not reached directly')
print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())
";

fn receive(channel: &UnixStream) -> OwnedFd {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    recvmsg(channel, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            return descriptors.next().unwrap();
        }
    }
    panic!("no listener came");
}

#[tokio::test]
async fn a_namespace_without_a_way_out_has_one_through_the_gateway() {
    let can_unshare = Command::new("unshare").args(["-rn", "true"]).output();
    if !can_unshare.is_ok_and(|output| output.status.success()) {
        println!("skipped: this host allows no network namespaces");
        return;
    }
    let origin = Origin::http().await;
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["-rn", "python3", "-c", INSIDE]);
    inside.arg(format!("http://{}/hello", origin.at("api.test")));
    inside.arg(origin.port().to_string());
    inside.envs(proxy_environment(3128));
    inside.stdin(Stdio::from(OwnedFd::from(theirs)));
    inside.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = inside.spawn().unwrap();
    drop(inside);

    let descriptor = tokio::task::spawn_blocking(move || (receive(&ours), ours));
    let (descriptor, ours) = descriptor.await.unwrap();
    let listener = TcpListener::from(descriptor);
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let rules = Rules::permit_loopback_for_tests(Vec::new());
    let world = World::behind(listener, rules, Limits::default());
    world.allow("", "api.test");
    std::io::Write::write_all(&mut &ours, b"g").unwrap();

    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("not reached directly\nGET /hello HTTP/1.1\n"),
        "{said}{complaints}"
    );
    assert_eq!(world.handle.counters().requests, 1);
}
