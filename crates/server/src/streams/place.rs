//! Where streams are kept, and how those whose time is over leave.

use std::sync::Arc;
use std::time::Duration;

use holm_store::{PostgresOptions, PostgresStreams, SqliteOptions, SqliteStreams};
use holm_thread_log::threads::ThreadRules;
use holm_thread_log::{Command, Rules, StreamStore};
use tokio::time::MissedTickBehavior;

use super::now;
use crate::config::{ServerConfig, StreamsPlace};
use crate::error::{ServeError, chain};

/// Streams that are removed in one go.
const SWEPT_MAX: usize = 100;

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

/// Removes streams whose time is over, for as long as the server lives. Nobody sees them any more; this gives their space back.
pub(crate) async fn run_sweeps(streams: Arc<dyn StreamStore>, tick: Duration) {
    let mut clock = tokio::time::interval(tick);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        if let Err(error) = sweep(&*streams).await {
            tracing::warn!(error = %chain(&error), "expired streams were not removed");
        }
    }
}

async fn sweep(streams: &dyn StreamStore) -> holm_thread_log::Result<()> {
    loop {
        let names = streams.overdue(now(), SWEPT_MAX).await?;
        let is_last = names.len() < SWEPT_MAX;
        for name in names {
            // It may have been renewed or removed meanwhile.
            drop(streams.apply(Command::Expire { name }, now()).await?);
        }
        if is_last {
            return Ok(());
        }
    }
}
