//! The store in Postgres, against a real one.

mod bad_input;
mod contract;
mod crashes;
mod load;
mod lost_connections;
mod migrations;
mod model;
mod proxy;
mod tls;
mod two_servers;
mod unprivileged;

use std::sync::Arc;

use holm_store::{PostgresOptions, PostgresStreams};
use holm_testkit::PostgresServer;

use crate::contract::tally::Tally;

/// A store over a server's database; or over the same through a proxy.
pub(crate) async fn connect(url: &str) -> PostgresStreams {
    PostgresStreams::connect(url, Arc::new(Tally), PostgresOptions::default())
        .await
        .expect("connect to postgres")
}

/// A server and a store over it; nothing, and loudly so, where there is no Postgres.
pub(crate) async fn start() -> Option<(PostgresStreams, PostgresServer)> {
    let server = PostgresServer::start()?;
    Some((connect(&server.url()).await, server))
}

/// A client of a test's own, which looks into tables.
pub(crate) async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .expect("connect");
    tokio::spawn(async move { drop(connection.await) });
    client
}
