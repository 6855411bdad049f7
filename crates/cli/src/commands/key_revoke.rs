//! `holm key revoke`.

use holm_server::keys;
use serde::Serialize;

use super::Context;
use crate::args::KeyRevokeArgs;
use crate::error::CliError;
use crate::output;

#[derive(Debug, Serialize)]
struct RevokedJson<'a> {
    name: &'a str,
    organization: &'a str,
    shown: &'a str,
}

pub(crate) fn run(context: &Context, args: &KeyRevokeArgs) -> Result<u8, CliError> {
    let store = context.server_store(args.server.data.as_deref())?;
    let key = keys::revoke(&store, &args.organization, &args.name)?;
    if args.json {
        output::json(&RevokedJson {
            name: &key.name,
            organization: &args.organization,
            shown: &key.shown,
        })?;
    } else {
        output::say(&format!("revoked {} ({})", key.name, key.shown));
    }
    Ok(0)
}
