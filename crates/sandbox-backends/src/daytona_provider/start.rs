//! From a configuration to a sandbox that can be used, and back if that fails.

use std::time::Duration;

use holm_daytona_client::wire::sandbox::{CreateSandbox, Sandbox, SandboxState};
use holm_daytona_client::{Client, ClientError, PreparedCreate};
use tokio::task::JoinHandle;

use super::config::ProviderConfig;
use super::error::StartError;
use super::live::Live;

/// For removing what a failed start may have left.
const DISCARD_DEADLINE: Duration = Duration::from_secs(15);
/// Which sandboxes are a provider's.
const LABEL: &str = "holm.provider";

/// Neither image nor language is named: what a snapshot has is what there is.
pub(super) fn request(config: &ProviderConfig) -> CreateSandbox {
    let mut labels = holm_daytona_client::wire::StringMap::new();
    labels.insert(LABEL.to_owned(), "shared".to_owned());
    labels.extend(config.labels.iter().cloned());
    let minutes = |minutes: u32| i32::try_from(minutes).unwrap_or(i32::MAX);
    CreateSandbox {
        snapshot: config.snapshot.clone(),
        target: config.target.clone(),
        labels,
        auto_stop_interval: Some(minutes(config.auto_stop_minutes)),
        auto_delete_interval: Some(config.auto_delete_minutes.map_or(-1, minutes)),
        ..CreateSandbox::default()
    }
}

/// A request that is on its way. It is not given up in the middle, since the server would go on and leave a sandbox behind.
pub(super) type Creating = JoinHandle<Result<Sandbox, ClientError>>;

pub(super) fn create(client: &Client, prepared: &PreparedCreate) -> Creating {
    let (client, prepared) = (client.clone(), prepared.clone());
    tokio::spawn(async move { client.create_prepared(&prepared).await })
}

/// What has to be done before anything can be; the workspace comes after.
pub(super) async fn start(
    client: &Client,
    config: &ProviderConfig,
    prepared: &PreparedCreate,
    creating: &mut Creating,
) -> Result<Live, StartError> {
    let mut sandbox = creating.await.map_err(|_| StartError::Abandoned)??;
    if sandbox.state != Some(SandboxState::Started) {
        sandbox = client
            .wait_until_started(&sandbox.id, config.start_timeout)
            .await?;
    }
    if sandbox.auto_stop_interval != prepared.request().auto_stop_interval {
        client
            .set_auto_stop(&sandbox.id, config.auto_stop_minutes)
            .await?;
    }
    let toolbox = client.toolbox(&sandbox).await?;
    let home = toolbox.home_dir().await?;
    tracing::debug!(sandbox = sandbox.id, home, "a sandbox is ready");
    Live::new(client.clone(), toolbox, &home, config)
}

/// Deletes what a start that failed has made, if it has.
pub(super) async fn discard(client: &Client, prepared: &PreparedCreate, creating: Creating) {
    let name = prepared.name();
    let discarding = async {
        if !creating.is_finished() {
            // What it comes to is looked up below.
            drop(creating.await);
        }
        client.discard_prepared(prepared).await
    };
    match tokio::time::timeout(DISCARD_DEADLINE, discarding).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(name, %error, "a sandbox may be left behind"),
        Err(_elapsed) => tracing::warn!(name, "a sandbox may be left behind"),
    }
}

#[cfg(test)]
mod tests {
    use holm_daytona_client::Settings;
    use holm_daytona_client::wire::sandbox::LANGUAGE_LABEL;

    use super::*;

    fn config() -> ProviderConfig {
        ProviderConfig::new(Settings::new("http://x/api", "key"))
    }

    #[test]
    fn seed_002_sandbox_is_created_without_a_language() {
        let request = request(&config());
        assert!(!request.labels.contains_key(LANGUAGE_LABEL));
        let text = serde_json::to_string(&request).unwrap();
        assert!(!text.contains("anguage"), "{text}");
    }

    #[test]
    fn seed_002_auto_stop_is_thirty_minutes_and_zero_disables_it() {
        assert_eq!(request(&config()).auto_stop_interval, Some(30));
        let mut never = config();
        never.auto_stop_minutes = 0;
        assert_eq!(request(&never).auto_stop_interval, Some(0));
        never.auto_delete_minutes = None;
        assert_eq!(request(&never).auto_delete_interval, Some(-1));
    }
}
