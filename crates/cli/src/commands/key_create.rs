//! `holm key create`.

use holm_server::keys::{self, KeyText};
use serde::Serialize;

use super::Context;
use crate::args::KeyCreateArgs;
use crate::error::CliError;
use crate::output::{self, Tone, tell};

#[derive(Debug, Serialize)]
struct CreatedJson<'a> {
    name: &'a str,
    organization: &'a str,
    /// The key itself, shown this once.
    key: &'a str,
}

pub(crate) fn run(context: &Context, args: &KeyCreateArgs) -> Result<u8, CliError> {
    let store = context.server_store(args.server.data.as_deref())?;
    let key = keys::create(&store, &args.organization, &args.name, KeyText::Random)?;
    if args.json {
        output::json(&CreatedJson {
            name: &key.record.name,
            organization: &args.organization,
            key: key.text.expose(),
        })?;
        return Ok(0);
    }
    output::data(key.text.expose())?;
    tell(Tone::Note, "this key is not shown again");
    Ok(0)
}
