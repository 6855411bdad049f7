//! What subscribers send, read strictly.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::pattern::Pattern;
use super::{Definition, Kind, LINKS_MAX};
use crate::name::StreamName;
use crate::offset::Offset;

const LEASE_DEFAULT_MILLISECONDS: i64 = 30_000;
const LEASE_MILLISECONDS: std::ops::RangeInclusive<i64> = 1_000..=600_000;
const TEXT_LENGTH_MAX: usize = 2_048;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefineError {
    #[error("the body is no subscription: {0}")]
    Malformed(String),
    #[error("`type` is `webhook` or `pull-wake`")]
    Type,
    #[error("one of `pattern` and `streams` is needed")]
    Nothing,
    #[error("{0}")]
    Pattern(#[from] super::PatternError),
    #[error("`streams` may have up to {LINKS_MAX} names of streams: `{0}` is none")]
    Stream(String),
    #[error("`lease_ttl_ms` is a whole number from 1000 to 600000")]
    Lease,
    #[error("a subscription of the type `webhook` needs `webhook.url`")]
    Url,
    #[error("a subscription of the type `pull-wake` needs `wake_stream`, the name of a stream")]
    WakeStream,
    #[error("`description` is longer than {TEXT_LENGTH_MAX} bytes")]
    Description,
}

/// The body that makes a subscription.
#[derive(Debug, Clone, Deserialize)]
pub struct Define {
    #[serde(rename = "type")]
    kind: Option<String>,
    pattern: Option<String>,
    streams: Option<Vec<String>>,
    webhook: Option<WebhookBody>,
    wake_stream: Option<String>,
    lease_ttl_ms: Option<serde_json::Value>,
    description: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct WebhookBody {
    url: Option<String>,
}

impl Define {
    pub fn parse(body: &[u8]) -> Result<Definition, DefineError> {
        let malformed = |error: serde_json::Error| DefineError::Malformed(error.to_string());
        let body: Self = serde_json::from_slice(body).map_err(malformed)?;
        body.definition()
    }

    fn definition(self) -> Result<Definition, DefineError> {
        let kind = match self.kind.as_deref() {
            Some("webhook") => Kind::Webhook {
                url: self
                    .webhook
                    .and_then(|webhook| webhook.url)
                    .filter(|url| (1..=TEXT_LENGTH_MAX).contains(&url.len()))
                    .ok_or(DefineError::Url)?,
            },
            Some("pull-wake") => Kind::PullWake {
                wake_stream: self
                    .wake_stream
                    .and_then(|name| relative(&name))
                    .ok_or(DefineError::WakeStream)?,
            },
            Some(_) | None => return Err(DefineError::Type),
        };
        let pattern = self.pattern.filter(|pattern| !pattern.is_empty());
        let pattern: Option<Pattern> = pattern.map(|text| text.parse()).transpose()?;
        let streams = names(self.streams.unwrap_or_default())?;
        if pattern.is_none() && streams.is_empty() {
            return Err(DefineError::Nothing);
        }
        let lease_milliseconds = match self.lease_ttl_ms {
            None => LEASE_DEFAULT_MILLISECONDS,
            Some(value) => value
                .as_i64()
                .filter(|lease| LEASE_MILLISECONDS.contains(lease))
                .ok_or(DefineError::Lease)?,
        };
        if self
            .description
            .as_ref()
            .is_some_and(|text| text.len() > TEXT_LENGTH_MAX)
        {
            return Err(DefineError::Description);
        }
        Ok(Definition {
            kind,
            pattern,
            streams,
            lease_milliseconds,
            description: self.description,
        })
    }

    /// The body that adds streams: names, checked and sorted.
    pub fn parse_streams(body: &[u8]) -> Result<Vec<String>, DefineError> {
        #[derive(Deserialize)]
        struct Body {
            streams: Vec<String>,
        }
        let malformed = |error: serde_json::Error| DefineError::Malformed(error.to_string());
        let body: Body = serde_json::from_slice(body).map_err(malformed)?;
        names(body.streams)
    }
}

/// A name as subscribers write it, where slashes at the ends say nothing.
pub(super) fn relative(text: &str) -> Option<String> {
    let trimmed = text.trim_matches('/');
    let name: Result<StreamName, _> = trimmed.parse();
    name.ok().map(|name| name.as_str().to_owned())
}

fn names(texts: Vec<String>) -> Result<Vec<String>, DefineError> {
    if texts.len() > LINKS_MAX {
        return Err(DefineError::Stream("…".to_owned()));
    }
    let mut names = BTreeSet::new();
    for text in texts {
        let name = relative(&text);
        names.insert(name.ok_or_else(|| DefineError::Stream(text.chars().take(80).collect()))?);
    }
    Ok(names.into_iter().collect())
}

/// What a subscriber says of its work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledge {
    pub wake_id: Option<String>,
    pub generation: Option<u64>,
    pub acks: Vec<Acknowledgement>,
    pub done: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    pub stream: String,
    pub offset: Offset,
}

impl Acknowledge {
    /// Reads a body. An offset that is none of ours names its stream, and is kept apart from bodies that are malformed.
    pub fn parse(body: &[u8]) -> Result<Self, AcknowledgeError> {
        #[derive(Deserialize, Default)]
        struct Body {
            wake_id: Option<String>,
            generation: Option<u64>,
            #[serde(default)]
            acks: Vec<Ack>,
            #[serde(default)]
            done: bool,
        }
        #[derive(Deserialize)]
        struct Ack {
            stream: Option<String>,
            path: Option<String>,
            offset: String,
        }
        let body: Body = if body.is_empty() {
            Body::default()
        } else {
            serde_json::from_slice(body)
                .map_err(|error| AcknowledgeError::Malformed(error.to_string()))?
        };
        let mut acks = Vec::new();
        for ack in body.acks {
            let named = ack.stream.or(ack.path).unwrap_or_default();
            let stream = relative(&named).unwrap_or(named);
            let offset = ack.offset.parse();
            let offset = offset.map_err(|_| AcknowledgeError::Offset(stream.clone()))?;
            acks.push(Acknowledgement { stream, offset });
        }
        Ok(Self {
            wake_id: body.wake_id,
            generation: body.generation,
            acks,
            done: body.done,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeError {
    #[error("the body is malformed: {0}")]
    Malformed(String),
    #[error("the acknowledged offset of `{0}` is none: use one from `tail_offset` or a read")]
    Offset(String),
}
