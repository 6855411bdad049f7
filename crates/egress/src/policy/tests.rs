//! The decision as a table, and what must hold for every input.

use proptest::prelude::*;

use super::*;

fn policy(networks: &str, domains: &str) -> Policy {
    Policy::from_lists(networks, domains).unwrap()
}

fn rules() -> Rules {
    Rules::new(vec![
        "203.0.113.7:3986".parse().unwrap(),
        "0.0.0.0:4000".parse().unwrap(),
        "198.51.100.1:0".parse().unwrap(),
    ])
}

fn elsewhere(address: &str) -> Candidate {
    Candidate {
        address: address.parse().unwrap(),
        place: Place::Elsewhere,
    }
}

fn say(policy: &Policy, host: &str, addresses: &[&str], port: u16) -> String {
    let candidates: Vec<Candidate> = addresses.iter().copied().map(elsewhere).collect();
    let host = Host::parse(host).unwrap();
    match decide(policy, &rules(), &host, &candidates, port) {
        Verdict::Allow { addresses, by } => format!("{by:?} {addresses:?}"),
        Verdict::Refuse(reason) => reason.to_string(),
    }
}

#[test]
fn blocked_reaches_nothing() {
    let said = say(&Policy::Blocked, "example.com", &["93.184.216.34"], 443);
    assert_eq!(
        said,
        "all network access of this sandbox is blocked; set `networkBlockAll` to false"
    );
}

#[test]
fn no_list_reaches_what_is_public() {
    let open = Policy::unrestricted();
    let cases = [
        (
            "example.com",
            "93.184.216.34",
            "Unrestricted [93.184.216.34:443]",
        ),
        (
            "[2606:4700::1]",
            "2606:4700::1",
            "Unrestricted [[2606:4700::1]:443]",
        ),
        ("a.b", "::ffff:8.8.8.8", "Unrestricted [8.8.8.8:443]"),
        (
            "a.b",
            "10.1.2.3",
            "10.1.2.3 is an address of a private network; it must be named in `networkAllowList`",
        ),
        (
            "a.b",
            "127.0.0.1",
            "127.0.0.1 is the loopback of the server; no setting allows it",
        ),
        (
            "a.b",
            "169.254.169.254",
            "169.254.169.254 is a link-local address, where clouds keep their credentials; no setting allows it",
        ),
    ];
    for (host, address, expected) in cases {
        assert_eq!(
            say(&open, host, &[address], 443),
            expected,
            "{host} {address}"
        );
    }
    assert_eq!(say(&open, "a.b", &[], 443), "the name leads to no address");
}

#[test]
fn networks_allow_by_address() {
    let listed = policy("10.0.0.0/8,93.184.216.34/32", "");
    assert_eq!(
        say(&listed, "10.1.2.3", &["10.1.2.3"], 22),
        "Network [10.1.2.3:22]"
    );
    assert_eq!(
        say(&listed, "example.com", &["93.184.216.34", "8.8.8.8"], 443),
        "Network [93.184.216.34:443]"
    );
    assert_eq!(
        say(&listed, "example.com", &["8.8.8.8"], 443),
        "the address 8.8.8.8 is not in `networkAllowList`; add `8.8.8.8/32` there"
    );
    assert_eq!(
        say(&listed, "example.com", &["2606:4700::1"], 443),
        "the address 2606:4700::1 is IPv6 and `networkAllowList` has IPv4 only; add the name to `domainAllowList`"
    );
}

#[test]
fn domains_allow_by_name_but_only_to_public_addresses() {
    let listed = policy("", "example.com,*.example.org");
    assert_eq!(
        say(&listed, "example.com", &["93.184.216.34"], 443),
        "Domain [93.184.216.34:443]"
    );
    assert_eq!(
        say(
            &listed,
            "example.com",
            &["127.0.0.1", "10.0.0.1", "93.184.216.34"],
            443
        ),
        "Domain [93.184.216.34:443]"
    );
    assert_eq!(
        say(&listed, "a.example.org", &["192.168.0.1"], 443),
        "192.168.0.1 is an address of a private network; it must be named in `networkAllowList`"
    );
    let not_listed = "the name is not in `domainAllowList`; add it there, or its addresses to `networkAllowList`";
    assert_eq!(
        say(&listed, "evil.com", &["93.184.216.34"], 443),
        not_listed
    );
    assert_eq!(
        say(&listed, "93.184.216.34", &["93.184.216.34"], 443),
        not_listed
    );
}

