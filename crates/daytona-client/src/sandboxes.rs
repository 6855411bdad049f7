//! Sandboxes of the control plane: looking at them, and changing them.
//!
//! Changes that take time answer before they are complete; `wait.rs` has what waits for their end.

use std::time::Duration;

use holm_daytona_wire::StringMap;
use holm_daytona_wire::preview::{PortPreviewUrl, SignedPortPreviewUrl};
use holm_daytona_wire::sandbox::{
    ResizeSandbox, Sandbox, SandboxLabels, UpdateLastActivity, UpdateNetworkSettings,
};
use holm_daytona_wire::ssh::SshAccess;
use reqwest::Method;
use tokio::time::Instant;

use crate::request::from_now;
use crate::retry::Jitter;
use crate::{Client, ClientError, Result};

/// Between two tries to delete a sandbox that is changing its state.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

/// What became of a deletion. Both are success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The server took it; the sandbox may live on for a moment.
    Accepted,
    /// There was none any more.
    AlreadyGone,
}

/// Whether processes in the sandbox get the time to end by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopManner {
    Graceful,
    Force,
}

impl Client {
    /// By id or by name.
    pub async fn get(&self, sandbox: &str) -> Result<Sandbox> {
        let action = format!("get sandbox `{sandbox}`");
        let call = self.call(Method::GET, &["sandbox", sandbox], action)?;
        call.json().await
    }

