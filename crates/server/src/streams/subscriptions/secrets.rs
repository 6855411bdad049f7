//! What subscribers know us by: signatures of calls, and tokens that they answer with.
//!
//! All is derived from one secret, which is kept with the streams: servers over the same streams sign alike, and a restart changes
//! nothing. A token says for which wake it was made, so nothing has to be kept for it.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, Mac};
use holm_thread_log::Timestamp;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// How long a token can be shown, however long its wake lasts.
const TOKEN_SECONDS: i64 = 3600;

pub(super) struct Secrets {
    signer: Ed25519KeyPair,
    pub(super) key_id: String,
    token_key: [u8; 32],
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secrets({})", self.key_id)
    }
}

/// What a token was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    #[serde(rename = "org")]
    pub(super) organization: String,
    #[serde(rename = "sub")]
    pub(super) subscription: String,
    #[serde(rename = "gen")]
    pub(super) generation: u64,
    #[serde(rename = "exp")]
    expires_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenError {
    Invalid,
    Expired,
}

impl Secrets {
    /// `None`: the cryptography refuses the key, which it does for no key.
    pub(super) fn derive(secret: &str) -> Option<Self> {
        let seed = keyed(secret.as_bytes(), b"holm subscriptions: signature");
        let signer = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        let public = BASE64.encode(signer.public_key().as_ref());
        // The thumbprint of RFC 7638.
        let thumbprint = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{public}"}}"#);
        let key_id = format!("ds_{}", BASE64.encode(Sha256::digest(thumbprint)));
        Some(Self {
            signer,
            key_id,
            token_key: keyed(secret.as_bytes(), b"holm subscriptions: tokens"),
        })
    }

    /// The public keys, for whoever checks our signatures.
    pub(super) fn key_set(&self) -> Value {
        let public = BASE64.encode(self.signer.public_key().as_ref());
        json!({ "keys": [{
            "kty": "OKP", "crv": "Ed25519", "x": public, "kid": self.key_id, "use": "sig", "alg": "EdDSA",
        }] })
    }

    /// The header `Webhook-Signature` of a body.
    pub(super) fn signature(&self, body: &str, now: Timestamp) -> String {
        let seconds = now.0 / 1000;
        let signature = self.signer.sign(format!("{seconds}.{body}").as_bytes());
        let signature = BASE64.encode(signature.as_ref());
        format!("t={seconds},kid={},ed25519={signature}", self.key_id)
    }

    pub(super) fn token(
        &self,
        organization: &str,
        subscription: &str,
        generation: u64,
        now: Timestamp,
    ) -> String {
        let claims = Claims {
            organization: organization.to_owned(),
            subscription: subscription.to_owned(),
            generation,
            expires_at: now.0 / 1000 + TOKEN_SECONDS,
        };
        let claims = serde_json::to_vec(&claims).unwrap_or_default();
        let claims = BASE64.encode(claims);
        let seal = BASE64.encode(keyed(&self.token_key, claims.as_bytes()));
        format!("{claims}.{seal}")
    }

    /// What a token says, if we made it for this subscription.
    pub(super) fn open(
        &self,
        token: &str,
        subscription: &str,
        now: Timestamp,
    ) -> Result<Claims, TokenError> {
        let (claims, seal) = token.split_once('.').ok_or(TokenError::Invalid)?;
        let seal = BASE64.decode(seal).map_err(|_| TokenError::Invalid)?;
        let mut mac = mac(&self.token_key).ok_or(TokenError::Invalid)?;
        mac.update(claims.as_bytes());
        mac.verify_slice(&seal).map_err(|_| TokenError::Invalid)?;
        let claims = BASE64.decode(claims).map_err(|_| TokenError::Invalid)?;
        let claims: Claims = serde_json::from_slice(&claims).map_err(|_| TokenError::Invalid)?;
        if claims.subscription != subscription {
            return Err(TokenError::Invalid);
        }
        if claims.expires_at < now.0 / 1000 {
            return Err(TokenError::Expired);
        }
        Ok(claims)
    }
}

fn mac(key: &[u8]) -> Option<Hmac<Sha256>> {
    // A key may have any length.
    Hmac::<Sha256>::new_from_slice(key).ok()
}

fn keyed(key: &[u8], text: &[u8]) -> [u8; 32] {
    let Some(mut mac) = mac(key) else {
        return [0; 32];
    };
    mac.update(text);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ED25519, UnparsedPublicKey};

    const NOW: Timestamp = Timestamp(1_794_830_400_000);

    #[test]
    fn a_token_opens_what_it_was_made_for() {
        let secrets = Secrets::derive("secret").unwrap();
        let token = secrets.token("o", "s", 3, NOW);
        let claims = secrets.open(&token, "s", NOW).unwrap();
        assert_eq!((claims.organization.as_str(), claims.generation), ("o", 3));
        assert_eq!(secrets.open(&token, "t", NOW), Err(TokenError::Invalid));
        let later = Timestamp(NOW.0 + 3_601_000);
        assert_eq!(secrets.open(&token, "s", later), Err(TokenError::Expired));
        let other = Secrets::derive("other").unwrap();
        assert_eq!(other.open(&token, "s", NOW), Err(TokenError::Invalid));
        let (_, seal) = token.split_once('.').unwrap();
        let forged = BASE64.encode(r#"{"org":"x","sub":"s","gen":3,"exp":9999999999}"#);
        for wrong in ["", ".", "a.b", &format!("{forged}.{seal}"), &token[1..]] {
            assert_eq!(
                secrets.open(wrong, "s", NOW),
                Err(TokenError::Invalid),
                "{wrong}"
            );
        }
    }

    #[test]
    fn signatures_are_checked_with_the_published_key() {
        let secrets = Secrets::derive("secret").unwrap();
        let again = Secrets::derive("secret").unwrap();
        assert_eq!(secrets.key_set(), again.key_set());
        let header = again.signature("{}", NOW);
        let (start, signature) = header.split_once(",ed25519=").unwrap();
        assert_eq!(start, format!("t=1794830400,kid={}", secrets.key_id));
        let set = secrets.key_set();
        let public = BASE64.decode(set["keys"][0]["x"].as_str().unwrap());
        let key = UnparsedPublicKey::new(&ED25519, public.unwrap());
        let signature = BASE64.decode(signature).unwrap();
        assert!(key.verify(b"1794830400.{}", &signature).is_ok());
        assert!(key.verify(b"1794830400.{ }", &signature).is_err());
    }
}