#[test]
fn either_list_is_enough() {
    let both = policy("10.0.0.0/8", "example.com");
    assert_eq!(
        say(&both, "example.com", &["93.184.216.34"], 443),
        "Domain [93.184.216.34:443]"
    );
    assert_eq!(
        say(&both, "db.internal", &["10.0.0.5"], 5432),
        "Network [10.0.0.5:5432]"
    );
    assert_eq!(
        say(&both, "example.com", &["10.0.0.5"], 443),
        "Network [10.0.0.5:443]"
    );
    // One address that only the name allows, and the name counts.
    assert_eq!(
        say(&both, "example.com", &["10.0.0.5", "8.8.8.8"], 443),
        "Domain [10.0.0.5:443, 8.8.8.8:443]"
    );
    assert!(say(&both, "evil.com", &["8.8.8.8"], 443).contains("8.8.8.8 is not in"));
}

#[test]
fn a_name_that_cannot_be_allowed_is_not_asked_for() {
    let host = Host::parse("stolen-data.evil.com").unwrap();
    let refused = |policy: &Policy| refuse_unresolved(policy, &host).is_some();
    assert!(refused(&Policy::Blocked));
    assert!(refused(&policy("", "example.com")));
    assert!(!refused(&policy("10.0.0.0/8", "example.com")));
    assert!(!refused(&Policy::unrestricted()));
}

#[test]
fn the_server_is_never_reached() {
    let all = policy("0.0.0.0/0", "");
    let own = "is where the server itself listens; no setting allows it";
    assert!(say(&all, "203.0.113.7", &["203.0.113.7"], 3986).ends_with(own));
    assert!(say(&all, "203.0.113.7", &["203.0.113.7"], 80).starts_with("Network"));
    assert!(say(&all, "198.51.100.1", &["198.51.100.1"], 80).ends_with(own));
    assert!(say(&all, "a.b", &["::ffff:203.0.113.7"], 3986).ends_with(own));

    let here = Candidate {
        address: "192.0.2.9".parse().unwrap(),
        place: Place::ThisHost,
    };
    let host = Host::parse("me.example").unwrap();
    let verdict = |policy: &Policy, port| decide(policy, &rules(), &host, &[here], port);
    assert!(matches!(
        verdict(&all, 4000),
        Verdict::Refuse(Reason::Own { .. })
    ));
    assert!(matches!(verdict(&all, 5000), Verdict::Allow { .. }));
    let open = Policy::unrestricted();
    assert!(matches!(
        verdict(&open, 5000),
        Verdict::Refuse(Reason::Private { .. })
    ));
}

#[test]
fn loopback_is_for_tests() {
    let host = Host::parse("127.0.0.1").unwrap();
    let candidate = [elsewhere("127.0.0.1")];
    let open = Policy::unrestricted();
    let rules = Rules::permit_loopback_for_tests(Vec::new());
    let verdict = decide(&open, &rules, &host, &candidate, 80);
    assert!(matches!(verdict, Verdict::Allow { .. }));
}

fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::Blocked),
        Just(Policy::unrestricted()),
        Just(policy("0.0.0.0/0", "")),
        Just(policy("", "example.com,*.example.org")),
        Just(policy("10.0.0.0/8", "example.com")),
    ]
}

proptest! {
    #[test]
    fn what_is_allowed_was_resolved_and_is_never_forbidden(
        policy in any_policy(),
        name in prop_oneof![Just("example.com"), Just("a.example.org"), Just("evil.com")],
        bits in proptest::collection::vec(any::<u128>(), 0..6),
        fours in proptest::collection::vec(any::<u32>(), 0..6),
        port: u16,
    ) {
        let sixes = bits.into_iter().map(|bits| IpAddr::V6(bits.into()));
        let candidates: Vec<Candidate> = sixes
            .chain(fours.into_iter().map(|bits| IpAddr::V4(bits.into())))
            .map(|address| Candidate { address, place: Place::Elsewhere })
            .collect();
        let host = Host::parse(name).unwrap();
        if let Verdict::Allow { addresses, by } = decide(&policy, &rules(), &host, &candidates, port) {
            prop_assert!(policy != Policy::Blocked);
            for address in addresses {
                let ip = address.ip();
                prop_assert!(candidates.iter().any(|found| canonical(found.address) == ip));
                prop_assert!(!matches!(kind(ip), Kind::Forbidden(_) | Kind::Loopback));
                prop_assert!(kind(ip) == Kind::Public || by != Grant::Unrestricted);
                prop_assert_eq!(address.port(), port);
            }
        }
    }
}
