//! Who asks: a token for each request, and a new one when it is refused.

use std::fmt;

use async_trait::async_trait;
use holm_sandbox::Secret;

/// Whatever went wrong where tokens come from.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where tokens come from. One that expires is renewed by an implementation of the caller's.
#[async_trait]
pub trait Credentials: Send + Sync + fmt::Debug {
    /// The token for the next request. An error may pass: the request is tried again later.
    async fn token(&self) -> Result<Secret, BoxError>;

    /// The server has refused what [`Credentials::token`] gave last. Whether there is another one now, which is worth a
    /// try; an error may pass.
    async fn renew(&self) -> Result<Renewal, BoxError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Ask for the token again.
    Renewed,
    /// There is no other: the refusal stands.
    Final,
}

/// A key that does not change.
#[derive(Debug, Clone)]
pub struct FixedToken(pub Secret);

#[async_trait]
impl Credentials for FixedToken {
    async fn token(&self) -> Result<Secret, BoxError> {
        Ok(self.0.clone())
    }

    async fn renew(&self) -> Result<Renewal, BoxError> {
        Ok(Renewal::Final)
    }
}
