//! What kind of place an IP address is.
//!
//! **Invariant:** an IPv6 address that carries an IPv4 address is judged by the address that it
//! carries, or refused. No spelling of an address is milder than another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How much must be said in a policy for an address to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reached unless a list restricts.
    Public,
    /// Somebody's own network. Reached only when `networkAllowList` names it.
    Private,
    /// Never reached.
    Forbidden(&'static str),
    /// Never reached, except where tests run.
    Loopback,
}

/// Brings `::ffff:a.b.c.d`, which the kernel connects as IPv4, into its IPv4 form.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
    }
}

pub(crate) fn kind(address: IpAddr) -> Kind {
    match canonical(address) {
        IpAddr::V4(four) => kind_of_four(four),
        IpAddr::V6(six) => kind_of_six(six),
    }
}

fn kind_of_four(address: Ipv4Addr) -> Kind {
    match address.octets() {
        [0, ..] => Kind::Forbidden("an unspecified address"),
        [127, ..] => Kind::Loopback,
        [169, 254, ..] => {
            Kind::Forbidden("a link-local address, where clouds keep their credentials")
        }
        [224..=239, ..] => Kind::Forbidden("a multicast address"),
        [240..=255, ..] => Kind::Forbidden("a broadcast or reserved address"),
        // RFC 1918; carrier-grade NAT; protocol assignments; 6to4 relays; benchmarks.
        [10, ..]
        | [172, 16..=31, ..]
        | [192, 168, ..]
        | [100, 64..=127, ..]
        | [192, 0, 0, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..] => Kind::Private,
        _ => Kind::Public,
    }
}

fn kind_of_six(address: Ipv6Addr) -> Kind {
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Loopback,
        [0, 0, 0, 0, 0, 0, 0, 0] => Kind::Forbidden("an unspecified address"),
        // NAT64 (RFC 6052), where hosts without IPv4 find the rest of the world.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            match kind_of_four(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))) {
                Kind::Public => Kind::Public,
                Kind::Private | Kind::Forbidden(_) | Kind::Loopback => {
                    Kind::Forbidden("a translated form of an address that is not public")
                }
            }
        }
        // Dead protocols that carry an IPv4 address of the sender's choice.
        [0x2002, ..] => Kind::Forbidden("a 6to4 address"),
        [0x2001, 0, ..] => Kind::Forbidden("a Teredo address"),
        [0xfe80..=0xfebf, ..] => Kind::Forbidden("a link-local address"),
        [0xff00..=0xffff, ..] => Kind::Forbidden("a multicast address"),
        [0xfc00..=0xfdff, ..] | [0x2001, 0xdb8, ..] => Kind::Private,
        // All that was ever given out. Translated (`::ffff:0:a.b.c.d`), compatible (`::a.b.c.d`),
        // locally translated (`64:ff9b:1::`) and site-local forms are outside of it.
        [0x2000..=0x3fff, ..] => Kind::Public,
        _ => Kind::Forbidden("no globally routed address"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Kind {
        kind(text.parse().unwrap())
    }

    #[test]
    fn kinds_of_addresses() {
        for text in [
            "8.8.8.8",
            "100.128.0.1",
            "172.32.0.1",
            "2606:4700::1111",
            "64:ff9b::8.8.8.8",
        ] {
            assert_eq!(of(text), Kind::Public, "{text}");
        }
        for text in ["::ffff:8.8.8.8", "192.0.2.1", "169.253.0.1"] {
            assert_eq!(of(text), Kind::Public, "{text}");
        }
        let private = [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "198.18.0.1",
            "fd00:ec2::254",
            "fc00::1",
            "::ffff:10.0.0.1",
        ];
        for text in private {
            assert_eq!(of(text), Kind::Private, "{text}");
        }
        for text in [
            "127.0.0.1",
            "127.255.0.3",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
        ] {
            assert_eq!(of(text), Kind::Loopback, "{text}");
        }
        let forbidden = [
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "2001:0:1:2:3:4:5:6",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "4000::1",
        ];
        for text in forbidden {
            assert!(
                matches!(of(text), Kind::Forbidden(_)),
                "{text}: {:?}",
                of(text)
            );
        }
    }

    proptest! {
        #[test]
        fn a_carried_address_is_never_milder(bits: u32) {
            let four = Ipv4Addr::from_bits(bits);
            let plain = kind(IpAddr::V4(four));
            prop_assert_eq!(kind(IpAddr::V6(four.to_ipv6_mapped())), plain);
            let [high, low] = [bits >> 16, bits & 0xffff].map(|half| u16::try_from(half).unwrap());
            let carriers = [
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
                Ipv6Addr::new(0x2001, 0, 0x808, 0x808, 0, 0, !high, !low),
            ];
            for carrier in carriers {
                let kind = kind(IpAddr::V6(carrier));
                prop_assert!(
                    matches!(kind, Kind::Forbidden(_)) || kind == plain && plain == Kind::Public,
                    "{} {:?}", carrier, kind
                );
            }
        }
    }
}
