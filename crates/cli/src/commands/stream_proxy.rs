//! `holm stream-proxy`.

use std::net::SocketAddr;

use holm_sandbox_linux::raise_descriptor_limit;
use holm_stream_proxy::{Proxy, ProxyConfig, ProxyLimits};
use serde::Serialize;

use super::Context;
use super::serve::{Signals, start_log};
use crate::args::{LogFormat, StreamProxyArgs};
use crate::error::CliError;
use crate::output::{self, Tone, say, tell};

#[derive(Debug, Serialize)]
struct ListeningJson {
    address: SocketAddr,
}

pub(crate) fn run(context: &Context, args: &StreamProxyArgs) -> Result<u8, CliError> {
    let config = ProxyConfig {
        extra_roots_pem: None,
        listen: args.listen,
        upstream: args.upstream.parse()?,
        limits: ProxyLimits {
            connections_max: args.connections_max,
            ..ProxyLimits::default()
        },
    };
    start_log(context, LogFormat::Text)?;
    if let Err(error) = raise_descriptor_limit() {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::Io {
            doing: "start a runtime",
            source,
        })?;
    let ended = runtime.block_on(serve(config, args));
    runtime.shutdown_background();
    ended
}

async fn serve(config: ProxyConfig, args: &StreamProxyArgs) -> Result<u8, CliError> {
    let mut signals = Signals::listen()?;
    let proxy = Proxy::listen(config).await?;
    let address = proxy.address();
    if args.json {
        output::json(&ListeningJson { address })?;
    } else {
        say(&format!(
            "forwarding http://{address}/v1/stream/ and /api/stream/ to {}",
            args.upstream
        ));
    }
    if !address.ip().is_loopback() {
        tell(
            Tone::Warning,
            &format!(
                "others on the network reach {address}, and there is no TLS: they can read tokens and all that is sent"
            ),
        );
    }
    proxy.run(signals.next()).await;
    Ok(0)
}
