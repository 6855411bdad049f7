//! `holm key list`: a table for people, an array for programs.

use std::collections::HashMap;

use holm_server::records::{ApiKeyRecord, OrganizationRecord};
use serde::Serialize;

use super::Context;
use crate::args::KeyListArgs;
use crate::error::CliError;
use crate::output::{self, printable};
use crate::table::{age, table, unix_seconds_now};

const HEADINGS: [&str; 4] = ["NAME", "ORGANIZATION", "KEY", "AGE"];

#[derive(Debug, Serialize)]
struct ListedJson {
    name: String,
    organization: String,
    /// The beginning and the end of the key.
    shown: String,
    created_unix_seconds: u64,
}

pub(crate) fn run(context: &Context, args: &KeyListArgs) -> Result<u8, CliError> {
    let keys = listed(context, args)?;
    if args.json {
        output::json(&keys)?;
        return Ok(0);
    }
    if keys.is_empty() {
        output::say("there are no keys; make one with `holm key create`");
        return Ok(0);
    }
    let now = unix_seconds_now();
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(keys.into_iter().map(|key| {
        [
            printable(&key.name),
            printable(&key.organization),
            printable(&key.shown),
            age(now.saturating_sub(key.created_unix_seconds)),
        ]
    }));
    output::raw(&table(&rows))?;
    Ok(0)
}

fn listed(context: &Context, args: &KeyListArgs) -> Result<Vec<ListedJson>, CliError> {
    let store = context.server_store(args.server.data.as_deref())?;
    let failed = |source: holm_store::StoreError| CliError::Key(source.into());
    let organizations: HashMap<String, String> = store
        .all::<OrganizationRecord>()
        .map_err(failed)?
        .into_iter()
        .map(|organization| (organization.id, organization.name))
        .collect();
    let mut keys: Vec<ListedJson> = store
        .all::<ApiKeyRecord>()
        .map_err(failed)?
        .into_iter()
        .map(|key| ListedJson {
            organization: organizations
                .get(&key.organization)
                .unwrap_or(&key.organization)
                .clone(),
            name: key.name,
            shown: key.shown,
            created_unix_seconds: u64::try_from(key.created_at / 1000).unwrap_or(0),
        })
        .collect();
    keys.sort_by(|one, other| {
        (&one.organization, &one.name).cmp(&(&other.organization, &other.name))
    });
    Ok(keys)
}
