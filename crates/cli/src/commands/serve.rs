//! `holm serve`: from the command line to a server that listens, and to its end.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use holm_daytona_wire::Hidden;
use holm_sandbox_linux::{Engine, raise_descriptor_limit};
use holm_server::keys::{self, NewKey};
use holm_server::{
    BuildNetwork, LocalCalls, ServeError, Server, ServerConfig, ServerHandle, StreamsPlace,
    TlsFiles,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::Context;
use crate::args::{BuildReach, LogFormat, ServeArgs};
use crate::error::CliError;
use crate::output::{self, Tone, say, tell};

/// As shells say it of a program that SIGINT ended.
const EXIT_CUT_OFF: u8 = 130;

pub(crate) fn run(context: &Context, args: ServeArgs) -> Result<u8, CliError> {
    let format = args.log_format;
    let given_key = context.environment.text("HOLM_API_KEY")?.map(Hidden::new);
    let wanted_connections = args.connections_max;
    let mut config = config(context, args)?;
    start_log(context, format)?;
    // Forks, and therefore comes before the first thread.
    let engine = Engine::start().map_err(ServeError::from)?;
    match raise_descriptor_limit() {
        Ok(files) => {
            let wanted = wanted_connections.unwrap_or(config.limits.connections_max);
            let fitting = connections_that_fit(wanted, files);
            config.limits.connections_max = fitting;
            if wanted_connections.is_some_and(|wanted| fitting < wanted) {
                tracing::warn!(
                    wanted,
                    fitting,
                    "the system's limit of open files allows fewer connections: raise it (`ulimit -Hn`)"
                );
            }
        }
        Err(error) => tracing::warn!(%error, "the limit of open files stays as it is"),
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| ServeError::Runtime { source })?;
    let ended = runtime.block_on(serve(config, engine, given_key, format));
    // What still runs is cut off: it had its time, or a second signal took it.
    runtime.shutdown_background();
    ended
}

/// A quarter of the files that may be open is for sandboxes and databases: connections must not take it from them.
fn connections_that_fit(wanted: usize, files: Option<u64>) -> usize {
    let room = files.and_then(|files| usize::try_from(files - files / 4).ok());
    room.map_or(wanted, |room| wanted.min(room))
}

fn config(context: &Context, args: ServeArgs) -> Result<ServerConfig, CliError> {
    let data = context.server_data(args.server.data.as_deref())?;
    let mut config = ServerConfig::new(args.listen, data);
    config.tls = match (args.tls_cert, args.tls_key) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
        // The command line allows both or none.
        (Some(_) | None, _) => None,
    };
    config.ssh_listen = args.ssh_listen;
    config.public_url = args.public_url;
    config.preview_domain = args.preview_domain;
    config.toolchain_home = context.environment.home().map(Into::into);
    config.build_network = match args.build_network {
        BuildReach::None => BuildNetwork::None,
        BuildReach::Host => BuildNetwork::Host,
    };
    config.local_calls = if args.local_webhooks {
        LocalCalls::Allowed
    } else {
        LocalCalls::Refused
    };
    if let Some(url) = context.environment.text("HOLM_POSTGRES_URL")? {
        let url = Hidden::new(url);
        config.streams = StreamsPlace::Postgres { url };
    }
    config.blobs = args.blobs;
    config.long_poll_timeout = args.long_poll_timeout;
    config.limits.sandboxes_max = args.sandboxes_max;
    Ok(config)
}

