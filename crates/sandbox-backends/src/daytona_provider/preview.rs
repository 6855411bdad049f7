//! Addresses of what a command serves.

use std::collections::BTreeSet;
use std::time::Duration;

use holm_sandbox::Secret;

use super::error::Result;
use super::live::Live;
use super::provider::Provider;

/// How long a link can be used.
const LINK_LASTS: Duration = Duration::from_secs(60 * 60);
/// Between two looks at the ports.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where a port of the sandbox can be seen from outside.
#[derive(Debug, Clone)]
pub struct Preview {
    pub port: u16,
    /// Whoever has it can see the port: show it to the user and to nobody else.
    pub link: Secret,
}

impl Provider {
    /// The link to a port, for a browser.
    pub async fn preview(&self, port: u16) -> Result<Preview> {
        preview(&*self.live().await?, port).await
    }
}

async fn preview(live: &Live, port: u16) -> Result<Preview> {
    let signed = live
        .client()
        .signed_preview_link(live.id(), port, LINK_LASTS)
        .await;
    let link = match signed {
        Ok(signed) => Secret::new(signed.url.expose()),
        // Older servers sign none; a browser is asked to log in then.
        Err(error) => {
            tracing::debug!(port, %error, "no signed link");
            let plain = live.client().preview_link(live.id(), port).await?;
            Secret::new(plain.url)
        }
    };
    Ok(Preview { port, link })
}

/// Looks for ports that begin to be listened on.
#[derive(Debug)]
pub(super) struct PortWatch {
    seen: BTreeSet<u16>,
}

impl PortWatch {
    /// What is listened on already is nothing new.
    pub(super) async fn begin(live: &Live) -> Self {
        let seen = live.toolbox().ports().await.unwrap_or_default();
        Self {
            seen: seen.into_iter().collect(),
        }
    }

    /// Tells of new ports until it is dropped. A look that fails says nothing: the next one may do better.
    pub(super) async fn watch(&mut self, live: &Live, served: &mut (dyn FnMut(Preview) + Send)) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look(live, served).await;
        }
    }

    pub(super) async fn look(&mut self, live: &Live, served: &mut (dyn FnMut(Preview) + Send)) {
        let Ok(ports) = live.toolbox().ports().await else {
            return;
        };
        for port in ports {
            if self.seen.contains(&port) {
                continue;
            }
            match preview(live, port).await {
                Ok(preview) => {
                    self.seen.insert(port);
                    served(preview);
                }
                Err(error) => tracing::debug!(port, %error, "no preview yet"),
            }
        }
    }
}
