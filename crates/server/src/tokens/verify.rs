//! Reading tokens.

use holm_thread_log::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};

use super::claims::{AUDIENCE, Claims, ISSUER, SKEW_SECONDS_MAX};
use super::hs256;
use super::keyring::{KeyRing, KeyRingError};
use super::mint::{key_id, seconds};

/// Ours have less than half of it.
const LENGTH_MAX: usize = 4_096;

/// Why a token opens nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Invalid {
    /// Told to the client only so far: how exactly it is wrong helps those who try.
    #[error("the token is not one of this server's")]
    Unknown,
    #[error("the token has expired: renew it before its time is over, or ask for a new one")]
    Expired,
    #[error("the token is not good yet: a clock is more than {SKEW_SECONDS_MAX} seconds off")]
    NotYet,
    #[error(transparent)]
    Keys(#[from] KeyRingError),
}

/// Whether a bearer is meant as a token: API keys look otherwise.
pub(crate) fn looks_like_token(bearer: &str) -> bool {
    bearer.starts_with("eyJ") && bearer.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// What a token says, if it was signed with a good key, for us, and its time is now.
pub(crate) async fn verify(keys: &KeyRing, token: &str, now: Timestamp) -> Result<Claims, Invalid> {
    hs256::install();
    if token.len() > LENGTH_MAX {
        return Err(Invalid::Unknown);
    }
    let header = jsonwebtoken::decode_header(token).map_err(|_| Invalid::Unknown)?;
    if header.alg != Algorithm::HS256 {
        return Err(Invalid::Unknown);
    }
    let kid = header.kid.ok_or(Invalid::Unknown)?;
    let (organization, number) = kid.rsplit_once('.').ok_or(Invalid::Unknown)?;
    let number = number.parse().map_err(|_| Invalid::Unknown)?;
    let key = keys.find(organization, number).await?;
    let key = key.ok_or(Invalid::Unknown)?;
    let secret = DecodingKey::from_secret(key.secret.expose().as_bytes());
    let decoded = jsonwebtoken::decode::<Claims>(token, &secret, &validation());
    let claims = decoded.map_err(|_| Invalid::Unknown)?.claims;
    // A key signs for its own organisation, and a key's name has one spelling.
    if key_id(&claims.org, number) != kid {
        return Err(Invalid::Unknown);
    }
    check_time(&claims, seconds(now))?;
    Ok(claims)
}

/// The library reads the clock by itself; times are checked here, against the one that is given.
fn validation() -> Validation {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.set_audience(&[AUDIENCE]);
    validation.set_issuer(&[ISSUER]);
    validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
    validation.validate_exp = false;
    validation
}

fn check_time(claims: &Claims, now: u64) -> Result<(), Invalid> {
    if now >= claims.exp.saturating_add(SKEW_SECONDS_MAX) {
        return Err(Invalid::Expired);
    }
    if claims.iat > now.saturating_add(SKEW_SECONDS_MAX) {
        return Err(Invalid::NotYet);
    }
    Ok(())
}
