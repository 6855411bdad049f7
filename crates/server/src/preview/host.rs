//! The name that a request was sent to: `PORT-NAME.DOMAIN`, where NAME is a sandbox or a signed token.

use crate::config::ServerConfig;

/// What a `Host` header leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// Not below the preview domain.
    Other,
    /// Below it, and no preview.
    Malformed,
    Preview(Target),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) port: u16,
    /// The id of a sandbox, or a token.
    pub(super) name: String,
}

/// A label of a domain name is never longer.
const LABEL_LENGTH_MAX: usize = 63;

/// Below which names previews are found, with the port that clients have to use.
pub(crate) fn domain(config: &ServerConfig) -> String {
    match &config.preview_domain {
        Some(domain) => domain.clone(),
        // Browsers and the C library find every name below it on this machine.
        None => format!("localhost:{}", config.listen.port()),
    }
}

pub(super) fn parse(host: &str, domain: &str) -> Host {
    // Whoever stands before us may have listened at another port.
    let without_port = |name: &str| {
        name.split(':')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let host = without_port(host);
    let host = host.strip_suffix('.').unwrap_or(&host);
    let domain = without_port(domain);
    let Some(label) = host
        .strip_suffix(&domain)
        .and_then(|rest| rest.strip_suffix('.'))
    else {
        return Host::Other;
    };
    match parse_label(label) {
        Some(target) => Host::Preview(target),
        None => Host::Malformed,
    }
}

fn parse_label(label: &str) -> Option<Target> {
    let (port, name) = label.split_once('-')?;
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    let is_name = !name.is_empty()
        && label.len() <= LABEL_LENGTH_MAX
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_number || !is_name {
        return None;
    }
    Some(Target {
        port: port.parse().ok()?,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, expected: &Host) {
        assert_eq!(parse(host, "localhost:3986"), *expected, "{host}");
    }

    #[test]
    fn names_lead_to_ports() {
        for host in [
            "3000-ab-cd.localhost:3986",
            "3000-AB-cd.LOCALHOST",
            "3000-ab-cd.localhost.:1",
        ] {
            let target = Target {
                port: 3000,
                name: "ab-cd".into(),
            };
            check(host, &Host::Preview(target));
        }
    }

    #[test]
    fn the_server_itself_is_no_preview() {
        for host in [
            "",
            "localhost",
            "localhost:3986",
            "127.0.0.1:3986",
            "xlocalhost",
            "3000-ablocalhost",
            "localhost.example.org",
            "3000-ab.localhost.example.org",
        ] {
            check(host, &Host::Other);
        }
    }

    #[test]
    fn games_with_names_lead_nowhere() {
        let long = format!("1-{}.localhost", "a".repeat(62));
        for host in [
            ".localhost",
            "ab.localhost",
            "-ab.localhost",
            "3000-.localhost",
            "0-ab.localhost",
            "00080-ab.localhost",
            "+80-ab.localhost",
            "65536-ab.localhost",
            "99999999999999999999-ab.localhost",
            "127.0.0.1-ab.localhost",
            "3000-a.b.localhost",
            "3000-ab..localhost",
            "3000-a_b.localhost",
            "3000-a/b.localhost",
            "3000-a%2e.localhost",
            &long,
        ] {
            check(host, &Host::Malformed);
        }
    }
}
