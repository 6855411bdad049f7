//! Tables and properties of the two lists.

use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> DomainPattern {
    text.parse().unwrap()
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

#[test]
fn networks_are_read() {
    let networks = parse_networks("10.0.0.0/24, 192.168.1.0/16,8.8.8.8/32")
        .unwrap()
        .unwrap();
    let texts: Vec<String> = networks.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["10.0.0.0/24", "192.168.0.0/16", "8.8.8.8/32"]);
    assert!(networks[0].contains("10.0.0.255".parse().unwrap()));
    assert!(!networks[0].contains("10.0.1.0".parse().unwrap()));
    assert!(networks[1].contains("192.168.77.1".parse().unwrap()));
    let everything: Ipv4Net = "1.2.3.4/0".parse().unwrap();
    assert!(everything.contains("255.1.2.3".parse().unwrap()));
    assert_eq!(parse_networks(""), Ok(None));
    assert_eq!(parse_networks("  "), Ok(None));
}

#[test]
fn bad_networks_say_what_is_bad() {
    let cases = [
        ("10.0.0.1", NetworkError::PrefixMissing),
        ("10.0.0.0/33", NetworkError::BadPrefix),
        ("10.0.0.0/", NetworkError::BadPrefix),
        ("10.0.0.0/+8", NetworkError::BadPrefix),
        ("10.0.0.0/008", NetworkError::BadPrefix),
        ("10.0.0/8", NetworkError::BadAddress),
        ("010.0.0.0/8", NetworkError::BadAddress),
        ("::1/128", NetworkError::BadAddress),
        ("example.com/8", NetworkError::BadAddress),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<Ipv4Net>(), Err(expected), "{text}");
    }
    let eleven = ["10.0.0.0/8"; 11].join(",");
    assert_eq!(
        parse_networks(&eleven).unwrap_err().to_string(),
        "`networkAllowList` has 11 entries; 10 are allowed"
    );
    assert!(parse_networks(&["10.0.0.0/8"; 10].join(",")).is_ok());
    assert_eq!(
        parse_networks("10.0.0.0/8,").unwrap_err().to_string(),
        "`networkAllowList` has an empty entry; separate entries with one comma and leave the text empty for no list"
    );
}

#[test]
fn domains_match_as_documented() {
    let cases = [
        ("example.com", "example.com", true),
        ("example.com", "EXAMPLE.com.", true),
        ("Example.COM.", "example.com", true),
        ("example.com", "www.example.com", false),
        ("*.example.com", "www.example.com", true),
        ("*.example.com", "a.b.Example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", "badexample.com", false),
        ("*.example.com", "example.com.evil.org", false),
        ("xn--bcher-kva.example", "XN--BCHER-KVA.example", true),
        ("example.com", "93.184.216.34", false),
        ("*.example.com", "[::1]", false),
    ];
    for (text, name, expected) in cases {
        assert_eq!(
            pattern(text).matches(&host(name)),
            expected,
            "{text} {name}"
        );
    }
}

#[test]
fn bad_domains_say_what_is_bad() {
    let cases = [
        ("*", DomainError::BadWildcard),
        ("*.*.example.com", DomainError::BadWildcard),
        ("api.*.com", DomainError::BadWildcard),
        ("*example.com", DomainError::BadWildcard),
        ("10.0.0.1", DomainError::IsAddress),
        ("*.10.0.0.1", DomainError::IsAddress),
        ("0x7f.1", DomainError::IsAddress),
        ("::1", DomainError::IsAddress),
        ("https://example.com", DomainError::NotOnlyAName),
        ("example.com:443", DomainError::NotOnlyAName),
        ("example.com/a", DomainError::NotOnlyAName),
        ("*.", DomainError::Name(HostError::Empty)),
        ("a b.com", DomainError::Name(HostError::BadCharacter)),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<DomainPattern>(), Err(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn lists_never_panic_and_never_exceed_their_limit(text in "[\\PC,/.*0-9]{0,120}") {
        if let Ok(Some(networks)) = parse_networks(&text) {
            prop_assert!(networks.len() <= ENTRIES_MAX);
        }
        if let Ok(Some(domains)) = parse_domains(&text) {
            prop_assert!(domains.len() <= ENTRIES_MAX);
        }
    }

    #[test]
    fn a_network_is_read_again_as_itself(bits: u32, prefix_length in 0_u32..=32) {
        let address = Ipv4Addr::from_bits(bits);
        let network: Ipv4Net = format!("{address}/{prefix_length}").parse().unwrap();
        prop_assert!(network.contains(address));
        prop_assert_eq!(network.to_string().parse::<Ipv4Net>(), Ok(network));
        // One flipped bit inside the prefix is outside the network.
        if prefix_length > 0 {
            let outside = Ipv4Addr::from_bits(bits ^ (1 << (32 - prefix_length)));
            prop_assert!(!network.contains(outside));
        }
    }

    #[test]
    fn a_wildcard_covers_what_is_below_and_nothing_else(
        front in "[a-z]{1,8}(\\.[a-z]{1,8}){0,2}",
        domain in "[a-z]{1,8}\\.[a-z]{2,5}",
    ) {
        let below = pattern(&format!("*.{domain}"));
        let deeper = format!("{front}.{domain}");
        let glued = format!("{front}{domain}");
        let behind = format!("{domain}.{front}.x");
        prop_assert!(below.matches(&host(&deeper)));
        prop_assert!(!below.matches(&host(&domain)));
        prop_assert!(!below.matches(&host(&glued)));
        prop_assert!(!below.matches(&host(&behind)));
        prop_assert_eq!(pattern(&below.to_string()), below);
    }
}
