//! Making a sandbox exactly once, although answers get lost.
//!
//! ```text
//! POST ──answer──▶ made
//!   └──no answer──▶ GET by name ──found, with our label──▶ made
//!        ▲                └──not there──┐
//!        └───────────────pause──────────┘        up to TRIES_MAX times, within the deadline
//! ```
//!
//! Every request has a name, made here if the caller gives none, and a label whose value nobody else has. Servers refuse a
//! name that is taken, so that asking again cannot make a second sandbox; the label tells ours from one of the same name.

use std::time::Duration;

use holm_daytona_wire::sandbox::{CreateSandbox, Sandbox};
use reqwest::Method;
use tokio::time::Instant;

use crate::request::from_now;
use crate::retry::Jitter;
use crate::{Client, ClientError, Deletion, Result};

/// The label that tells which request made a sandbox.
const REQUEST_LABEL: &str = "holm.request";
const TRIES_MAX: u32 = 3;
/// Between asking in vain for what a lost answer may have made, and asking for it to be made again.
const PAUSE: Duration = Duration::from_millis(500);
/// For removing what a failed request may have left.
const DISCARD_DEADLINE: Duration = Duration::from_secs(10);

/// A request for a sandbox that can be found again.
#[derive(Debug, Clone)]
pub struct PreparedCreate {
    request: CreateSandbox,
    name: String,
    mark: String,
}

impl PreparedCreate {
    pub fn new(mut request: CreateSandbox) -> Self {
        let mark = uuid::Uuid::new_v4().simple().to_string();
        let name = request
            .name
            .clone()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| format!("holm-{mark}"));
        request.name = Some(name.clone());
        request
            .labels
            .insert(REQUEST_LABEL.to_owned(), mark.clone());
        Self {
            request,
            name,
            mark,
        }
    }

    /// What the sandbox is called; written down before the call, it finds an orphan after a crash.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn request(&self) -> &CreateSandbox {
        &self.request
    }

    fn made(&self, sandbox: &Sandbox) -> bool {
        sandbox.labels.get(REQUEST_LABEL) == Some(&self.mark)
    }
}

impl Client {
    /// Makes a sandbox, which may not have started yet when this answers. If that fails, none is left behind as far as
    /// the server can still be reached.
    pub async fn create(&self, request: CreateSandbox) -> Result<Sandbox> {
        let prepared = PreparedCreate::new(request);
        let outcome = self.create_prepared(&prepared).await;
        if let Err(error) = &outcome
            && error.may_have_happened()
        {
            self.discard_prepared_quietly(&prepared).await;
        }
        outcome
    }

    /// Makes a sandbox and waits until it has started. One that does not start is deleted.
    pub async fn create_started(
        &self,
        request: CreateSandbox,
        patience: Duration,
    ) -> Result<Sandbox> {
        let until = from_now(patience);
        let made = self.create(request).await?;
        let left = until.saturating_duration_since(Instant::now());
        let outcome = self.wait_if_not_started(made.clone(), left).await;
        if outcome.is_err()
            && let Err(error) = self.delete(&made.id).await
        {
            tracing::warn!(sandbox = made.id, %error, "a sandbox that did not start is left behind");
        }
        outcome
    }

    /// Like [`Client::create`], for callers that keep the name. After an error that may have happened, call
    /// [`Client::discard_prepared`], now or after the next start.
    pub async fn create_prepared(&self, prepared: &PreparedCreate) -> Result<Sandbox> {
        let deadline = self.deadlines().create;
        let until = from_now(deadline);
        let mut tries = 0;
        loop {
            tries += 1;
            // Half of it, so that there is time to look for what a lost answer made.
            let left = until.saturating_duration_since(Instant::now());
            let call = self
                .call(Method::POST, &["sandbox"], "create a sandbox")?
                .deadline(left.min(deadline / 2))
                .body(&prepared.request)?;
            let error = match call.json::<Sandbox>().await {
                Ok(made) if !made.id.is_empty() => return Ok(made),
                Ok(_) => ClientError::Protocol {
                    action: "create a sandbox".to_owned(),
                    problem: "the sandbox has no id".to_owned(),
                },
                Err(error) => error,
            };
            // A name that is taken may be taken by an earlier try.
            let may_exist = error.may_have_happened() || (error.is_conflict() && tries > 1);
            if !may_exist {
                return Err(error);
            }
            tracing::debug!(name = prepared.name, %error, "looking for a sandbox whose answer was lost");
            match self.find_prepared(prepared).await {
                Ok(Some(made)) => return Ok(made),
                Ok(None) if error.is_conflict() => return Err(error),
                Ok(None) => {}
                Err(_unreachable) => return Err(error),
            }
            let pause = Jitter::random().spread(PAUSE);
            if tries == TRIES_MAX || Instant::now() + pause >= until {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The sandbox that a request has made, if it has.
    pub async fn find_prepared(&self, prepared: &PreparedCreate) -> Result<Option<Sandbox>> {
        let found = self.find(&prepared.name).await?;
        Ok(found.filter(|sandbox| prepared.made(sandbox)))
    }

    /// Deletes what a request has made, if it has.
    pub async fn discard_prepared(&self, prepared: &PreparedCreate) -> Result<Deletion> {
        match self.find_prepared(prepared).await? {
            Some(sandbox) => self.delete(&sandbox.id).await,
            None => Ok(Deletion::AlreadyGone),
        }
    }

    async fn discard_prepared_quietly(&self, prepared: &PreparedCreate) {
        let discarded = self.discard_prepared(prepared);
        match tokio::time::timeout(DISCARD_DEADLINE, discarded).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(name = prepared.name, %error, "a sandbox may be left behind");
            }
            Err(_elapsed) => {
                tracing::warn!(name = prepared.name, "a sandbox may be left behind");
            }
        }
    }
}
