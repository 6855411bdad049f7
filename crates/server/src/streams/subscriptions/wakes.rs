//! Who is to be woken, and when.
//!
//! ```text
//!     streams change ──feed──▶ whose is it? ──▶ advance: expire, link, begin ──▶ one write ──▶ call, or an entry in the wake stream
//!     a clock ──────────────▶ whose time is over? ──┘
//! ```
//!
//! At the start, and when changes were missed, everything is compared.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_thread_log::subscription::{After, Kind, LinkType, Subscription};
use holm_thread_log::{
    Append, Command, ContentType, DocumentWrite, Ending, Expect, Fed, Message, Offset, Payload,
    Refusal, StreamName,
};
use serde_json::json;
use tokio::time::MissedTickBehavior;

use super::super::access::shown_name;
use super::super::now;
use super::deliver::ATTEMPT_MILLISECONDS;
use super::keeper::{Failure, Keeper, Put, Result, WAITING, content, key, link, wake_id};
use crate::error::chain;

/// How often clocks are looked at; leases have at least twice as much.
const TICK: Duration = Duration::from_millis(500);
/// How often a step is tried again that somebody else was faster with.
const TRIES_MAX: usize = 20;

impl Keeper {
    /// Follows the streams and the clock, for as long as the server lives. Without subscriptions, nobody need hear of each append.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            while !self.are_there_any().await {
                // Another server may make one, and hears of its streams itself; so there is time.
                drop(tokio::time::timeout(TICK, self.made.notified()).await);
            }
            self.follow().await;
        }
    }

    /// Until there are no subscriptions any more.
    async fn follow(self: &Arc<Self>) {
        let mut feed = self.streams.feed();
        // What happened before the feed began is found by comparing.
        self.compare_all().await;
        let mut clock = tokio::time::interval(TICK);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                fed = feed.next() => match fed {
                    Fed::Changed(name) => self.grown(&name).await,
                    Fed::Missed => self.compare_all().await,
                },
                _ = clock.tick() => {
                    if !self.are_there_any().await {
                        return;
                    }
                    self.look_at_clocks().await;
                }
            }
        }
    }

    async fn are_there_any(&self) -> bool {
        let any = self.page(Vec::new(), None, 1).await;
        match any {
            Ok(page) => !page.is_empty(),
            // Then there may be.
            Err(failure) => {
                log(&failure);
                true
            }
        }
    }

    /// Takes a subscription as far as it goes now: takes back what is over, adds a stream that has grown, begins a wake.
    pub(super) async fn advance(
        self: &Arc<Self>,
        organization: &str,
        id: &str,
        grown: Option<&StreamName>,
    ) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let (version, mut subscription) = match self.load(organization, id).await {
                Err(Failure::NotFound) => return Ok(()),
                loaded => loaded?,
            };
            let before = subscription.clone();
            subscription.expire(now());
            if let Some(name) = grown {
                let tail = self.tail(organization, name.as_str()).await?;
                if tail.is_some() && subscription.wants(name) {
                    link(
                        &mut subscription,
                        name.as_str(),
                        LinkType::Glob,
                        Offset::START,
                    )?;
                }
                let is_news = match (subscription.links.get(name.as_str()), tail) {
                    (Some(link), Some(tail)) => tail > link.acked,
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                if !is_news && subscription == before {
                    return Ok(());
                }
            }
            let mut after = After::Nothing;
            if subscription.wake.is_none() {
                let tails = self.tails(&subscription).await?;
                // What the pattern was for is gone.
                subscription.links.retain(|name, link| {
                    link.by.contains(&LinkType::Explicit) || tails.contains_key(name)
                });
                after = subscription.begin(&tails, wake_id(), now());
            }
            let is_to_be_called = subscription
                .take_attempt(now(), ATTEMPT_MILLISECONDS)
                .is_some();
            let put = match (&subscription.definition.kind, after) {
                (Kind::PullWake { wake_stream }, After::Wake) => {
                    self.announce(version, &before, &subscription, wake_stream)
                        .await?
                }
                (Kind::PullWake { .. } | Kind::Webhook { .. }, _) => {
                    self.put(version, &before, &subscription).await?
                }
            };
            match put {
                Put::TooLate => {}
                Put::Done => {
                    if is_to_be_called {
                        self.deliver(subscription);
                    }
                    return Ok(());
                }
            }
        }
        Err(Failure::Contended)
    }

    /// Tells workers of a wake: the entry and the subscription's new state are stored together, or neither.
    async fn announce(
        &self,
        version: u64,
        before: &Subscription,
        subscription: &Subscription,
        wake_stream: &str,
    ) -> Result<Put> {
        let trigger = subscription.wake.as_ref().map(|wake| wake.trigger.as_str());
        let event = json!({
            "type": "wake",
            "subscription_id": subscription.id,
            "stream": trigger,
            "generation": subscription.generation,
            "ts": now().0,
        });
        let name = self.stored(&subscription.organization, wake_stream)?;
        let append = Append {
            name,
            content_type: Some(ContentType::json()),
            payload: Some(Payload::Messages(vec![Message::from(Bytes::from(
                event.to_string(),
            ))])),
            producer: None,
            stream_seq: None,
            ending: Ending::Open,
            writer: None,
            documents: vec![DocumentWrite {
                key: key(&subscription.organization, &subscription.id),
                expect: Expect::Version(version),
                content: Some(content(subscription)?),
            }],
        };
        match self.streams.apply(Command::Append(append), now()).await? {
            Ok(_) => Ok(Put::Done),
            Err(Refusal::DocumentChanged { .. }) => Ok(Put::TooLate),
            Err(refusal) => {
                // Its owner has to make the stream. Until then nobody is told, and workers may still claim.
                tracing::debug!(
                    subscription = subscription.id,
                    wake_stream,
                    %refusal,
                    "a wake could not be announced"
                );
                let quiet = Subscription {
                    wake: None,
                    generation: before.generation,
                    ..subscription.clone()
                };
                self.put(version, before, &quiet).await
            }
        }
    }

    /// A stream has changed.
    async fn grown(self: &Arc<Self>, stored: &StreamName) {
        let Some((organization, name)) = shown_name(stored) else {
            return;
        };
        let known = match self.of(organization).await {
            Ok(known) => known,
            Err(failure) => return log(&failure),
        };
        let concerned = known
            .iter()
            .filter(|known| known.links.contains_key(name.as_str()) || known.wants(&name));
        for subscription in concerned {
            let id = &subscription.id;
            if let Err(failure) = self.advance(organization, id, Some(&name)).await {
                log(&failure);
            }
        }
    }

    async fn look_at_clocks(self: &Arc<Self>) {
        let waiting = match self.list(vec![WAITING.to_owned()]).await {
            Ok(waiting) => waiting,
            Err(failure) => return log(&failure),
        };
        let now = now().0;
        let is_over =
            |known: &&Subscription| known.deadline().is_some_and(|deadline| deadline <= now);
        for known in waiting.iter().filter(is_over) {
            if let Err(failure) = self.advance(&known.organization, &known.id, None).await {
                log(&failure);
            }
        }
    }

    async fn compare_all(self: &Arc<Self>) {
        self.forget_all();
        let all = match self.list(Vec::new()).await {
            Ok(all) => all,
            Err(failure) => return log(&failure),
        };
        for subscription in &all {
            let compared = async {
                self.compare(subscription).await?;
                let (organization, id) = (&subscription.organization, &subscription.id);
                self.advance(organization, id, None).await
            };
            if let Err(failure) = compared.await {
                log(&failure);
            }
        }
    }

    /// Adds streams that its pattern is for and that it does not know.
    pub(super) async fn compare(&self, subscription: &Subscription) -> Result<()> {
        let wanted = self.wanted(subscription).await?;
        let is_new = |name: &String| !subscription.links.contains_key(name);
        if !wanted.keys().any(is_new) {
            return Ok(());
        }
        let (organization, id) = (&subscription.organization, &subscription.id);
        self.change(organization, id, |subscription, _| {
            for name in wanted.keys() {
                if !subscription.link(name, LinkType::Glob, Offset::START) {
                    tracing::warn!(id, "a subscription is for more streams than it may have");
                    break;
                }
            }
            Ok(())
        })
        .await?;
        Ok(())
    }
}

pub(super) fn log(failure: &Failure) {
    match failure {
        Failure::Store(error) => {
            tracing::error!(error = %chain(error), "subscriptions could not be looked at");
        }
        failure @ (Failure::NotFound
        | Failure::Problem(_)
        | Failure::TooMany(_)
        | Failure::Differs
        | Failure::Contended
        | Failure::Internal) => {
            tracing::warn!(?failure, "a subscription could not be advanced");
        }
    }
}