    /// `None` if there is no such sandbox.
    pub async fn find(&self, sandbox: &str) -> Result<Option<Sandbox>> {
        match self.get(sandbox).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes. One that is gone is success; one that is changing its state is asked again until it is not.
    pub async fn delete(&self, sandbox: &str) -> Result<Deletion> {
        let until = from_now(self.deadlines().request);
        loop {
            let action = format!("delete sandbox `{sandbox}`");
            let call = self
                .call(Method::DELETE, &["sandbox", sandbox], action)?
                .deadline(until.saturating_duration_since(Instant::now()));
            let error = match call.done().await {
                Ok(()) => return Ok(Deletion::Accepted),
                Err(error) if error.is_not_found() => return Ok(Deletion::AlreadyGone),
                Err(error) => error,
            };
            let pause = Jitter::random().spread(BUSY_PAUSE);
            if !error.is_conflict() || Instant::now() + pause >= until {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Starts one that is stopped, archived or paused; one that runs already stays as it is.
    pub async fn start(&self, sandbox: &str) -> Result<Sandbox> {
        let action = format!("start sandbox `{sandbox}`");
        let call = self.call(Method::POST, &["sandbox", sandbox, "start"], action)?;
        call.json().await
    }

    /// Stops. One whose `autoDeleteInterval` is 0 is deleted by that.
    pub async fn stop(&self, sandbox: &str, manner: StopManner) -> Result<()> {
        let force = match manner {
            StopManner::Graceful => "false",
            StopManner::Force => "true",
        };
        let action = format!("stop sandbox `{sandbox}`");
        let call = self.call(Method::POST, &["sandbox", sandbox, "stop"], action)?;
        call.query("force", force).done().await
    }

    /// Puts one that is stopped away, so that it needs no disk here.
    pub async fn archive(&self, sandbox: &str) -> Result<()> {
        let action = format!("archive sandbox `{sandbox}`");
        let call = self.call(Method::POST, &["sandbox", sandbox, "archive"], action)?;
        call.done().await
    }

    /// Brings one back whose state is `error` and that says it is recoverable.
    pub async fn recover(&self, sandbox: &str) -> Result<Sandbox> {
        let action = format!("recover sandbox `{sandbox}`");
        let call = self.call(Method::POST, &["sandbox", sandbox, "recover"], action)?;
        call.json().await
    }

    pub async fn resize(&self, sandbox: &str, size: &ResizeSandbox) -> Result<Sandbox> {
        let action = format!("resize sandbox `{sandbox}`");
        let call = self.call(Method::POST, &["sandbox", sandbox, "resize"], action)?;
        call.repeatable().body(size)?.json().await
    }

    /// These labels and no others. Gives what the server keeps.
    pub async fn set_labels(&self, sandbox: &str, labels: StringMap) -> Result<StringMap> {
        let action = format!("set the labels of sandbox `{sandbox}`");
        let call = self.call(Method::PUT, &["sandbox", sandbox, "labels"], action)?;
        let kept: SandboxLabels = call.body(&SandboxLabels { labels })?.json().await?;
        Ok(kept.labels)
    }

    /// Minutes without use until it is stopped; 0 means never.
    pub async fn set_auto_stop(&self, sandbox: &str, minutes: u32) -> Result<()> {
        self.set_interval(sandbox, "autostop", &minutes.to_string())
            .await
    }

    /// Minutes after stopping until it is archived; 0 means as late as the server allows.
    pub async fn set_auto_archive(&self, sandbox: &str, minutes: u32) -> Result<()> {
        self.set_interval(sandbox, "autoarchive", &minutes.to_string())
            .await
    }

    /// Minutes after stopping until it is deleted; 0 means at once, `None` means never.
    pub async fn set_auto_delete(&self, sandbox: &str, minutes: Option<u32>) -> Result<()> {
        let minutes = minutes.map_or_else(|| "-1".to_owned(), |minutes| minutes.to_string());
        self.set_interval(sandbox, "autodelete", &minutes).await
    }

    async fn set_interval(&self, sandbox: &str, which: &str, minutes: &str) -> Result<()> {
        let action = format!("set the {which} interval of sandbox `{sandbox}`");
        let call = self.call(Method::POST, &["sandbox", sandbox, which, minutes], action)?;
        call.repeatable().done().await
    }

    pub async fn set_network(&self, sandbox: &str, settings: &UpdateNetworkSettings) -> Result<()> {
        let action = format!("set the network of sandbox `{sandbox}`");
        let call = self.call(
            Method::POST,
            &["sandbox", sandbox, "network-settings"],
            action,
        )?;
        call.repeatable().body(settings)?.done().await
    }

    /// Tells the server that the sandbox is in use, so that it is not stopped for being idle.
    pub async fn refresh_activity(&self, sandbox: &str) -> Result<()> {
        let action = format!("keep sandbox `{sandbox}` awake");
        let call = self.call(Method::POST, &["sandbox", sandbox, "last-activity"], action)?;
        let body = UpdateLastActivity::default();
        call.repeatable().body(&body)?.done().await
    }

    /// The address of a port, and the token that requests to it carry in `X-Daytona-Preview-Token`.
    pub async fn preview_link(&self, sandbox: &str, port: u16) -> Result<PortPreviewUrl> {
        let action = format!("get the preview of port {port} of sandbox `{sandbox}`");
        let port = port.to_string();
        let segments = ["sandbox", sandbox, "ports", &port, "preview-url"];
        self.call(Method::GET, &segments, action)?.json().await
    }

    /// An address of a port that needs no token besides, for a while.
    pub async fn signed_preview_link(
        &self,
        sandbox: &str,
        port: u16,
        lasts: Duration,
    ) -> Result<SignedPortPreviewUrl> {
        let action = format!("sign the preview of port {port} of sandbox `{sandbox}`");
        let port = port.to_string();
        let segments = ["sandbox", sandbox, "ports", &port, "signed-preview-url"];
        let call = self.call(Method::GET, &segments, action)?;
        let seconds = lasts.as_secs().to_string();
        call.query("expiresInSeconds", &seconds).json().await
    }

    /// Ends a signed address before its time.
    pub async fn expire_signed_preview_link(
        &self,
        sandbox: &str,
        link: &SignedPortPreviewUrl,
    ) -> Result<()> {
        let action = format!(
            "expire the preview of port {} of sandbox `{sandbox}`",
            link.port
        );
        let (port, token) = (link.port.to_string(), link.token.expose());
        let segments = [
            "sandbox",
            sandbox,
            "ports",
            &port,
            "signed-preview-url",
            token,
            "expire",
        ];
        let call = self.call(Method::POST, &segments, action)?;
        call.repeatable().done().await
    }

    /// A token for SSH, which is the user name there.
    pub async fn create_ssh_access(&self, sandbox: &str, lasts: Duration) -> Result<SshAccess> {
        let action = format!("get SSH access to sandbox `{sandbox}`");
        let call = self.call(Method::POST, &["sandbox", sandbox, "ssh-access"], action)?;
        let minutes = lasts.as_secs().div_ceil(60).to_string();
        call.query("expiresInMinutes", &minutes).json().await
    }

    pub async fn revoke_ssh_access(&self, sandbox: &str, access: &SshAccess) -> Result<()> {
        let action = format!("revoke SSH access to sandbox `{sandbox}`");
        let call = self.call(Method::DELETE, &["sandbox", sandbox, "ssh-access"], action)?;
        match call.query("token", access.token.expose()).done().await {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    /// Where the toolbox of a sandbox is.
    pub(crate) async fn toolbox_proxy_url(&self, sandbox: &str) -> Result<String> {
        let action = format!("find the toolbox of sandbox `{sandbox}`");
        let segments = ["sandbox", sandbox, "toolbox-proxy-url"];
        let found: holm_daytona_wire::preview::Url = self
            .call(Method::GET, &segments, action.clone())?
            .json()
            .await?;
        if found.url.is_empty() {
            return Err(ClientError::Protocol {
                action,
                problem: "it names none".to_owned(),
            });
        }
        Ok(found.url)
    }
}
