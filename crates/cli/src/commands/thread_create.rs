//! `holm thread create`.

use holm_thread_client::{NewThread, ThreadParent};

use super::Context;
use super::thread::wait_for;
use crate::args::ThreadCreateArgs;
use crate::error::CliError;
use crate::output;

pub(crate) fn run(context: &Context, args: ThreadCreateArgs) -> Result<u8, CliError> {
    let client = context.thread_client()?;
    let wanted = NewThread {
        id: args.id,
        parent: args.parent.map(|id| ThreadParent::Thread { id }),
        tags: args.tags,
        environment_id: args.environment,
        sandbox_id: args.sandbox,
        status: args.idle.then(|| "idle".to_owned()),
    };
    let (_, thread) = wait_for(async { Ok(client.create_thread(&wanted).await?) })?;
    if args.json {
        output::json(&thread)?;
    } else {
        output::data(&thread.id)?;
    }
    Ok(0)
}
