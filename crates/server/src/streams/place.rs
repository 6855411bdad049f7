//! Where streams are kept, and how those whose time is over leave.

use std::sync::Arc;
use std::time::Duration;

use holm_store::{PostgresOptions, PostgresStreams, SqliteOptions, SqliteStreams};
use holm_thread_log::threads::ThreadRules;
use holm_thread_log::{Rules, StoreError, StreamStore};

use super::now;
use crate::config::{ServerConfig, StreamsPlace};
use crate::error::{ServeError, chain};

/// Opens the streams of a server.
pub(crate) async fn open(config: &ServerConfig) -> Result<Arc<dyn StreamStore>, ServeError> {
    let rules: Arc<dyn Rules> = Arc::new(ThreadRules);
    match &config.streams {
        StreamsPlace::Sqlite => {
            let options = SqliteOptions {
                rules,
                fail_stop: Arc::new(|reason| {
                    tracing::error!(
                        reason = %chain(reason),
                        "nobody can say what is on the disk: the server ends, and its next start finds out"
                    );
                    std::process::abort();
                }),
                ..SqliteOptions::default()
            };
            let path = config.database();
            let opened = tokio::task::spawn_blocking(move || SqliteStreams::open(&path, options));
            let opened = opened.await.map_err(|error| ServeError::Runtime {
                source: std::io::Error::other(error),
            })?;
            Ok(Arc::new(opened?))
        }
        StreamsPlace::Postgres { url } => {
            let options = PostgresOptions::default();
            let opened = PostgresStreams::connect(url.expose(), rules, options).await;
            Ok(Arc::new(opened?))
        }
    }
}

/// Removes streams whose time is over, for as long as the server lives.
pub(crate) async fn run_sweeps(streams: Arc<dyn StreamStore>, tick: Duration) {
    let tell = |error: &StoreError| {
        tracing::warn!(error = %chain(error), "expired streams were not removed");
    };
    holm_store::sweep(streams, now, tick, tell).await;
}
