//! What all commands about threads begin with: a server, a key, and something to wait on.

use holm_sandbox::Secret;
use holm_thread_client::{
    Client, Entry, Event, Live, Position, Reader, ReaderOptions, Settings, Thread, stream_name,
};

use super::Context;
use crate::error::CliError;

/// A thread that is written to faster than it is read is not waited for.
const ROUNDS_MAX: usize = 20;

/// Where `holm serve` listens if nobody says otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:3986/api";

impl Context {
    /// A client of the server that the environment names.
    pub(super) fn thread_client(&self) -> Result<Client, CliError> {
        let url = self
            .environment
            .text("HOLM_API_URL")?
            .unwrap_or(DEFAULT_URL);
        let key = self.environment.text("HOLM_API_KEY")?;
        let key = key.ok_or_else(|| CliError::Refused {
            what: "there is no key to ask the server with: HOLM_API_KEY is not set".to_owned(),
            hint: Some(
                "set it to the key that `holm serve` showed at its first start, or to one from `holm key create`"
                    .to_owned(),
            ),
        })?;
        Ok(Client::new(Settings::new(
            with_api(url),
            Secret::from(key),
        ))?)
    }
}

/// The address of the API: a server's own address is enough.
fn with_api(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let has_path = url
        .split_once("://")
        .is_some_and(|(_, rest)| rest.contains('/'));
    if has_path {
        url.to_owned()
    } else {
        format!("{url}/api")
    }
}

/// Reads the entries, then the row; and again what has come between them, until both are of one moment. `None` if they never are.
pub(super) async fn read_whole(
    client: &Client,
    thread: &str,
    mut take: impl FnMut(Entry) -> Result<(), CliError>,
) -> Result<Option<Thread>, CliError> {
    let stream = stream_name(thread)?;
    let mut position = Position::start();
    for _ in 0..ROUNDS_MAX {
        let options = ReaderOptions {
            from: position,
            live: Live::No,
            ..ReaderOptions::new(stream.clone())
        };
        let mut reader = Reader::new(client.clone(), options);
        while let Some(event) = reader.next().await? {
            if let Event::Entry(entry) = event {
                take(entry)?;
            }
        }
        position = reader.position().clone();
        // The thread as it is behind the last entry, and not behind one that has come since.
        let row = client.thread(thread).await?;
        if row.stream.next_offset == position.offset {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// Waits for something of the network.
pub(super) fn wait_for<T>(
    future: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::Io {
            doing: "start a runtime",
            source,
        })?;
    runtime.block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_own_address_is_enough() {
        for (given, used) in [
            ("http://127.0.0.1:3986", "http://127.0.0.1:3986/api"),
            ("http://127.0.0.1:3986/", "http://127.0.0.1:3986/api"),
            ("https://a.example/api/", "https://a.example/api"),
            ("https://a.example/x/api", "https://a.example/x/api"),
        ] {
            assert_eq!(with_api(given), used);
        }
    }
}
