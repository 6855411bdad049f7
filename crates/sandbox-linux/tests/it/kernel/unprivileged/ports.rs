//! Ports of a box, used from the host.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use holm_sandbox_linux::{EngineError, Job};
use rustix::event::{PollFd, PollFlags};

use crate::support::{TestBox, probe_command, probed, read_until, start_piped, wait_until};

/// A box in which somebody answers at `address`, and the port.
fn echoing(address: &str) -> (TestBox, Job, u16) {
    let sandbox = TestBox::with(probed);
    let (job, _stdout, stderr) = start_piped(&sandbox.inner, &probe_command("echo_tcp", address));
    let said = read_until(&stderr, "\n");
    let port = said.trim().parse().unwrap_or_else(|_| panic!("{said}"));
    (sandbox, job, port)
}

fn stream(socket: OwnedFd) -> TcpStream {
    let flags = rustix::fs::fcntl_getfl(&socket).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false).unwrap();
    stream
}

fn converse(socket: OwnedFd) {
    let mut stream = stream(socket);
    stream.write_all(b"hello").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "hello");
}

#[test]
fn a_service_of_the_box_is_reached_from_the_host() {
    let (sandbox, _job, port) = echoing("127.0.0.1:0");
    converse(sandbox.inner.connect(port).unwrap());
    converse(sandbox.inner.connect(port).unwrap());
    assert_eq!(sandbox.inner.listening_ports().unwrap(), [port]);
    // The port is the box's, not the host's.
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_service_on_the_other_loopback_is_reached_too() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: no IPv6");
        return;
    }
    let (sandbox, _job, port) = echoing("[::1]:0");
    converse(sandbox.inner.connect(port).unwrap());
    assert_eq!(sandbox.inner.listening_ports().unwrap(), [port]);
}

#[test]
fn a_port_where_nothing_listens_is_told_by_name() {
    let sandbox = TestBox::new();
    let error = sandbox.inner.connect(9).unwrap_err();
    assert!(
        matches!(error, EngineError::NothingListens { port: 9, .. }),
        "{error:?}"
    );
    assert!(sandbox.inner.listening_ports().unwrap().is_empty());
}

#[test]
fn a_service_that_never_accepts_holds_up_its_caller_and_nobody_else() {
    let sandbox = TestBox::with(probed);
    let (_job, _stdout, stderr) = start_piped(&sandbox.inner, &probe_command("deaf_tcp", ""));
    let said = read_until(&stderr, "\n");
    let port = said.trim().parse().unwrap_or_else(|_| panic!("{said}"));
    let started = Instant::now();
    std::thread::scope(|scope| {
        // Its backlog is one; the third or fourth caller waits in vain.
        let callers = [(); 5].map(|()| scope.spawn(|| sandbox.inner.connect(port).map(drop)));
        wait_until("somebody waits", || {
            callers.iter().any(|caller| !caller.is_finished())
        });
        // Meanwhile the box does what it is told.
        let asked = Instant::now();
        assert_eq!(sandbox.sh("echo busy").success(), "busy\n");
        assert!(asked.elapsed() < Duration::from_secs(3));
        let outcomes = callers.map(|caller| caller.join().unwrap());
        let timed_out = |outcome: &Result<(), EngineError>| match outcome {
            Err(EngineError::Control { source, .. }) => {
                source.kind() == std::io::ErrorKind::TimedOut
            }
            _ => false,
        };
        assert!(outcomes.iter().any(timed_out), "{outcomes:?}");
    });
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_service_of_the_host_is_offered_inside_one_box_only() {
    let (sandbox, other) = (TestBox::with(probed), TestBox::with(probed));
    let socket = sandbox.inner.bind(0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    assert!(address.ip().is_loopback());
    // Nobody has called yet, and nobody is waited for.
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
    let text = sandbox.probe("connect_tcp", &address.to_string());
    assert_eq!(text, "connect: done\n");
    let mut waited = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
    rustix::event::poll(&mut waited, None).unwrap();
    listener.accept().unwrap();
    let refused = other.probe("connect_tcp", &address.to_string());
    assert!(refused.contains("Connection refused"), "{refused}");
    // A port that is taken is an error, and free again afterwards.
    assert!(sandbox.inner.bind(address.port()).is_err());
    drop(listener);
    sandbox.inner.bind(address.port()).unwrap();
}
