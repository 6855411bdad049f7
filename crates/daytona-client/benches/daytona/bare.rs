//! Requests with the bytes that the client sends too, made beforehand; of the answers, only the status is looked at.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use crate::contestants::{COMMAND, PATH};
use crate::subject::KEY;

const BOUNDARY: &str = "a-boundary-that-nothing-else-holds";

#[derive(Debug)]
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
        self.send("process/execute", "application/json", body)
            .await
            .map(drop)
    }

    pub(crate) async fn upload(&self) -> Result<()> {
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let body = self.upload.clone();
        self.send("files/bulk-upload", &kind, body).await.map(drop)
    }

    pub(crate) async fn download(&self) -> Result<()> {
        let body = self.download.clone();
        let path = "files/bulk-download";
        let received = self.send(path, "application/json", body).await?;
        if received < self.bytes {
            bail!("only {received} bytes came");
        }
        Ok(())
    }

    /// Gives the length of the answer, which is thrown away as it comes.
    async fn send(&self, path: &str, kind: &str, body: Bytes) -> Result<usize> {
        let url = format!("{}/{path}", self.toolbox);
        let request = self.http.post(url).bearer_auth(KEY);
        let mut answer = request.header(CONTENT_TYPE, kind).body(body).send().await?;
        if !answer.status().is_success() {
            let status = answer.status();
            bail!("{path}: {status}: {}", answer.text().await?);
        }
        let mut received = 0;
        while let Some(chunk) = answer.chunk().await.context("read an answer")? {
            received += chunk.len();
        }
        Ok(received)
    }
}