pub(super) fn start_log(context: &Context, format: LogFormat) -> Result<(), CliError> {
    let wanted = context.environment.text("HOLM_LOG")?.unwrap_or("info");
    let filter = EnvFilter::try_new(wanted).map_err(|error| CliError::Refused {
        what: format!("`{wanted}` in HOLM_LOG says not what to log: {error}"),
        hint: Some("write it as `info` or `info,holm_server=debug`".to_owned()),
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(without_keys(filter))
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            let colours = anstream::AutoStream::choice(&std::io::stderr());
            log.with_ansi(colours != anstream::ColorChoice::Never)
                .with_target(false)
                .init();
        }
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// At its finest, the WebSocket library shows requests with the key in them.
fn without_keys(filter: EnvFilter) -> EnvFilter {
    let quieter = "tungstenite=debug".parse();
    match (filter.max_level_hint(), quieter) {
        (Some(LevelFilter::TRACE), Ok(quieter)) => filter.add_directive(quieter),
        (Some(_) | None, _) => filter,
    }
}

async fn serve(
    config: ServerConfig,
    engine: Engine,
    given_key: Option<Hidden>,
    format: LogFormat,
) -> Result<u8, CliError> {
    // From here on a signal ends the server in order, and not in the middle of its start.
    let mut signals = Signals::listen()?;
    let exposed = config.tls.is_none() && !config.listen.ip().is_loopback();
    let is_first_key_ours = given_key.is_none();
    let data = config.data.clone();
    let base = |address| base_url(&config, address);
    let server = Server::open(config.clone(), engine)?;
    let store = std::sync::Arc::clone(server.store());
    if !is_first_key_ours {
        keys::ensure(&store, given_key)?;
    }
    let handle = server.start().await?;
    let url = base(handle.address);
    match format {
        LogFormat::Text => say(&format!(
            "serving Daytona's API at {url}/api, with data in `{}`",
            data.display()
        )),
        LogFormat::Json => {
            tracing::info!(%url, address = %handle.address, data = %data.display(), "serving");
        }
    }
    if exposed {
        tell_exposed(handle.address, format);
    }
    if is_first_key_ours && let Some(key) = keys::ensure(&store, None)? {
        show_first_key(&url, &key)?;
    }
    signals.next().await;
    end(handle, signals, format).await
}

/// Stops in order, unless a second signal has no patience.
async fn end(
    handle: ServerHandle,
    mut signals: Signals,
    format: LogFormat,
) -> Result<u8, CliError> {
    let text =
        "stopping: requests in flight may end, sandboxes go on; press Ctrl-C again to stop at once";
    match format {
        LogFormat::Text => say(text),
        LogFormat::Json => tracing::info!("stopping"),
    }
    tokio::select! {
        () = handle.stop() => Ok(0),
        () = signals.next() => Ok(EXIT_CUT_OFF),
    }
}

fn show_first_key(url: &str, key: &NewKey) -> Result<(), CliError> {
    say("");
    say("This is your first API key. It is shown this once; `holm key create` makes others.");
    say("");
    output::raw(&format!(
        "  export DAYTONA_API_URL={url}/api\n  export DAYTONA_API_KEY={}\n",
        key.text.expose()
    ))?;
    say("");
    Ok(())
}

fn tell_exposed(address: SocketAddr, format: LogFormat) {
    let text = format!(
        "others on the network reach {address}, and there is no TLS: they can read keys and all that is sent"
    );
    match format {
        LogFormat::Text => {
            tell(Tone::Warning, &text);
            tell(
                Tone::Hint,
                "give --tls-cert and --tls-key, or listen at 127.0.0.1 behind a proxy that speaks TLS",
            );
        }
        LogFormat::Json => tracing::warn!("{text}"),
    }
}

/// What a client on this machine calls the server.
fn base_url(config: &ServerConfig, address: SocketAddr) -> String {
    if let Some(url) = &config.public_url {
        return url.clone();
    }
    let mut address = address;
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            address.set_ip(Ipv6Addr::LOCALHOST.into());
        }
        SocketAddr::V4(_) | SocketAddr::V6(_) => {}
    }
    let scheme = match config.tls {
        Some(_) => "https",
        None => "http",
    };
    format!("{scheme}://{address}")
}

/// The signals that ask for the end.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind).map_err(|source| CliError::Io {
                doing: "listen to signals",
                source,
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_sandboxes() {
        assert_eq!(connections_that_fit(16_384, None), 16_384);
        assert_eq!(connections_that_fit(16_384, Some(1 << 20)), 16_384);
        assert_eq!(connections_that_fit(16_384, Some(4_096)), 3_072);
    }
}
