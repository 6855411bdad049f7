//! Servers tell each other which streams have changed.
//!
//! A batch notifies once, inside of its transaction: the database hands it on after the commit. It names the server, which has woken its
//! own readers already, and the streams. While the listening session is away everything may have changed, and everybody is woken.

use std::collections::BTreeSet;
use std::time::Duration;

use holm_thread_log::{Hub, StreamName};
use tokio::time::sleep;
use uuid::Uuid;

use super::address::Address;
use super::error::PostgresError;
use super::session::{Role, Session};

const CHANNEL: &str = "holm_log";

/// Postgres takes less than 8000 bytes in one notification.
const PAYLOAD_BYTES_MAX: usize = 7900;

/// How often the listener asks whether its session still lives: nothing else would be heard from a dead one.
const HEARTBEAT: Duration = Duration::from_secs(5);
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// This server's voice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announcement {
    server: Uuid,
}

impl Announcement {
    pub(super) fn new() -> Self {
        Self {
            server: Uuid::new_v4(),
        }
    }

    /// By which the sessions of this server are known in the database.
    pub(super) fn application_name(self) -> String {
        format!("holm-{}", self.server)
    }

    pub(super) async fn send(
        self,
        session: &Session,
        names: &BTreeSet<StreamName>,
    ) -> Result<(), PostgresError> {
        if names.is_empty() {
            return Ok(());
        }
        let payloads = self.payloads(names);
        let sql = "SELECT pg_notify('holm_log', payload) FROM unnest($1::text[]) AS payload";
        session
            .query("notify other servers", sql, &[&payloads])
            .await?;
        Ok(())
    }

    /// Names have no spaces. One payload is enough for a hundred of them.
    fn payloads(self, names: &BTreeSet<StreamName>) -> Vec<String> {
        let mut payloads = Vec::new();
        let mut payload = self.server.to_string();
        let empty = payload.len();
        for name in names {
            if payload.len() > empty && payload.len() + 1 + name.as_str().len() > PAYLOAD_BYTES_MAX
            {
                payloads.push(std::mem::replace(&mut payload, self.server.to_string()));
            }
            payload.push(' ');
            payload.push_str(name.as_str());
        }
        payloads.push(payload);
        payloads
    }

    fn hear(self, payload: &str, hub: &Hub) {
        let mut words = payload.split(' ');
        let own = words
            .next()
            .is_some_and(|server| server == self.server.to_string());
        if own {
            return;
        }
        let names: Result<Vec<StreamName>, _> = words.map(str::parse).collect();
        match names {
            Ok(names) if !names.is_empty() => hub.wake(&names),
            // From somebody who says more than we know.
            Ok(_) | Err(_) => hub.wake_all(),
        }
    }
}

/// Listens for ever, on one session after another; the first one is there already.
pub(super) async fn listen(
    mut session: Session,
    address: Address,
    announcement: Announcement,
    hub: Hub,
) {
    loop {
        until_lost(&session).await;
        drop(session);
        tracing::warn!("the database no longer says what changes: listening again");
        session = begin_again(&address, announcement, &hub).await;
        // Whatever was announced until now was not heard.
        hub.wake_all();
    }
}

async fn begin_again(address: &Address, announcement: Announcement, hub: &Hub) -> Session {
    let mut backoff = BACKOFF_MIN;
    loop {
        match begin(address, announcement, hub).await {
            Ok(session) => return session,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "could not listen for changes"
                );
                sleep(backoff).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
    }
}

/// Returns when nothing that is announced from now on is missed.
pub(super) async fn begin(
    address: &Address,
    announcement: Announcement,
    hub: &Hub,
) -> Result<Session, PostgresError> {
    let woken = hub.clone();
    let notified = move |notification: tokio_postgres::Notification| {
        if notification.channel() == CHANNEL {
            announcement.hear(notification.payload(), &woken);
        }
    };
    let session = Session::connect_with(address, Role::Listener, notified).await?;
    session.run("listen for changes", "LISTEN holm_log").await?;
    Ok(session)
}

async fn until_lost(session: &Session) {
    loop {
        tokio::select! {
            () = session.closed() => return,
            () = sleep(HEARTBEAT) => {}
        }
        if session
            .run("see whether the session lives", "SELECT 1")
            .await
            .is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_fit() {
        let names: BTreeSet<StreamName> = (0..40)
            .map(|number| format!("{number}{}", "x".repeat(500)).parse().unwrap())
            .collect();
        let payloads = Announcement::new().payloads(&names);
        assert_eq!(payloads.len(), 3);
        assert!(payloads.iter().all(|payload| payload.len() < 8000));
        let said: BTreeSet<StreamName> = payloads
            .iter()
            .flat_map(|payload| payload.split(' ').skip(1))
            .map(|name| name.parse().unwrap())
            .collect();
        assert_eq!(said, names);
    }
}
