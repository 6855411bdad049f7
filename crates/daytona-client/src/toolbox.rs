//! The inside of one sandbox.

use holm_daytona_wire::sandbox::Sandbox;
use holm_daytona_wire::system::{DirResponse, PortList, SystemMetrics};
use reqwest::{Method, Url};

use crate::client::{base_url, below};
use crate::request::Call;
use crate::{Client, ClientError, Files, Git, Process, Result, Sessions, Terminals};

/// A sandbox's toolbox. Where it is may change when a sandbox is started again: take a new one then.
#[derive(Debug, Clone)]
pub struct Toolbox {
    client: Client,
    sandbox: String,
    url: Url,
}

impl Client {
    /// Asks the server for the address only if the sandbox does not say it.
    pub async fn toolbox(&self, sandbox: &Sandbox) -> Result<Toolbox> {
        let proxy = if sandbox.toolbox_proxy_url.is_empty() {
            self.toolbox_proxy_url(&sandbox.id).await?
        } else {
            sandbox.toolbox_proxy_url.clone()
        };
        let proxy = base_url("toolbox address", &proxy)?;
        if self.shared().api_url.scheme() == "https" && proxy.scheme() != "https" {
            // The key goes there too.
            return Err(ClientError::Invalid {
                what: "toolbox address",
                problem: "it is not encrypted, and that of the API is".to_owned(),
            });
        }
        Ok(Toolbox {
            client: self.clone(),
            sandbox: sandbox.id.clone(),
            url: below(&proxy, &[&sandbox.id])?,
        })
    }
}

impl Toolbox {
    /// The id of the sandbox.
    pub fn sandbox(&self) -> &str {
        &self.sandbox
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same toolbox with other deadlines, for some calls.
    #[must_use]
    pub fn with_deadlines(&self, deadlines: crate::Deadlines) -> Self {
        Self {
            client: self.client.with_deadlines(deadlines),
            ..self.clone()
        }
    }

    pub fn process(&self) -> Process<'_> {
        Process { toolbox: self }
    }

    pub fn sessions(&self) -> Sessions<'_> {
        Sessions { toolbox: self }
    }

    pub fn terminals(&self) -> Terminals<'_> {
        Terminals { toolbox: self }
    }

    pub fn files(&self) -> Files<'_> {
        Files { toolbox: self }
    }

    pub fn git(&self) -> Git<'_> {
        Git { toolbox: self }
    }

    /// The home of the sandbox's user.
    pub async fn home_dir(&self) -> Result<String> {
        let call = self.call(Method::GET, &["user-home-dir"], "find the home folder")?;
        Ok(call.json::<DirResponse>().await?.dir)
    }

    /// What relative paths are relative to.
    pub async fn work_dir(&self) -> Result<String> {
        let call = self.call(Method::GET, &["work-dir"], "find the working folder")?;
        Ok(call.json::<DirResponse>().await?.dir)
    }

    /// What the sandbox uses of processor, memory and disk.
    pub async fn metrics(&self) -> Result<SystemMetrics> {
        let call = self.call(Method::GET, &["system", "metrics"], "get the metrics")?;
        call.json().await
    }

    /// Which TCP ports are listened on inside.
    pub async fn ports(&self) -> Result<Vec<u16>> {
        let call = self.call(Method::GET, &["port"], "list the ports")?;
        Ok(call.json::<PortList>().await?.ports)
    }

    /// `action` is what follows "could not"; the sandbox is added.
    pub(crate) fn call(
        &self,
        method: Method,
        segments: &[&str],
        action: impl Into<String>,
    ) -> Result<Call<'_>> {
        let url = self.address(segments)?;
        Ok(Call::new(
            &self.client,
            method,
            url,
            self.action(action.into()),
        ))
    }

    pub(crate) fn address(&self, segments: &[&str]) -> Result<Url> {
        below(&self.url, segments)
    }

    pub(crate) fn action(&self, action: impl std::fmt::Display) -> String {
        format!("{action} in sandbox `{}`", self.sandbox)
    }
}
