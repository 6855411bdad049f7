//! Signed addresses of files: whoever has one may read or write that one file, without a key, until it expires.
//!
//! The signature is `v1_` and the HMAC-SHA256 of `v1:files:{method}:{path}:{expires}` in base64url without padding. The
//! path is as in the address after decoding; only the last part is a number, so that no two addresses sign alike.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::Hidden;

const VERSION_PREFIX: &str = "v1_";

/// What the address allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMethod {
    /// `GET /files/download`.
    Download,
    /// `POST /files/upload-v2`.
    Upload,
}

impl FileMethod {
    fn as_str(self) -> &'static str {
        match self {
            Self::Download => "GET",
            Self::Upload => "POST",
        }
    }
}

/// Until when a signature holds, as the address says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expires {
    unix_seconds: u64,
}

impl Expires {
    pub const NEVER: Self = Self { unix_seconds: 0 };

    /// Zero means never, as on the wire.
    pub fn at_unix_seconds(unix_seconds: u64) -> Self {
        Self { unix_seconds }
    }

    fn is_past(self, now_unix_seconds: u64) -> bool {
        self != Self::NEVER && now_unix_seconds >= self.unix_seconds
    }
}

/// Why a signature is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is not the signature of this address under this key.
    Wrong,
    /// It was right until a moment that has passed.
    Expired,
}

pub fn sign(key: &Hidden, method: FileMethod, path: &str, expires: Expires) -> String {
    let code = code(key, method, path, expires).finalize().into_bytes();
    format!("{VERSION_PREFIX}{}", URL_SAFE_NO_PAD.encode(code))
}

/// Compares in constant time. Only whoever has a right signature learns that it has expired. An empty key signs nothing.
pub fn verify(
    key: &Hidden,
    method: FileMethod,
    path: &str,
    expires: Expires,
    signature: &str,
    now_unix_seconds: u64,
) -> Result<(), Refusal> {
    if key.is_empty() {
        return Err(Refusal::Wrong);
    }
    let encoded = signature
        .strip_prefix(VERSION_PREFIX)
        .ok_or(Refusal::Wrong)?;
    let claimed = URL_SAFE_NO_PAD
        .decode(encoded)
        .map_err(|_malformed| Refusal::Wrong)?;
    code(key, method, path, expires)
        .verify_slice(&claimed)
        .map_err(|_different| Refusal::Wrong)?;
    if expires.is_past(now_unix_seconds) {
        return Err(Refusal::Expired);
    }
    Ok(())
}

fn code(key: &Hidden, method: FileMethod, path: &str, expires: Expires) -> Hmac<Sha256> {
    let mut code = Hmac::<Sha256>::new(&key_block(key.expose().as_bytes()).into());
    for part in ["v1:files:", method.as_str(), ":", path, ":"] {
        code.update(part.as_bytes());
    }
    code.update(expires.unix_seconds.to_string().as_bytes());
    code
}

/// A key as one block of the hash, which cannot fail where a key of any length could: a longer one is hashed first and
/// a shorter one is filled with zeros, as RFC 2104 says.
fn key_block(key: &[u8]) -> [u8; 64] {
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_794_771_981;
    const SOON: Expires = Expires {
        unix_seconds: NOW + 1,
    };

    /// Computed with Python's `hmac`, by the function of the official SDK.
    #[test]
    fn signatures_are_those_of_the_sdk() {
        let long_key = "k".repeat(65);
        for (key, method, path, expires, expected) in [
            (
                "signing-key-1",
                FileMethod::Download,
                "/home/daytona/a.txt",
                SOON,
                "v1_TmEvmHK9NFQBMwMgnioUr7F7Zmn_NhM054yw1ie-ZWQ",
            ),
            (
                "signing-key-1",
                FileMethod::Upload,
                "/home/daytona/a.txt",
                SOON,
                "v1_xctjDvMHhSbXHo-yV-Q5pFGhqd-j9LFBvOFQEbl67qo",
            ),
            (
                "k",
                FileMethod::Download,
                "a b:ü/…?x=1&y",
                Expires::NEVER,
                "v1_L5NyQj73jNGKWENVv6lg3vW-GJ-0cA9JRMGKP0MF6-o",
            ),
            (
                long_key.as_str(),
                FileMethod::Download,
                "a",
                Expires::NEVER,
                "v1_ADvCMqBTGMZz6RFHa8TW2xjehq3ZVmKHl9VdHGnJ1m8",
            ),
        ] {
            let key = Hidden::from(key);
            assert_eq!(sign(&key, method, path, expires), expected);
            assert_eq!(verify(&key, method, path, expires, expected, NOW), Ok(()));
        }
    }

    #[test]
    fn a_signature_ends_with_its_time_and_never_with_zero() {
        let key = Hidden::from("key");
        let check = |expires, now| {
            let signature = sign(&key, FileMethod::Download, "a", expires);
            verify(&key, FileMethod::Download, "a", expires, &signature, now)
        };
        assert_eq!(check(SOON, NOW), Ok(()));
        assert_eq!(check(SOON, NOW + 1), Err(Refusal::Expired));
        assert_eq!(check(Expires::NEVER, u64::MAX), Ok(()));
    }

    #[test]
    fn nothing_else_passes() {
        let key = Hidden::from("key");
        let right = sign(&key, FileMethod::Download, "a:1", SOON);
        let wrong = Err(Refusal::Wrong);
        let check = |key: &str, method, path, expires, signature: &str| {
            verify(&Hidden::from(key), method, path, expires, signature, NOW)
        };
        let download = FileMethod::Download;
        assert_eq!(check("key", download, "a:1", SOON, &right), Ok(()));
        assert_eq!(check("other", download, "a:1", SOON, &right), wrong);
        assert_eq!(check("key", FileMethod::Upload, "a:1", SOON, &right), wrong);
        assert_eq!(check("key", download, "a", SOON, &right), wrong);
        assert_eq!(check("key", download, "a:1", Expires::NEVER, &right), wrong);
        let unmarked = right.trim_start_matches("v1_");
        let longer = format!("{right}A");
        for forged in ["", "v1_", "v1_====", unmarked, &longer, &right[..20]] {
            assert_eq!(
                check("key", download, "a:1", SOON, forged),
                wrong,
                "{forged}"
            );
        }
        let of_nothing = sign(&Hidden::default(), download, "a:1", SOON);
        assert_eq!(check("", download, "a:1", SOON, &of_nothing), wrong);
    }
}
