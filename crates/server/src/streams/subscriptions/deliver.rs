//! Carries a wake to a subscriber that wants to be called.

use std::sync::Arc;

use holm_thread_log::subscription::{After, Kind, Problem, Subscription};
use serde_json::json;

use super::super::now;
use super::calls::{CallError, Callee};
use super::keeper::{Keeper, Result};
use super::shown;
use super::wakes::log;
use crate::accept::{Stop, reached};
use crate::error::chain;

/// For how long a call belongs to the server that makes it: longer than it can take.
pub(super) const ATTEMPT_MILLISECONDS: i64 = 15_000;

impl Keeper {
    /// Calls, beside everything else; what comes of it is stored.
    pub(super) fn deliver(self: &Arc<Self>, subscription: Subscription) {
        let keeper = Arc::clone(self);
        tokio::spawn(async move {
            let mut stopping = keeper.stopping.clone();
            // A call that is cut off here is made again by the next server.
            tokio::select! {
                called = keeper.call(&subscription) => if let Err(failure) = called {
                    log(&failure);
                },
                () = reached(&mut stopping, Stop::Drain) => {}
            }
        });
    }

    async fn call(self: &Arc<Self>, subscription: &Subscription) -> Result<()> {
        // Never closed.
        let permit = Arc::clone(&self.calls).acquire_owned().await;
        let Kind::Webhook { url } = &subscription.definition.kind else {
            return Ok(());
        };
        let (organization, id) = (&subscription.organization, &subscription.id);
        let generation = subscription.generation;
        let secrets = self.secrets().await?;
        let tails = self.tails(subscription).await?;
        let token = secrets.token(organization, id, generation, now());
        let body = json!({
            "subscription_id": id,
            "wake_id": subscription.wake.as_ref().map(|wake| &wake.id),
            "generation": generation,
            "streams": shown::standings(subscription, &tails),
            "callback_url": shown::action_url(subscription, "callback"),
            "callback_token": token,
        });
        let body = body.to_string();
        let signature = secrets.signature(&body, now());
        let called = match Callee::parse(url, self.local_calls) {
            Ok(callee) => {
                let gateway = &self.making.outside.gateway;
                callee.call(gateway, body, &signature).await
            }
            // The operator has changed what may be called.
            Err(error) => Err(CallError::Refused(error)),
        };
        drop(permit);
        let jitter_percent = jitter();
        let settled = self.change(organization, id, |subscription, tails| {
            Ok::<_, Problem>(match &called {
                Ok(done) => subscription.answered(generation, *done, tails, now()),
                Err(_) => {
                    subscription.unanswered(generation, jitter_percent, now());
                    After::Nothing
                }
            })
        });
        let (after, _) = settled.await?;
        if let Err(error) = &called {
            let cause = chain(error);
            tracing::info!(subscription = id, cause, "a subscriber was not reached");
        }
        match after {
            After::Wake => self.advance(organization, id, None).await,
            After::Nothing => Ok(()),
        }
    }
}

/// From -20 to 20, so that those who failed together do not come again together.
fn jitter() -> i64 {
    let random = u64::from_str_radix(&holm_sandbox_linux::random_hex(), 16).unwrap_or_default();
    i64::try_from(random % 41).unwrap_or_default() - 20
}
