//! One call: sent, tried again while that is harmless, and ended by its deadline.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::retry::{Jitter, Repeat, pause_before_next};
use crate::{Client, ClientError, Result, RetryPolicy, answer};

/// No deadline is later than this, so that no sum of times is too large.
const DEADLINE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) fn from_now(duration: Duration) -> Instant {
    Instant::now() + duration.min(DEADLINE_MAX)
}

/// A call that was not made yet.
#[derive(Debug)]
pub(crate) struct Call<'client> {
    client: &'client Client,
    method: Method,
    url: Url,
    action: String,
    json: Option<Bytes>,
    deadline: Duration,
    repeat: Repeat,
}

impl<'client> Call<'client> {
    pub(crate) fn new(client: &'client Client, method: Method, url: Url, action: String) -> Self {
        let repeat = if method == Method::POST || method == Method::PATCH {
            Repeat::Harmful
        } else {
            Repeat::Harmless
        };
        Self {
            client,
            method,
            url,
            action,
            json: None,
            deadline: client.deadlines().request,
            repeat,
        }
    }

    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// A request that changes nothing when it is made a second time, although its method does not say so.
    pub(crate) fn repeatable(mut self) -> Self {
        self.repeat = Repeat::Harmless;
        self
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    pub(crate) fn body(mut self, body: &impl Serialize) -> Result<Self> {
        let json = serde_json::to_vec(body).map_err(|error| ClientError::Invalid {
            what: "request",
            problem: error.to_string(),
        })?;
        self.json = Some(Bytes::from(json));
        Ok(self)
    }

    /// The answer, read as JSON.
    pub(crate) async fn json<T: DeserializeOwned>(self) -> Result<T> {
        let action = self.action.clone();
        let bytes = self.whole().await?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Protocol {
            action,
            problem: error.to_string(),
        })
    }

    /// A list; null is an empty one.
    pub(crate) async fn list<T: DeserializeOwned>(self) -> Result<Vec<T>> {
        Ok(self.json::<Option<Vec<T>>>().await?.unwrap_or_default())
    }

    /// Only whether it succeeded.
    pub(crate) async fn done(self) -> Result<()> {
        self.whole().await.map(drop)
    }

    async fn whole(self) -> Result<Bytes> {
        let bytes_max = self.client.shared().settings.answer_bytes_max;
        let mut attempts = self.attempts();
        loop {
            let attempt = async {
                let response = self.once().await?;
                answer::read_whole(&self.action, response, bytes_max).await
            };
            match attempts.limit(&self.action, attempt).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => attempts.pause(error).await?,
            }
        }
    }

    /// The answer with its content still to come.
    pub(crate) async fn open(self) -> Result<Response> {
        let mut attempts = self.attempts();
        loop {
            match attempts.limit(&self.action, self.once()).await {
                Ok(response) => return Ok(response),
                Err(error) => attempts.pause(error).await?,
            }
        }
    }

    fn attempts(&self) -> Attempts {
        Attempts::new(
            self.client.shared().settings.retry,
            self.repeat,
            self.deadline,
        )
    }

    async fn once(&self) -> Result<Response> {
        let http = &self.client.shared().http;
        let mut request = http.request(self.method.clone(), self.url.clone());
        if let Some(json) = &self.json {
            request = request
                .header(reqwest::header::CONTENT_TYPE, "application/json")
                .body(json.clone());
        }
        send(self.client, &self.action, request).await
    }
}

/// Sends once, and makes an error of an answer that says no.
pub(crate) async fn send(
    client: &Client,
    action: &str,
    request: reqwest::RequestBuilder,
) -> Result<Response> {
    let response = request
        .send()
        .await
        .map_err(|error| answer::transport_error(action, error))?;
    answer::check(action, response, &client.shared().settings.api_key).await
}

/// How often a call was tried, and until when it may be.
#[derive(Debug)]
pub(crate) struct Attempts {
    policy: RetryPolicy,
    repeat: Repeat,
    allowed: Duration,
    until: Instant,
    made: u32,
}

impl Attempts {
    pub(crate) fn new(policy: RetryPolicy, repeat: Repeat, allowed: Duration) -> Self {
        Self {
            policy,
            repeat,
            allowed,
            until: from_now(allowed),
            made: 0,
        }
    }

    /// One attempt, ended by what is left of the time.
    pub(crate) async fn limit<T>(
        &mut self,
        action: &str,
        attempt: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.made += 1;
        match tokio::time::timeout_at(self.until, attempt).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(ClientError::Deadline {
                action: action.to_owned(),
                after: self.allowed,
            }),
        }
    }

    /// Waits until the next attempt, or gives the error back if there shall be none.
    pub(crate) async fn pause(&self, error: ClientError) -> Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        let pause = pause_before_next(
            self.policy,
            self.repeat,
            self.made,
            &error,
            left,
            Jitter::random(),
        );
        let Some(pause) = pause else {
            return Err(error);
        };
        tracing::debug!(attempt = self.made, ?pause, %error, "trying again");
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
