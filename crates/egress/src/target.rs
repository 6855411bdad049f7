//! Where a request wants to go, read from its target and its `Host`, which must agree.

use std::fmt;

use hyper::Version;
use hyper::header::HOST;
use hyper::http::request::Parts;
use thiserror::Error;

use crate::host::{Host, HostError};
use crate::secret::Scheme;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

/// A destination and how to speak to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) scheme: Scheme,
    pub(crate) destination: Destination,
}

impl Origin {
    /// What stands in the `Host` of a request to it.
    pub(crate) fn host_header(&self) -> String {
        if self.destination.port == self.scheme.default_port() {
            self.destination.host.to_string()
        } else {
            self.destination.to_string()
        }
    }
}

/// What makes a request unusable, whatever the policy says.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TargetError {
    #[error("this is a proxy; it takes `CONNECT host:port` and `GET http://host/…`")]
    NotForAProxy,
    #[error("the proxy speaks plain http only; for https, use CONNECT")]
    NotHttp,
    #[error("the target may not hold a user name or password; send an Authorization header")]
    UserInformation,
    #[error("the target's port is a number from 1 to 65535, and CONNECT needs one")]
    BadPort,
    #[error("the target's host is not usable: {0}")]
    BadHost(HostError),
    #[error("the request needs exactly one Host header")]
    HostHeaderCount,
    #[error("the Host header and the target of the request differ")]
    HostHeaderDiffers,
}

/// Reads the target of a `CONNECT`.
pub(crate) fn of_connect(parts: &Parts) -> Result<Destination, TargetError> {
    let uri = &parts.uri;
    if uri.scheme().is_some() || uri.path_and_query().is_some() {
        return Err(TargetError::NotForAProxy);
    }
    let authority = uri.authority().ok_or(TargetError::NotForAProxy)?;
    let (host, port) = split(authority.as_str())?;
    let port = port.ok_or(TargetError::BadPort)?;
    let destination = Destination { host, port };
    // Clients leave out the header, or its port, in a CONNECT; what they send must agree.
    check_host_header(parts, &destination, port, Missing::Tolerated)?;
    Ok(destination)
}

/// Reads the target of a request in absolute form.
pub(crate) fn of_absolute(parts: &Parts) -> Result<Origin, TargetError> {
    let uri = &parts.uri;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(TargetError::NotForAProxy);
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(TargetError::NotHttp);
    }
    let (host, port) = split(authority.as_str())?;
    let origin = Origin {
        scheme: Scheme::Http,
        destination: Destination {
            host,
            port: port.unwrap_or(Scheme::Http.default_port()),
        },
    };
    check_origin(parts, &origin)?;
    Ok(origin)
}

/// Checks that a request inside an opened tunnel is for the tunnel's own host.
pub(crate) fn check_inside(parts: &Parts, origin: &Origin) -> Result<(), TargetError> {
    if parts.method == hyper::Method::CONNECT {
        return Err(TargetError::NotForAProxy);
    }
    if let Some(authority) = parts.uri.authority() {
        let (host, port) = split(authority.as_str())?;
        let port = port.unwrap_or(origin.scheme.default_port());
        if (Destination { host, port }) != origin.destination {
            return Err(TargetError::HostHeaderDiffers);
        }
    }
    check_origin(parts, origin)
}

fn check_origin(parts: &Parts, origin: &Origin) -> Result<(), TargetError> {
    let missing = match parts.version {
        Version::HTTP_10 => Missing::Tolerated,
        _ => Missing::Refused,
    };
    let default_port = origin.scheme.default_port();
    check_host_header(parts, &origin.destination, default_port, missing)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Tolerated,
    Refused,
}

fn check_host_header(
    parts: &Parts,
    destination: &Destination,
    default_port: u16,
    missing: Missing,
) -> Result<(), TargetError> {
    let mut headers = parts.headers.get_all(HOST).iter();
    let Some(header) = headers.next() else {
        return match missing {
            Missing::Tolerated => Ok(()),
            Missing::Refused => Err(TargetError::HostHeaderCount),
        };
    };
    if headers.next().is_some() {
        return Err(TargetError::HostHeaderCount);
    }
    let text = header
        .to_str()
        .map_err(|_| TargetError::HostHeaderDiffers)?;
    let (host, port) = split(text).map_err(|_| TargetError::HostHeaderDiffers)?;
    let is_same = host == destination.host && port.unwrap_or(default_port) == destination.port;
    match is_same {
        true => Ok(()),
        false => Err(TargetError::HostHeaderDiffers),
    }
}

