//! `holm thread append`: from words or lines to entries, and to the server or into a spool first.

use std::io::{self, BufRead, Read as _};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use holm_thread_client::{Client, Made, Producer, ProducerOptions, stream_name};
use holm_thread_log::Timestamp;
use holm_thread_log::producer::ProducerError as ProducerIdError;
use holm_thread_log::threads::{ENTRY_BYTES_MAX, ThreadEntry};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::Context;
use super::thread::wait_for;
use crate::args::ThreadAppendArgs;
use crate::error::CliError;
use crate::output;

/// Lines that wait to be sent. What comes while the server is asked goes with the next request.
const QUEUE_MAX: usize = 256;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AppendedJson {
    ids: Vec<String>,
    /// Entries of which the ids were not there before; not known of those that went through a spool.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<usize>,
}

/// An entry, and what it is called.
#[derive(Debug)]
struct NewEntry {
    id: String,
    data: Bytes,
}

pub(crate) fn run(context: &Context, args: ThreadAppendArgs) -> Result<u8, CliError> {
    let client = context.thread_client()?;
    // Refused before anything is read.
    stream_name(&args.thread)?;
    let is_json = args.json;
    let appended = wait_for(append(client, args))?;
    if is_json {
        output::json(&appended)?;
    } else {
        for id in &appended.ids {
            output::data(id)?;
        }
    }
    Ok(0)
}

async fn append(client: Client, args: ThreadAppendArgs) -> Result<AppendedJson, CliError> {
    let mut way = Way::open(client, &args).await?;
    let mut entries = entries(&args)?;
    let mut ids = Vec::new();
    let mut batch = Vec::new();
    while entries.recv_many(&mut batch, QUEUE_MAX).await > 0 {
        let new: Vec<NewEntry> = batch.drain(..).collect::<Result<_, _>>()?;
        let data: Vec<Bytes> = new.iter().map(|entry| entry.data.clone()).collect();
        way.send(data).await?;
        ids.extend(new.into_iter().map(|entry| entry.id));
    }
    let stored = way.finish().await?;
    Ok(AppendedJson { ids, stored })
}

/// How entries get to the server.
enum Way {
    Direct {
        client: Client,
        thread: String,
        patience: Duration,
        stored: usize,
    },
    Spool {
        producer: Box<Producer>,
        patience: Duration,
    },
}

impl Way {
    async fn open(client: Client, args: &ThreadAppendArgs) -> Result<Self, CliError> {
        let patience = args.patience;
        let Some(folder) = &args.spool else {
            return Ok(Self::Direct {
                client,
                thread: args.thread.clone(),
                patience,
                stored: 0,
            });
        };
        let mut options = ProducerOptions::json(stream_name(&args.thread)?, folder);
        if let Some(id) = &args.producer {
            let id = id
                .parse()
                .map_err(|error: ProducerIdError| CliError::Refused {
                    what: error.to_string(),
                    hint: None,
                })?;
            options.producer = Some(id);
        }
        let producer = Box::new(Producer::open(client, options).await?);
        Ok(Self::Spool { producer, patience })
    }

    async fn send(&mut self, entries: Vec<Bytes>) -> Result<(), CliError> {
        match self {
            Self::Direct {
                client,
                thread,
                patience,
                stored,
            } => {
                // Ids make it harmless to ask twice.
                if client.append_entries(thread, &entries, *patience).await? == Made::Now {
                    *stored += entries.len();
                }
            }
            Self::Spool { producer, .. } => {
                producer.append(entries).await?;
            }
        }
        Ok(())
    }

    /// Waits for the last confirmation.
    async fn finish(self) -> Result<Option<usize>, CliError> {
        match self {
            Self::Direct { stored, .. } => Ok(Some(stored)),
            Self::Spool { producer, patience } => {
                producer.flush(patience).await?;
                producer.close().await;
                Ok(None)
            }
        }
    }
}

/// Entries as they come.
fn entries(
    args: &ThreadAppendArgs,
) -> Result<mpsc::Receiver<Result<NewEntry, CliError>>, CliError> {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    if args.flush {
        return Ok(receiver);
    }
    let author = args.author.clone();
    if !args.ndjson {
        let text = match &args.text {
            Some(text) => text.clone(),
            None => read_text()?,
        };
        let payload = json!({ "type": "chat", "text": text });
        let entry = complete(
            Map::from_iter([("payload".to_owned(), payload)]),
            args.id.clone(),
            author,
        )?;
        // The queue is empty.
        drop(sender.try_send(Ok(entry)));
        return Ok(receiver);
    }
    let reading = move || {
        for (index, line) in lines().enumerate() {
            let entry = line.and_then(|line| from_line(&line, index + 1, author.clone()));
            let is_over = entry.is_err();
            if sender.blocking_send(entry).is_err() || is_over {
                return;
            }
        }
    };
    let started = std::thread::Builder::new()
        .name("holm-stdin".into())
        .spawn(reading);
    started.map_err(|source| CliError::Io {
        doing: "start a thread",
        source,
    })?;
    Ok(receiver)
}

fn read_text() -> Result<String, CliError> {
    let mut text = String::new();
    let limit = u64::try_from(ENTRY_BYTES_MAX).unwrap_or(u64::MAX);
    // One byte more than can be used, so that too much is refused and not cut.
    let read = io::stdin().lock().take(limit + 1).read_to_string(&mut text);
    read.map_err(|source| CliError::Io {
        doing: "read standard input as text",
        source,
    })?;
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Err(CliError::Refused {
            what: "there is nothing to append: standard input is empty".to_owned(),
            hint: Some("give the text as an argument, or write it to standard input".to_owned()),
        });
    }
    Ok(text.to_owned())
}

/// The lines of standard input, without empty ones; each has a limit.
fn lines() -> impl Iterator<Item = Result<Vec<u8>, CliError>> {
    let limit = u64::try_from(ENTRY_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    let mut input = io::BufReader::new(io::stdin());
    std::iter::from_fn(move || {
        loop {
            let mut line = Vec::new();
            match (&mut input).take(limit).read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => return Some(Ok(line)),
                Err(source) => {
                    let doing = "read standard input";
                    return Some(Err(CliError::Io { doing, source }));
                }
            }
        }
    })
}

/// An entry, or a payload alone.
fn from_line(line: &[u8], number: usize, author: Option<String>) -> Result<NewEntry, CliError> {
    let refused = |problem: String| CliError::Refused {
        what: format!("line {number} of standard input cannot be appended: {problem}"),
        hint: Some(
            "each line is an entry or a payload; see `holm thread append --help`".to_owned(),
        ),
    };
    let object: Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| refused(error.to_string()))?;
    let fields = if object.contains_key("payload") {
        object
    } else {
        Map::from_iter([("payload".to_owned(), Value::Object(object))])
    };
    let given = fields.get("id").and_then(Value::as_str).map(str::to_owned);
    complete(fields, given, author).map_err(|error| refused(error.to_string()))
}

/// Adds what is missing, and checks what a server would check.
fn complete(
    mut fields: Map<String, Value>,
    id: Option<String>,
    author: Option<String>,
) -> Result<NewEntry, CliError> {
    let id = id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    fields.insert("id".to_owned(), json!(id));
    fields
        .entry("ts")
        .or_insert_with(|| json!(now().to_string()));
    if let Some(author) = author {
        fields.entry("authorId").or_insert(json!(author));
    }
    let data = Bytes::from(Value::Object(fields).to_string());
    ThreadEntry::parse(&data).map_err(|error| CliError::Refused {
        what: error.to_string(),
        hint: None,
    })?;
    Ok(NewEntry { id, data })
}

fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
