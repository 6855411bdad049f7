//! Lists of sandboxes: what is asked for, in which order, page by page.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use holm_daytona_wire::sandbox::{SandboxSortField, SandboxState, SortDirection};

use super::query::Pairs;
use crate::clock::Millis;
use crate::error::{ApiError, Result};
use crate::records::SandboxRecord;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 200;

/// What a list shall hold.
#[derive(Debug)]
pub(crate) struct Listing {
    id: Option<String>,
    name: Option<String>,
    labels: BTreeMap<String, String>,
    states: Vec<SandboxState>,
    snapshots: Vec<String>,
    targets: Vec<String>,
    ranges: Vec<Range>,
    sort: SandboxSortField,
    order: SortDirection,
    cursor: Option<Position>,
    limit: usize,
}

/// A number of a record that has to lie between two others.
#[derive(Debug)]
struct Range {
    of: fn(&SandboxRecord) -> i64,
    least: Option<i64>,
    most: Option<i64>,
}

/// Where a page ended: stays right when sandboxes come and go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Position {
    key: SortKey,
    id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
enum SortKey {
    Number(i64),
    Text(String),
}

impl Listing {
    pub(crate) fn parse(query: &Pairs) -> Result<Self> {
        let labels = match query.get("labels") {
            None | Some("null") => BTreeMap::new(),
            Some(text) => serde_json::from_str(text).map_err(|_| {
                ApiError::bad_request(
                    "`labels` has to be a JSON object of texts, such as {\"team\":\"a\"}",
                )
            })?,
        };
        let words = |name: &str| -> Vec<String> {
            query
                .all(name)
                .flat_map(|value| value.split(','))
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let range = |least: &str, most: &str, of: fn(&SandboxRecord) -> i64| -> Result<Range> {
            Ok(Range {
                of,
                least: query.parsed(least)?,
                most: query.parsed(most)?,
            })
        };
        let limit: usize = query.parsed("limit")?.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(ApiError::bad_request(format!(
                "`limit` has to be between 1 and {LIMIT_MAX}"
            )));
        }
        let listing = Self {
            id: query.get("id").map(str::to_lowercase),
            name: query.get("name").map(str::to_lowercase),
            labels,
            states: words("states")
                .iter()
                .map(|word| SandboxState::from(word.as_str()))
                .collect(),
            snapshots: words("snapshots"),
            targets: words("regionIds"),
            ranges: vec![
                range("minCpu", "maxCpu", |record| record.resources.cpu.into())?,
                range("minMemoryGiB", "maxMemoryGiB", |record| {
                    record.resources.memory_gib.into()
                })?,
                range("minDiskGiB", "maxDiskGiB", |record| {
                    record.resources.disk_gib.into()
                })?,
            ],
            sort: query
                .get("sort")
                .map_or(SandboxSortField::CreatedAt, SandboxSortField::from),
            order: query
                .get("order")
                .map_or(SortDirection::Desc, SortDirection::from),
            cursor: query.get("cursor").map(Position::parse).transpose()?,
            limit,
        };
        listing.check_cursor()?;
        Ok(listing)
    }

    /// A cursor of a list in another order leads nowhere.
    fn check_cursor(&self) -> Result<()> {
        let sorts_by_text = self.sort == SandboxSortField::Name;
        let is_other = |cursor: &Position| matches!(cursor.key, SortKey::Text(_)) != sorts_by_text;
        if self.cursor.as_ref().is_some_and(is_other) {
            return Err(ApiError::bad_request(
                "`cursor` belongs to a list with another `sort`",
            ));
        }
        Ok(())
    }

    fn wants(&self, record: &SandboxRecord) -> bool {
        let begins = |text: &str, beginning: &Option<String>| {
            beginning
                .as_ref()
                .is_none_or(|beginning| text.to_lowercase().starts_with(beginning))
        };
        begins(&record.id, &self.id)
            && begins(&record.name, &self.name)
            && self
                .labels
                .iter()
                .all(|(name, value)| record.labels.get(name) == Some(value))
            && (self.states.is_empty() || self.states.contains(&record.state))
            && is_among(&self.snapshots, record.snapshot.as_deref())
            && is_among(&self.targets, Some(&record.target))
            && self.ranges.iter().all(|range| range.holds(record))
    }

    fn key(&self, record: &SandboxRecord) -> SortKey {
        let time = |time: Millis| SortKey::Number(time);
        match self.sort {
            SandboxSortField::Name => SortKey::Text(record.name.clone()),
            SandboxSortField::Cpu => SortKey::Number(record.resources.cpu.into()),
            SandboxSortField::MemoryGib => SortKey::Number(record.resources.memory_gib.into()),
            SandboxSortField::DiskGib => SortKey::Number(record.resources.disk_gib.into()),
            SandboxSortField::LastActivityAt => time(record.last_activity_at),
            SandboxSortField::CreatedAt | SandboxSortField::Unknown(_) => time(record.created_at),
        }
    }

    fn compare(&self, left: &Position, right: &Position) -> Ordering {
        let ascending = (&left.key, &left.id).cmp(&(&right.key, &right.id));
        match self.order {
            SortDirection::Asc => ascending,
            SortDirection::Desc | SortDirection::Unknown(_) => ascending.reverse(),
        }
    }

    /// All that is wanted, in order, from the cursor on.
    pub(crate) fn all(
        &self,
        records: impl IntoIterator<Item = SandboxRecord>,
    ) -> Vec<SandboxRecord> {
        let mut wanted: Vec<(Position, SandboxRecord)> = records
            .into_iter()
            .filter(|record| self.wants(record))
            .map(|record| {
                let position = Position {
                    key: self.key(&record),
                    id: record.id.clone(),
                };
                (position, record)
            })
            .collect();
        if let Some(cursor) = &self.cursor {
            wanted.retain(|(position, _)| self.compare(position, cursor).is_gt());
        }
        wanted.sort_by(|(left, _), (right, _)| self.compare(left, right));
        wanted.into_iter().map(|(_, record)| record).collect()
    }

    /// One page, and where the next one begins.
    pub(crate) fn page(
        &self,
        records: impl IntoIterator<Item = SandboxRecord>,
    ) -> (Vec<SandboxRecord>, Option<String>) {
        let mut page = self.all(records);
        let is_cut = page.len() > self.limit;
        page.truncate(self.limit);
        let last = page.last().filter(|_| is_cut);
        let next = last.map(|record| {
            let position = Position {
                key: self.key(record),
                id: record.id.clone(),
            };
            position.write()
        });
        (page, next)
    }
}

fn is_among(wanted: &[String], found: Option<&str>) -> bool {
    wanted.is_empty() || found.is_some_and(|found| wanted.iter().any(|word| word == found))
}

impl Range {
    fn holds(&self, record: &SandboxRecord) -> bool {
        let value = (self.of)(record);
        self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most)
    }
}

impl Position {
    fn parse(text: &str) -> Result<Self> {
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text);
        let parsed = bytes
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let (key, id) = parsed.ok_or_else(|| {
            ApiError::bad_request("`cursor` is not one that this server gave out")
        })?;
        Ok(Self { key, id })
    }

    fn write(&self) -> String {
        use base64::Engine as _;
        let text = serde_json::json!((&self.key, &self.id)).to_string();
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    }
}
