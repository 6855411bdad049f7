//! `holm thread follow`: entries as they come, whatever happens to the connection.

use bytes::Bytes;
use holm_thread_client::{
    Client, CursorFile, Event, Live, Position, Reader, ReaderOptions, stream_name,
};

use super::thread::wait_for;
use super::{Context, thread_entry};
use crate::args::ThreadFollowArgs;
use crate::error::CliError;
use crate::output::{self, Tone, tell};

/// How often the cursor is saved while old entries are shown; new ones are saved one by one.
const SAVE_EVERY: u32 = 100;

pub(crate) fn run(context: &Context, args: &ThreadFollowArgs) -> Result<u8, CliError> {
    let client = context.thread_client()?;
    wait_for(follow(client, args))
}

async fn follow(client: Client, args: &ThreadFollowArgs) -> Result<u8, CliError> {
    let stream = stream_name(&args.thread)?;
    let cursor = args
        .cursor
        .as_ref()
        .map(|path| CursorFile::new(path, stream.clone()));
    let saved = cursor.as_ref().map(CursorFile::load).transpose()?.flatten();
    let from = saved.map_or_else(|| place(&args.from), Ok)?;
    let options = ReaderOptions {
        from,
        live: if args.no_wait { Live::No } else { Live::Events },
        ..ReaderOptions::new(stream)
    };
    let mut reader = Reader::new(client, options);
    let mut state = Shown::Old;
    let mut unsaved = 0;
    while let Some(event) = reader.next().await? {
        let is_due = match event {
            Event::Entry(entry) => {
                show(&entry.data, args)?;
                unsaved += 1;
                state == Shown::New || unsaved >= SAVE_EVERY
            }
            Event::CaughtUp => {
                state = Shown::New;
                unsaved > 0
            }
            Event::Interrupted { why } => {
                // Told once, however long it lasts.
                if state != Shown::Nothing {
                    tell(Tone::Note, &format!("{why}; trying again"));
                }
                state = Shown::Nothing;
                false
            }
        };
        if let (true, Some(cursor)) = (is_due, &cursor) {
            cursor.save(reader.position())?;
            unsaved = 0;
        }
    }
    if let Some(cursor) = &cursor {
        cursor.save(reader.position())?;
    }
    Ok(0)
}

/// What is being shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// What was there already.
    Old,
    New,
    /// The connection is gone.
    Nothing,
}

fn show(data: &Bytes, args: &ThreadFollowArgs) -> Result<(), CliError> {
    if args.json {
        output::raw(&format!("{}\n", thread_entry::line(data)))
    } else {
        output::raw(&format!("{}\n", thread_entry::for_people(data)))
    }
}

fn place(text: &str) -> Result<Position, CliError> {
    match text {
        "start" => Ok(Position::start()),
        "now" => Ok(Position::now()),
        offset if offset.parse::<holm_thread_log::Offset>().is_ok() => Ok(Position::at(offset)),
        other => Err(CliError::Refused {
            what: format!("`{other}` is no place to begin at"),
            hint: Some(
                "write `start`, `now`, or an offset such as `holm thread show` prints".to_owned(),
            ),
        }),
    }
}
