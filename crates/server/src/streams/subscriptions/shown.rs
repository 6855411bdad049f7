//! Subscriptions as their owners see them.

use holm_thread_log::Timestamp;
use holm_thread_log::subscription::{Kind, LinkType, Subscription, Tails};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::secrets::Secrets;

/// What stands for itself in a part of a path.
const PART: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

pub(super) fn subscription(subscription: &Subscription, secrets: &Secrets) -> Value {
    let definition = &subscription.definition;
    let streams: Vec<Value> = subscription
        .standings(&Tails::new())
        .iter()
        .map(|standing| {
            json!({
                "path": standing.path,
                "link_type": link_type(standing.link_type),
                "acked_offset": standing.acked,
            })
        })
        .collect();
    let mut shown = json!({
        "id": subscription.id,
        "subscription_id": subscription.id,
        "type": match definition.kind {
            Kind::Webhook { .. } => "webhook",
            Kind::PullWake { .. } => "pull-wake",
        },
        "streams": streams,
        "lease_ttl_ms": definition.lease_milliseconds,
        "created_at": Timestamp(subscription.created_at).to_string(),
        "status": if subscription.failures == 0 { "active" } else { "failed" },
    });
    if let Some(pattern) = &definition.pattern {
        shown["pattern"] = json!(pattern);
    }
    if let Some(description) = &definition.description {
        shown["description"] = json!(description);
    }
    match &definition.kind {
        Kind::Webhook { url } => {
            shown["webhook"] = json!({
                "url": url,
                "signing": {
                    "alg": "ed25519",
                    "kid": secrets.key_id,
                    "jwks_url": format!("{}/v1/stream/__ds/jwks.json", subscription.base_url),
                },
            });
        }
        Kind::PullWake { wake_stream } => shown["wake_stream"] = json!(wake_stream),
    }
    shown
}

/// Where the streams of a subscription stand, for whoever works on them.
pub(super) fn standings(subscription: &Subscription, tails: &Tails) -> Vec<Value> {
    let standings = subscription.standings(tails);
    let shown = standings.iter().map(|standing| {
        json!({
            "path": standing.path,
            "link_type": link_type(standing.link_type),
            "acked_offset": standing.acked,
            "tail_offset": standing.tail,
            "has_pending": standing.is_pending(),
        })
    });
    shown.collect()
}

fn link_type(link_type: LinkType) -> &'static str {
    match link_type {
        LinkType::Glob => "glob",
        LinkType::Explicit => "explicit",
    }
}

/// Where a subscriber does something.
pub(super) fn action_url(subscription: &Subscription, action: &str) -> String {
    let id = utf8_percent_encode(&subscription.id, PART);
    format!(
        "{}/v1/stream/__ds/subscriptions/{id}/{action}",
        subscription.base_url
    )
}
