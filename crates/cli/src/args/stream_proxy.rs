//! `holm stream-proxy`: a way to a server's streams for those who may not reach the server.

use std::net::SocketAddr;

use clap::Args;

const HELP: &str = "\
Method, path, query, body and `Authorization` are forwarded as they are, in both directions as they
come; the proxy checks no key and holds none. Only what is below /v1/stream/ and /api/stream/ is
forwarded: all else is answered with 404, and the server never sees it.

Examples:
  holm stream-proxy --upstream https://holm.example.org
  holm stream-proxy --upstream http://127.0.0.1:3986 --listen 10.0.0.1:4437";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct StreamProxyArgs {
    /// The server: scheme, host and port, without a path
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: String,

    /// The address to listen at; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4437")]
    pub(crate) listen: SocketAddr,

    /// How many connections are served at once; more wait
    #[arg(long, value_name = "NUMBER", default_value_t = 1_024, value_parser = super::values::at_least_one)]
    pub(crate) connections_max: usize,

    /// Print where it listens as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
