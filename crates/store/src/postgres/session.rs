//! One connection, with the statements that it has prepared.
//!
//! A session that failed is dropped, and with it its transaction: nothing is mended in place.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Notification, Row, Statement};

use super::address::{Address, CONNECT_TIMEOUT};
use super::error::{Doing, PostgresError};

/// What the session is for, and what it asks of the database therefore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Committer,
    Reader,
    Listener,
}

/// Every query of ours has an index. A plan that was made while the tables were small must not outlive that.
const PLANS: &str =
    "SET jit = off; SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan;";

impl Role {
    fn settings(self, address: &Address) -> String {
        match self {
            // A committer that stalls in its turn, with all others waiting, loses it. What is acknowledged is on a disk,
            // whatever the database's default is; stricter settings (`remote_apply`) stay.
            Self::Committer => format!(
                "{PLANS} SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '{}ms';
                 SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
                TURN_STALL_MAX.as_millis()
            ),
            Self::Reader => format!("{PLANS} SET statement_timeout = '{}ms'", address.answer_timeout.as_millis()),
            Self::Listener => String::new(),
        }
    }
}

/// How long a committer may hold up the others without asking anything of the database.
const TURN_STALL_MAX: Duration = Duration::from_secs(5);

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

pub(super) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    ended: watch::Receiver<()>,
    statements: Mutex<HashMap<&'static str, Statement>>,
    answer_timeout: Duration,
    /// The process in the database.
    pub(super) process_id: i32,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("process_id", &self.process_id)
            .finish()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Closes the socket now, however the other end behaves.
        self.driver.abort();
    }
}

impl Session {
    pub(super) async fn connect(address: &Address, role: Role) -> Result<Self, PostgresError> {
        Self::connect_with(address, role, |_| {}).await
    }

    /// Hands over what other sessions notify this one of.
    pub(super) async fn connect_with(
        address: &Address,
        role: Role,
        notified: impl FnMut(Notification) + Send + 'static,
    ) -> Result<Self, PostgresError> {
        let opening = Self::open(address, role, notified);
        let fail = |source: Box<dyn std::error::Error + Send + Sync>| PostgresError::Connect {
            place: address.place.clone(),
            source,
        };
        match timeout(CONNECT_TIMEOUT, opening).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(source)) => Err(fail(source.into())),
            Err(elapsed) => Err(fail(elapsed.into())),
        }
    }

    async fn open(
        address: &Address,
        role: Role,
        mut notified: impl FnMut(Notification) + Send + 'static,
    ) -> Result<Self, tokio_postgres::Error> {
        let (client, mut connection) = address.config.connect(address.tls.clone()).await?;
        let (living, ended) = watch::channel(());
        let driver = tokio::spawn(async move {
            // An end or an error is seen by whoever asks something of the client.
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(notification) = message {
                    notified(notification);
                }
            }
            drop(living);
        });
        let mut session = Self {
            client,
            driver,
            ended,
            statements: Mutex::default(),
            answer_timeout: address.answer_timeout,
            process_id: 0,
        };
        session
            .client
            .batch_execute(&role.settings(address))
            .await?;
        session.process_id = session
            .client
            .query_one("SELECT pg_backend_pid()", &[])
            .await?
            .try_get(0)?;
        Ok(session)
    }

    /// Returns when the connection has ended.
    pub(super) async fn closed(&self) {
        // Nothing is ever sent: it ends with its sender.
        drop(self.ended.clone().changed().await);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs fixed text without parameters.
    pub(super) async fn run(&self, doing: &'static str, sql: &str) -> Result<(), PostgresError> {
        self.answered(self.client.batch_execute(sql))
            .await?
            .doing(doing)
    }

    pub(super) async fn query(
        &self,
        doing: &'static str,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, PostgresError> {
        let statement = self.answered(self.statement(sql)).await?.doing(doing)?;
        self.answered(self.client.query(&statement, parameters))
            .await?
            .doing(doing)
    }

    pub(super) async fn execute(
        &self,
        doing: &'static str,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<u64, PostgresError> {
        let statement = self.answered(self.statement(sql)).await?.doing(doing)?;
        self.answered(self.client.execute(&statement, parameters))
            .await?
            .doing(doing)
    }

    /// Prepares statements ahead of time, so that those that are sent together arrive in the order in which they are sent.
    pub(super) async fn prepare(&self, statements: &[&'static str]) -> Result<(), PostgresError> {
        for sql in statements {
            self.answered(self.statement(sql))
                .await?
                .doing("prepare a statement")?;
        }
        Ok(())
    }

    async fn statement(&self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let prepared = || {
            self.statements
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(statement) = prepared().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        prepared().insert(sql, statement.clone());
        Ok(statement)
    }

    async fn answered<T>(&self, asking: impl Future<Output = T>) -> Result<T, PostgresError> {
        timeout(self.answer_timeout, asking)
            .await
            .map_err(|_| PostgresError::Silent)
    }
}
