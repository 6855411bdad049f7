//! Where the database is, and how one speaks to it.
//!
//! TLS is used, and the certificate verified, unless the database is on this machine or the address says `sslmode=disable`.
//! (Postgres' own clients verify only when told to, which protects from nobody who can change packets.)

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::error::PostgresError;
use super::tls::MakeTls;

/// How long one attempt to connect may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How soon a connection whose other end is gone is noticed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: MakeTls,
    /// For messages: host, port and database, and nothing else of the URL.
    pub(super) place: String,
    /// How long one step may take. After that the session is given up, and what it did is found out or done again.
    pub(super) answer_timeout: Duration,
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Address").field(&self.place).finish()
    }
}

impl Address {
    pub(super) fn parse(url: &str, answer_timeout: Duration) -> Result<Self, PostgresError> {
        let Extracted {
            url,
            certificates,
            verify,
        } = extract(url);
        let mut config: Config = url.parse().map_err(|source| PostgresError::Address {
            source: Box::new(source),
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let source = "it names no host".into();
            return Err(PostgresError::Address { source });
        }
        // A standby cannot keep anything.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.keepalives_idle(KEEPALIVE_IDLE);
        config.tcp_user_timeout(UNACKNOWLEDGED_MAX);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT / 2);
        }
        let wants_tls = verify || certificates.is_some() || {
            let is_here = config.get_hosts().iter().all(is_this_machine);
            let mode = config.get_ssl_mode();
            mode != SslMode::Disable && !(mode == SslMode::Prefer && is_here)
        };
        let tls = if wants_tls {
            config.ssl_mode(SslMode::Require);
            MakeTls::trusting(certificates)?
        } else {
            config.ssl_mode(SslMode::Disable);
            MakeTls::unused()
        };
        let place = place(&config);
        Ok(Self {
            config,
            tls,
            place,
            answer_timeout,
        })
    }
}

/// What the Postgres library does not know.
struct Extracted {
    url: String,
    certificates: Option<PathBuf>,
    verify: bool,
}

fn extract(url: &str) -> Extracted {
    let mut extracted = Extracted {
        url: url.to_owned(),
        certificates: None,
        verify: false,
    };
    let Some((base, query)) = url.split_once('?') else {
        return extracted;
    };
    let mut kept = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslrootcert", file)) => {
                let file = percent_encoding::percent_decode_str(file).decode_utf8_lossy();
                extracted.certificates = Some(PathBuf::from(file.as_ref()));
            }
            Some(("sslmode", "verify-ca" | "verify-full")) => extracted.verify = true,
            Some(_) | None => kept.push(pair),
        }
    }
    extracted.url = format!("{base}?{}", kept.join("&"));
    extracted
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let address = name.trim_start_matches('[').trim_end_matches(']');
            let is_loopback = |address: IpAddr| address.is_loopback();
            name == "localhost" || address.parse().is_ok_and(is_loopback)
        }
        Host::Unix(_) => true,
    }
}

fn place(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let ports = config.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or("?");
    format!("`{}/{database}`", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssl_mode(url: &str) -> SslMode {
        Address::parse(url, CONNECT_TIMEOUT)
            .unwrap()
            .config
            .get_ssl_mode()
    }

    #[test]
    fn tls_is_for_other_machines() {
        for (url, mode) in [
            ("postgres://u@localhost/d", SslMode::Disable),
            ("postgres://u@127.0.0.1:5433/d", SslMode::Disable),
            ("postgres://u@[::1]/d", SslMode::Disable),
            ("postgres://u@%2Frun%2Fpostgresql/d", SslMode::Disable),
            ("postgres://u@10.0.0.1/d?sslmode=disable", SslMode::Disable),
            ("postgres://u@10.0.0.1/d", SslMode::Require),
            ("postgres://u@localhost,db.example/d", SslMode::Require),
            ("postgres://u@localhost/d?sslmode=require", SslMode::Require),
            (
                "postgres://u@localhost/d?sslmode=verify-full",
                SslMode::Require,
            ),
        ] {
            assert_eq!(ssl_mode(url), mode, "{url}");
        }
    }

    #[test]
    fn passwords_are_not_repeated() {
        let address =
            Address::parse("postgres://u:hunter2@localhost:5433/d", CONNECT_TIMEOUT).unwrap();
        assert_eq!(address.place, "`localhost:5433/d`");
        assert!(!format!("{address:?}").contains("hunter2"));
        for wrong in [
            "postgres://u:hunter2@localhost:many/d",
            "postgres://u:hunter2@localhost/d?sslmode=hunter2",
            "mysql://u:hunter2@localhost/d",
            "hunter2",
            "postgres:///d?password=hunter2",
        ] {
            let error = Address::parse(wrong, CONNECT_TIMEOUT).unwrap_err();
            let mut text = format!("{error:?} {error}");
            let mut source: Option<&dyn std::error::Error> = std::error::Error::source(&error);
            while let Some(cause) = source {
                text += &format!(" {cause} {cause:?}");
                source = cause.source();
            }
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn certificates_that_are_missing() {
        let url = "postgres://u@db/d?sslmode=verify-full&sslrootcert=%2Fno%2Fsuch.pem";
        let error = Address::parse(url, CONNECT_TIMEOUT).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not read the certificates to trust from `/no/such.pem`"
        );
    }
}
