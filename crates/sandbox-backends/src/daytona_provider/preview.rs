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
/// Until the first look at the ports; the pauses double up to the last.
const LOOK_FIRST: Duration = Duration::from_millis(250);
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// More than anybody looks at. A program that listens everywhere fills no terminal.
const PORTS_MAX: usize = 64;

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
    /// `None` until the first look, whose ports were there before.
    seen: Option<BTreeSet<u16>>,
    told: usize,
}

impl PortWatch {
    /// For a sandbox that is used by others too: what is listened on when the work begins is nothing new.
    #[must_use]
    pub fn shared(toolbox: Toolbox) -> Self {
        Self {
            toolbox,
            seen: None,
            told: 0,
        }
    }

    /// For a sandbox in which nothing has run yet.
    #[must_use]
    pub fn fresh(toolbox: Toolbox) -> Self {
        Self {
            toolbox,
            seen: Some(BTreeSet::new()),
            told: 0,
        }
    }

    /// Does the work, and tells meanwhile of ports that begin to be served. The work waits for no look, neither before it nor
    /// after it: what is served for less than a moment is not told.
    pub async fn during<T>(
        mut self,
        work: impl Future<Output = T>,
        served: &mut (dyn FnMut(Preview) + Send),
    ) -> T {
        tokio::select! {
            biased;
            done = work => done,
            never = self.watch(served) => match never {},
        }
    }

    /// A look that fails says nothing: the next one may do better.
    async fn watch(&mut self, served: &mut (dyn FnMut(Preview) + Send)) -> Infallible {
        if self.seen.is_none() {
            let before = self.toolbox.ports().await.unwrap_or_default();
            self.seen = Some(before.into_iter().collect());
        }
        let mut pause = LOOK_FIRST;
        loop {
            tokio::time::sleep(pause).await;
            self.look(served).await;
            pause = (pause * 2).min(LOOK_EVERY);
        }
    }

    async fn look(&mut self, served: &mut (dyn FnMut(Preview) + Send)) {
        let Ok(ports) = self.toolbox.ports().await else {
            return;
        };
        let seen = self.seen.get_or_insert_default();
        for port in ports {
            if self.told >= PORTS_MAX || seen.contains(&port) {
                continue;
            }
            match preview(&self.toolbox, port).await {
                Ok(preview) => {
                    seen.insert(port);
                    self.told += 1;
                    served(preview);
                }
                Err(error) => tracing::debug!(port, %error, "no preview yet"),
            }
        }
    }
}
