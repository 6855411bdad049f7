//! The providers of this process: one for each configuration.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::config::ProviderConfig;
use super::error::Result;
use super::provider::{Provider, ShutdownReport};

type Providers = HashMap<[u8; 32], Provider>;

static PROVIDERS: LazyLock<Mutex<Providers>> = LazyLock::new(Mutex::default);

fn providers() -> MutexGuard<'static, Providers> {
    PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn shared(config: ProviderConfig) -> Result<Provider> {
    let mut providers = providers();
    let key = config.fingerprint();
    if let Some(provider) = providers.get(&key)
        && !provider.is_closed()
    {
        return Ok(provider.clone());
    }
    let provider = Provider::new(config)?;
    providers.insert(key, provider.clone());
    Ok(provider)
}

/// The next one who asks gets a new one.
pub(super) fn forget(provider: &Provider) {
    providers().retain(|_, known| !known.is_same(provider));
}

/// Shuts down all providers of this process that are shared, at the same time.
pub async fn shutdown_all(deadline: Duration) -> Vec<ShutdownReport> {
    let all: Vec<Provider> = providers().values().cloned().collect();
    let ending = all.iter().map(|provider| provider.shutdown(deadline));
    futures_util::future::join_all(ending).await
}
