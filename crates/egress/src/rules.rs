//! What no sandbox's policy can change: the server's own places, and whether loopback is reachable
//! because a test runs.

use std::net::{IpAddr, SocketAddr};

use crate::address::canonical;
use crate::policy::Place;

#[derive(Debug, Clone)]
pub struct Rules {
    own: Vec<SocketAddr>,
    loopback: Loopback,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loopback {
    Refused,
    PermittedForTests,
}

impl Rules {
    /// `own` is where the server listens. An unspecified address (`0.0.0.0:3986`) means every
    /// address of this machine, and port 0 every port of the address.
    pub fn new(own: Vec<SocketAddr>) -> Self {
        Self {
            own,
            loopback: Loopback::Refused,
        }
    }

    /// Lets sandboxes reach the loopback of the machine, where databases, agents and this server
    /// listen without a password. Only for tests, whose origins are there.
    pub fn permit_loopback_for_tests(own: Vec<SocketAddr>) -> Self {
        Self {
            own,
            loopback: Loopback::PermittedForTests,
        }
    }

    pub(crate) fn permits_loopback(&self) -> bool {
        self.loopback == Loopback::PermittedForTests
    }

    pub(crate) fn is_own(&self, destination: SocketAddr, place: Place) -> bool {
        self.own.iter().any(|own| {
            let is_address = match own.ip() {
                address if address.is_unspecified() => place == Place::ThisHost,
                address => same(address, destination.ip()),
            };
            is_address && (own.port() == 0 || own.port() == destination.port())
        })
    }
}

fn same(left: IpAddr, right: IpAddr) -> bool {
    canonical(left) == canonical(right)
}
