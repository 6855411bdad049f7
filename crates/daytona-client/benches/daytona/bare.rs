//! Requests with the bytes that the client sends too, made beforehand; of the answers, only the status is looked at.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use crate::contestants::{COMMAND, PATH};
use crate::subject::KEY;

const BOUNDARY: &str = "a-boundary-that-nothing-else-holds";

#[derive(Debug, Clone)]
pub(crate) struct Bare {
    http: reqwest::Client,
    /// Of the sandbox.
    toolbox: String,
    execute: Bytes,
    upload: Bytes,
    download: Bytes,
    /// How long the file is.
    bytes: usize,
}

impl Bare {
    pub(crate) fn new(toolbox: String, content: &[u8]) -> Result<Self> {
        let mut upload = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"files[0].path\"\r\n\r\n{PATH}\r\n\
             --{BOUNDARY}\r\nContent-Disposition: form-data; name=\"files[0].file\"; filename=\"file\"\r\n\r\n"
        )
        .into_bytes();
        upload.extend(content);
        upload.extend(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        // Nothing is encrypted here, but a client without a provider cannot be made. Another one may be set already.
        drop(rustls::crypto::ring::default_provider().install_default());
        Ok(Self {
            http: reqwest::Client::builder().http1_only().build()?,
            toolbox,
            execute: json!({ "command": COMMAND }).to_string().into(),
            upload: upload.into(),
            download: json!({ "paths": [PATH] }).to_string().into(),
            bytes: content.len(),
        })
    }

    pub(crate) async fn execute(&self) -> Result<()> {
        let body = self.execute.clone();
        let answer = self.send("process/execute", "application/json", body);
        count(answer.await?).await.map(drop)
    }

    pub(crate) async fn upload(&self) -> Result<()> {
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let body = self.upload.clone();
        let answer = self.send("files/bulk-upload", &kind, body);
        count(answer.await?).await.map(drop)
    }

    pub(crate) async fn download(&self) -> Result<()> {
        self.is_whole(count(self.begin_download().await?).await?)
    }

    pub(crate) async fn download_into_memory(&self) -> Result<()> {
        self.is_whole(self.begin_download().await?.bytes().await?.len())
    }

    async fn begin_download(&self) -> Result<Response> {
        let body = self.download.clone();
        self.send("files/bulk-download", "application/json", body)
            .await
    }

    fn is_whole(&self, received: usize) -> Result<()> {
        if received < self.bytes {
            bail!("only {received} bytes came");
        }
        Ok(())
    }

    async fn send(&self, path: &str, kind: &str, body: Bytes) -> Result<Response> {
        let url = format!("{}/{path}", self.toolbox);
        let request = self.http.post(url).bearer_auth(KEY);
        let answer = request.header(CONTENT_TYPE, kind).body(body).send().await?;
        if !answer.status().is_success() {
            let status = answer.status();
            bail!("{path}: {status}: {}", answer.text().await?);
        }
        Ok(answer)
    }
}

/// The length of an answer, which is thrown away as it comes.
async fn count(mut answer: Response) -> Result<usize> {
    let mut received = 0;
    while let Some(chunk) = answer.chunk().await.context("read an answer")? {
        received += chunk.len();
    }
    Ok(received)
}
