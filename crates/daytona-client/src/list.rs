//! Lists of sandboxes: page by page, as a cursor leads.

use std::collections::VecDeque;

use holm_daytona_wire::StringMap;
use holm_daytona_wire::sandbox::{
    ListSandboxesResponse, SandboxListItem, SandboxSortField, SandboxState, SortDirection,
};
use reqwest::Method;

use crate::{Client, ClientError, Result};

/// A server that leads in circles is left after this many pages.
const PAGES_MAX: u32 = 100_000;

/// Which sandboxes, and in which order. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListQuery {
    /// Those that have all of these.
    pub labels: StringMap,
    /// Those whose state is one of these; any if empty.
    pub states: Vec<SandboxState>,
    /// Those whose name starts so.
    pub name: Option<String>,
    pub sort: Option<SandboxSortField>,
    pub order: Option<SortDirection>,
    /// How many at once; the server's choice if unset.
    pub page_size: Option<u32>,
}

/// Sandboxes of a list, fetched as they are asked for.
#[derive(Debug)]
pub struct Sandboxes<'client> {
    client: &'client Client,
    query: ListQuery,
    page: VecDeque<SandboxListItem>,
    /// `None` when there is nothing more to fetch.
    next: Option<NextPage>,
    fetched: u32,
}

#[derive(Debug)]
enum NextPage {
    First,
    At(String),
}

impl Client {
    pub fn list(&self, query: ListQuery) -> Sandboxes<'_> {
        Sandboxes {
            client: self,
            query,
            page: VecDeque::new(),
            next: Some(NextPage::First),
            fetched: 0,
        }
    }

    /// One page: of the beginning, or of where a cursor points.
    pub async fn list_page(
        &self,
        query: &ListQuery,
        cursor: Option<&str>,
    ) -> Result<ListSandboxesResponse> {
        let mut call = self.call(Method::GET, &["sandbox"], "list sandboxes")?;
        if let Some(cursor) = cursor {
            call = call.query("cursor", cursor);
        }
        if let Some(size) = query.page_size {
            call = call.query("limit", &size.to_string());
        }
        if let Some(name) = &query.name {
            call = call.query("name", name);
        }
        if !query.labels.is_empty() {
            let labels =
                serde_json::to_string(&query.labels).map_err(|error| ClientError::Invalid {
                    what: "set of labels",
                    problem: error.to_string(),
                })?;
            call = call.query("labels", &labels);
        }
        for state in &query.states {
            call = call.query("states", state.as_str());
        }
        if let Some(sort) = &query.sort {
            call = call.query("sort", sort.as_str());
        }
        if let Some(order) = &query.order {
            call = call.query("order", order.as_str());
        }
        call.json().await
    }
}

impl Sandboxes<'_> {
    /// The next one; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<SandboxListItem>> {
        while self.page.is_empty() {
            let cursor = match &self.next {
                None => return Ok(None),
                Some(NextPage::First) => None,
                Some(NextPage::At(cursor)) => Some(cursor.as_str()),
            };
            let page = self.client.list_page(&self.query, cursor).await?;
            self.fetched += 1;
            if self.fetched > PAGES_MAX {
                return Err(ClientError::Protocol {
                    action: "list sandboxes".to_owned(),
                    problem: format!("the list has more than {PAGES_MAX} pages"),
                });
            }
            self.page = page.items.into();
            self.next = page
                .next_cursor
                .filter(|cursor| !cursor.is_empty())
                .map(NextPage::At);
        }
        Ok(self.page.pop_front())
    }

    /// All that are left, at most `count_max`; more is an error, so that no list is cut in silence.
    pub async fn all(mut self, count_max: usize) -> Result<Vec<SandboxListItem>> {
        let mut all = Vec::new();
        while let Some(sandbox) = self.next().await? {
            if all.len() == count_max {
                return Err(ClientError::Protocol {
                    action: "list sandboxes".to_owned(),
                    problem: format!("there are more than {count_max}"),
                });
            }
            all.push(sandbox);
        }
        Ok(all)
    }
}
