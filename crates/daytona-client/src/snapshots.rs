//! Snapshots: what sandboxes are made from.

use holm_daytona_wire::snapshot::{PaginatedSnapshots, Snapshot};
use reqwest::Method;

use crate::{Client, Result};

impl Client {
    /// One page; pages count from 1.
    pub async fn snapshots(&self, page: u32, page_size: u32) -> Result<PaginatedSnapshots> {
        let call = self.call(Method::GET, &["snapshots"], "list snapshots")?;
        call.query("page", &page.to_string())
            .query("limit", &page_size.to_string())
            .json()
            .await
    }

    /// By id or by name.
    pub async fn snapshot(&self, snapshot: &str) -> Result<Snapshot> {
        let action = format!("get snapshot `{snapshot}`");
        let call = self.call(Method::GET, &["snapshots", snapshot], action)?;
        call.json().await
    }
}