/// Splits `host`, `host:port` or `[address]:port`.
fn split(authority: &str) -> Result<(Host, Option<u16>), TargetError> {
    if authority.contains('@') {
        return Err(TargetError::UserInformation);
    }
    let host_end = match authority.find(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, rest) = authority.split_at(host_end);
    let host = Host::parse(host).map_err(TargetError::BadHost)?;
    if rest.is_empty() {
        return Ok((host, None));
    }
    let digits = rest.strip_prefix(':').ok_or(TargetError::BadPort)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(port) if is_number && port != 0 => Ok((host, Some(port))),
        _ => Err(TargetError::BadPort),
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use proptest::prelude::*;

    use super::*;

    fn parts(method: &str, uri: &str, hosts: &[&str]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn targets_are_read() {
        let connect = |uri, hosts: &[&str]| {
            of_connect(&parts("CONNECT", uri, hosts)).map(|found| found.to_string())
        };
        assert_eq!(connect("Example.com.:443", &[]).unwrap(), "example.com:443");
        assert_eq!(
            connect("example.com:8443", &["example.com"]).unwrap(),
            "example.com:8443"
        );
        assert_eq!(connect("[::1]:443", &["[::1]:443"]).unwrap(), "[::1]:443");
        assert_eq!(connect("a.b:0", &[]), Err(TargetError::BadPort));
        assert_eq!(connect("a.b:", &[]), Err(TargetError::BadPort));
        assert_eq!(
            connect("a.b:443", &["c.d:443"]),
            Err(TargetError::HostHeaderDiffers)
        );
        assert_eq!(
            connect("a.b:443", &["a.b:80"]),
            Err(TargetError::HostHeaderDiffers)
        );
        assert_eq!(connect("u@a.b:443", &[]), Err(TargetError::UserInformation));
        assert_eq!(
            connect("http://a.b:443/", &[]),
            Err(TargetError::NotForAProxy)
        );

        let absolute = |uri, hosts: &[&str]| {
            of_absolute(&parts("GET", uri, hosts)).map(|found| found.host_header())
        };
        assert_eq!(absolute("http://a.b/x", &["A.b"]).unwrap(), "a.b");
        assert_eq!(absolute("http://a.b:80/x", &["a.b"]).unwrap(), "a.b");
        assert_eq!(absolute("http://a.b:81/x", &["a.b:81"]).unwrap(), "a.b:81");
        assert_eq!(absolute("/x", &["a.b"]), Err(TargetError::NotForAProxy));
        assert_eq!(
            absolute("https://a.b/x", &["a.b"]),
            Err(TargetError::NotHttp)
        );
        assert_eq!(
            absolute("http://a.b/x", &["a.c"]),
            Err(TargetError::HostHeaderDiffers)
        );
        assert_eq!(
            absolute("http://a.b/x", &[]),
            Err(TargetError::HostHeaderCount)
        );
        assert_eq!(
            absolute("http://a.b/x", &["a.b", "a.b"]),
            Err(TargetError::HostHeaderCount)
        );
        assert_eq!(
            absolute("http://u:p@a.b/x", &["a.b"]),
            Err(TargetError::UserInformation)
        );
        assert!(matches!(
            absolute("http://0x7f.1/", &["0x7f.1"]),
            Err(TargetError::BadHost(_))
        ));
    }

    #[test]
    fn inside_a_tunnel_only_its_host_is_spoken_to() {
        let origin = Origin {
            scheme: Scheme::Https,
            destination: of_connect(&parts("CONNECT", "a.b:443", &[])).unwrap(),
        };
        let check = |uri, host| check_inside(&parts("GET", uri, &[host]), &origin);
        assert_eq!(check("/x", "a.b"), Ok(()));
        assert_eq!(check("/x", "a.b:443"), Ok(()));
        assert_eq!(check("https://a.b/x", "a.b"), Ok(()));
        assert_eq!(check("/x", "evil.com"), Err(TargetError::HostHeaderDiffers));
        assert_eq!(
            check("https://evil.com/x", "a.b"),
            Err(TargetError::HostHeaderDiffers)
        );
        assert_eq!(check("/x", "a.b:444"), Err(TargetError::HostHeaderDiffers));
    }

    proptest! {
        #[test]
        fn splitting_never_panics(text in "\\PC{0,60}") {
            if let Ok((host, port)) = split(&text) {
                prop_assert!(port != Some(0));
                prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
            }
        }
    }
}
