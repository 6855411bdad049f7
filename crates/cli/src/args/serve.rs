//! `holm serve`: Daytona's API on one's own machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::key::ServerFolder;
use super::values::{at_least_one, duration};

/// How the server writes its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// What the steps of image builds can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuildReach {
    /// Nothing
    None,
    /// All that this machine can reach, its own services included
    Host,
}

const HELP: &str = "\
The first start makes an API key and prints it, once; `holm key` makes others. A key in HOLM_API_KEY
is taken instead, and not printed. The SDKs need nothing but the address and a key:

  export DAYTONA_API_URL=http://127.0.0.1:3986/api
  export DAYTONA_API_KEY=...

Ctrl-C or SIGTERM takes no more requests and lets those in flight end; a second one ends at once.
Sandboxes go on either way, and the next start finds them again.

What listens in a sandbox is reached at PORT-SANDBOX.DOMAIN, for example
http://3000-SANDBOX.localhost:3986. GET /health says whether the server is well, and GET /metrics
gives its figures to whoever has a key.

Examples:
  holm serve
  holm serve --ssh-listen 127.0.0.1:2222
  holm serve --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem
  HOLM_API_KEY=$KEY holm serve --data /srv/holm --log-format json";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ServeArgs {
    /// The address to listen at; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3986")]
    pub(crate) listen: SocketAddr,

    #[command(flatten)]
    pub(crate) server: ServerFolder,

    /// Serve HTTPS with this certificate chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// What clients call this server, if not by the address that they send their requests to
    #[arg(long, value_name = "URL", value_parser = public_url)]
    pub(crate) public_url: Option<String>,

    /// Below which domain ports of sandboxes are found [default: localhost and the port]
    #[arg(long, value_name = "DOMAIN", value_parser = preview_domain)]
    pub(crate) preview_domain: Option<String>,

    /// Also serve SSH into sandboxes, at this address; `ssh-access` of the API gives tokens for it
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ssh_listen: Option<SocketAddr>,

    /// What `RUN` steps of image builds can reach; they are the word of whoever has a key
    #[arg(long, value_name = "NETWORK", value_enum, default_value_t = BuildReach::None)]
    pub(crate) build_network: BuildReach,

    /// How many sandboxes one organisation may have at once
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000, value_parser = at_least_one)]
    pub(crate) sandboxes_max: usize,

    /// How many connections there may be at once; more wait until others end [default: 16384, or what the limit of open files allows]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one)]
    pub(crate) connections_max: Option<usize>,

    /// How long a reader of a stream that asks with `live=long-poll` waits for something new
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub(crate) long_poll_timeout: Duration,

    /// Where blobs of threads are kept; servers over one Postgres share one folder [default: below --data]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) blobs: Option<PathBuf>,

    /// Let subscriptions to streams call http://localhost and 127.x.x.x, where whoever has a key then reaches programs of this machine
    #[arg(long)]
    pub(crate) local_webhooks: bool,

    /// How to write the log, which goes to standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

fn public_url(text: &str) -> Result<String, String> {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let is_fine = |letter: char| letter.is_ascii_graphic() && !"?#\"<>\\".contains(letter);
    match host {
        Some(host) if !host.is_empty() && host.chars().all(is_fine) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        Some(_) | None => Err("write it as `https://holm.example.org`".to_owned()),
    }
}

fn preview_domain(text: &str) -> Result<String, String> {
    let (name, port) = text.split_once(':').unwrap_or((text, "1"));
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if name.split('.').all(is_label) && port.parse::<u16>().is_ok_and(|port| port > 0) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("write it as `preview.example.org` or `localhost:3986`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_strictly() {
        assert_eq!(
            public_url("https://a.example/x/"),
            Ok("https://a.example/x".into())
        );
        for wrong in [
            "a.example",
            "https://",
            "ftp://a",
            "http://a b",
            "http://a?b",
        ] {
            assert!(public_url(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            preview_domain("P.example.org:80"),
            Ok("p.example.org:80".into())
        );
        for wrong in ["", ".", "a..b", "a:0", "a:b", "*.a", "a/b", "http://a"] {
            assert!(preview_domain(wrong).is_err(), "{wrong}");
        }
    }
}
