//! Addresses of what a command serves.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use holm_daytona_client::{ClientError, Toolbox};
use holm_sandbox::Secret;

use super::error::Result;
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
        Ok(preview(&self.live().await?.toolbox(), port).await?)
    }
}

async fn preview(toolbox: &Toolbox, port: u16) -> Result<Preview, ClientError> {
    let (client, sandbox) = (toolbox.client(), toolbox.sandbox());
    let link = match client.signed_preview_link(sandbox, port, LINK_LASTS).await {
        Ok(signed) => Secret::new(signed.url.expose()),
        // Older servers sign none; a browser is asked to log in then.
        Err(error) => {
            tracing::debug!(port, %error, "no signed link");
            Secret::new(client.preview_link(sandbox, port).await?.url)
        }
    };
    Ok(Preview { port, link })
}

/// Looks for ports that begin to be listened on, in any sandbox of Daytona.
#[derive(Debug)]
pub struct PortWatch {
    toolbox: Toolbox,
    seen: BTreeSet<u16>,
}

impl PortWatch {
    /// What is listened on already is nothing new.
    pub async fn begin(toolbox: Toolbox) -> Self {
        let seen = toolbox.ports().await.unwrap_or_default();
        Self {
            toolbox,
            seen: seen.into_iter().collect(),
        }
    }

    /// Tells of ports that are served while something is done, and of those that are left when it is done.
    pub async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
        served: &mut (dyn FnMut(Preview) + Send),
    ) -> T {
        let done = tokio::select! {
            done = work => done,
            never = self.watch(served) => match never {},
        };
        self.look(served).await;
        done
    }

    /// Tells of new ports until it is dropped. A look that fails says nothing: the next one may do better.
    pub(super) async fn watch(&mut self, served: &mut (dyn FnMut(Preview) + Send)) -> Infallible {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look(served).await;
        }
    }

    pub(super) async fn look(&mut self, served: &mut (dyn FnMut(Preview) + Send)) {
        let Ok(ports) = self.toolbox.ports().await else {
            return;
        };
        for port in ports {
            if self.seen.contains(&port) {
                continue;
            }
            match preview(&self.toolbox, port).await {
                Ok(preview) => {
                    self.seen.insert(port);
                    served(preview);
                }
                Err(error) => tracing::debug!(port, %error, "no preview yet"),
            }
        }
    }
}
