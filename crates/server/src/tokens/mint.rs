//! Making tokens.

use holm_daytona_wire::Hidden;
use holm_thread_log::threads::{RunId, ThreadId};
use holm_thread_log::{ProducerId, StreamId, Timestamp};
use jsonwebtoken::{Algorithm, EncodingKey, Header};

use super::claims::{AUDIENCE, Claims, ISSUER, Operation, TTL_SECONDS_MAX};
use super::hs256;
use super::keyring::{KeyRing, KeyRingError};

/// What a token shall allow, apart from whose thread it is for.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) run: RunId,
    pub(crate) producer: ProducerId,
    pub(crate) operations: Vec<Operation>,
    /// At most [`TTL_SECONDS_MAX`].
    pub(crate) ttl_seconds: u64,
}

/// The one thread of a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MintedFor<'a> {
    pub(crate) id: &'a ThreadId,
    /// Ids are used again; streams are not.
    pub(crate) stream: StreamId,
}

/// A token that was just made. Its text is shown once.
#[derive(Debug, Clone)]
pub(crate) struct Minted {
    pub(crate) jwt: Hidden,
    pub(crate) expires_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("could not get the key of the organisation's tokens")]
    Keys {
        #[from]
        source: KeyRingError,
    },
    #[error("could not sign a token")]
    Sign {
        #[from]
        source: jsonwebtoken::errors::Error,
    },
}

/// Makes a token by which one run writes one thread of a house.
pub(crate) async fn mint_stream_write_jwt(
    keys: &KeyRing,
    house: &str,
    thread: MintedFor<'_>,
    grant: Grant,
    now: Timestamp,
) -> Result<Minted, TokenError> {
    hs256::install();
    let key = keys.signing(house, now).await?;
    let iat = seconds(now);
    let exp = iat + grant.ttl_seconds.min(TTL_SECONDS_MAX);
    let claims = Claims {
        iss: ISSUER.to_owned(),
        aud: AUDIENCE.to_owned(),
        iat,
        exp,
        jti: uuid::Uuid::new_v4().to_string(),
        org: house.to_owned(),
        thr: thread.id.clone(),
        sid: thread.stream,
        sub: grant.run,
        ops: grant.operations,
        pid: grant.producer.to_string(),
    };
    let header = Header {
        kid: Some(key_id(house, key.number)),
        ..Header::new(Algorithm::HS256)
    };
    let secret = EncodingKey::from_secret(key.secret.expose().as_bytes());
    let jwt = jsonwebtoken::encode(&header, &claims, &secret)?;
    Ok(Minted {
        jwt: Hidden::new(jwt),
        expires_at: Timestamp(i64::try_from(exp).unwrap_or(i64::MAX).saturating_mul(1000)),
    })
}

/// Whose key, and which.
pub(super) fn key_id(organization: &str, number: u64) -> String {
    format!("{organization}.{number}")
}

pub(super) fn seconds(now: Timestamp) -> u64 {
    u64::try_from(now.0.div_euclid(1000)).unwrap_or(0)
}
