//! Addresses that tests do not take from each other.

use std::net::Ipv4Addr;

/// An address of loopback that no other test process has. A server that ends and comes back at the same port needs it: on an address
/// that all have in common, another test's server may have the port meanwhile, and gets what was meant for this one.
pub fn own_loopback() -> Ipv4Addr {
    let [high, middle, low, lowest] = std::process::id().to_be_bytes();
    // 127.0.0.0/16 is everybody's, and the last part is neither 0 nor 255.
    let second = 128 | (high ^ middle) | (lowest & 1) << 6;
    Ipv4Addr::new(127, second, low, (lowest >> 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_loopback_and_can_be_listened_at() {
        let address = own_loopback();
        assert!(address.is_loopback() && address != Ipv4Addr::LOCALHOST);
        std::net::TcpListener::bind((address, 0)).unwrap();
    }
}
