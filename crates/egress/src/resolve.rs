//! From a name to its addresses.

use std::fmt;
use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

/// Asked only for names that the policy may allow, and once for each connection.
#[async_trait]
pub trait Resolve: fmt::Debug + Send + Sync {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the C library, with `/etc/hosts` and everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}
