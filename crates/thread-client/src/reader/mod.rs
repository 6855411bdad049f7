//! A reader that resumes.
//!
//! ```text
//! CatchingUp ──pages──▶ Live ──events or long polls──▶ Ended
//!     ▲                  │
//!     └──── failed ──────┘      after a pause, from where it was
//! ```
//!
//! - Each entry is given out once and in order, however often the connection breaks: see [`Position`].
//! - A failure that may pass is waited out; one that stands is an error, and the reader can be asked again.
//! - One page, or one event, is kept in memory at a time.
//!
//! [`Reader::next`] can be dropped at any time, such as in a `select!`: nothing is lost by it.

mod position;
mod sse;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use holm_thread_log::sse::Freshness;
use holm_thread_log::{Ending, StreamName, json};
use reqwest::{Method, Response};
use tokio::time::Instant;

use crate::answer;
use crate::client::Client;
use crate::error::Prospect;
use crate::retry::{BackOff, Jitter};
use crate::streams::Page;
use crate::threads::shown;
use crate::{ClientError, Result};

use position::Counter;
pub use position::{Entry, Position};
use sse::{Control, Parser, SseEvent};

/// How news are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Live {
    /// Not at all: the end of what is there is the end.
    No,
    /// By server-sent events, and by long polls where these do not get through. For streams of JSON.
    Events,
    LongPoll,
}

#[derive(Debug, Clone)]
pub struct ReaderOptions {
    pub stream: StreamName,
    pub from: Position,
    pub live: Live,
    pub back_off: BackOff,
    /// A failure that lasts longer than this is an error, whether or not it may pass.
    pub patience: Option<Duration>,
}

impl ReaderOptions {
    /// All of a stream, and then what comes.
    pub fn new(stream: StreamName) -> Self {
        Self {
            stream,
            from: Position::start(),
            live: Live::Events,
            back_off: BackOff::default(),
            patience: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Entry(Entry),
    /// Everything that is there has been given out; what follows is new. Comes again after each interruption.
    CaughtUp,
    /// The connection is gone, and there will be another one.
    Interrupted {
        why: String,
    },
}

/// Connections for events that end so soon are a failure: a server that does nothing else would be asked without end.
const CONNECTION_MIN: Duration = Duration::from_secs(1);
/// So many connections without a single byte, and something between us and the server does not let events through.
const SILENT_CONNECTIONS_MAX: u32 = 2;

#[derive(Debug)]
pub struct Reader {
    client: Client,
    options: ReaderOptions,
    counter: Counter,
    /// Behind what was given out.
    position: Position,
    phase: Phase,
    /// Received and not given out yet.
    queue: VecDeque<Event>,
    failures: u32,
    failing_since: Option<Instant>,
    pause_until: Option<Instant>,
    silent_connections: u32,
    ending: Ending,
}

#[derive(Debug)]
enum Phase {
    CatchingUp,
    /// About to connect.
    Live,
    Events(Box<Connection>),
    LongPoll {
        cursor: Option<String>,
    },
    Ended,
}

#[derive(Debug)]
struct Connection {
    response: Response,
    parser: Parser,
    since: Instant,
    is_silent: bool,
}

impl Reader {
    pub fn new(client: Client, options: ReaderOptions) -> Self {
        Self {
            counter: Counter::new(options.from.clone()),
            position: options.from.clone(),
            client,
            options,
            phase: Phase::CatchingUp,
            queue: VecDeque::new(),
            failures: 0,
            failing_since: None,
            pause_until: None,
            silent_connections: 0,
            ending: Ending::Open,
        }
    }

    /// Where to go on, behind all that was given out.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Whether the stream was closed, as far as is known.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// What happens next. `None`: the stream is closed and all of it was given out; or the end of what is there, for
    /// [`Live::No`].
    pub async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                if let Event::Entry(entry) = &event {
                    self.position = entry.after.clone();
                }
                return Ok(Some(event));
            }
            if matches!(self.phase, Phase::Ended) {
                return Ok(None);
            }
            if let Some(until) = self.pause_until {
                tokio::time::sleep_until(until).await;
                self.pause_until = None;
            }
            if let Err(error) = self.step().await {
                self.failed(error)?;
            }
        }
    }

    /// Decides what becomes of a failure: a pause, or the caller's to know.
    fn failed(&mut self, error: ClientError) -> Result<()> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let is_enough = self
            .options
            .patience
            .is_some_and(|patience| since.elapsed() >= patience);
        self.phase = Phase::CatchingUp;
        if error.prospect() == Prospect::Stands || is_enough {
            self.recovered();
            return Err(error);
        }
        self.failures = self.failures.saturating_add(1);
        let asked = error.api().and_then(|error| error.retry_after);
        let pause = self
            .options
            .back_off
            .pause(self.failures, asked, Jitter::random());
        self.pause_until = Some(Instant::now() + pause);
        let why = error.to_string();
        self.queue.push_back(Event::Interrupted { why });
        Ok(())
    }

    fn recovered(&mut self) {
        self.failures = 0;
        self.failing_since = None;
    }

    async fn step(&mut self) -> Result<()> {
        match &mut self.phase {
            Phase::CatchingUp => self.catch_up().await,
            Phase::Live => self.go_live().await,
            Phase::Events(_) => self.events().await,
            Phase::LongPoll { .. } => self.long_poll().await,
            Phase::Ended => Ok(()),
        }
    }

    async fn catch_up(&mut self) -> Result<()> {
        let offset = self.counter.ask_from();
        let page = self.client.read_page(&self.options.stream, offset).await?;
        self.recovered();
        let is_fresh = page.tail.freshness == Freshness::UpToDate;
        let is_empty = page.messages.is_empty();
        let moved = self.take_page(page);
        if is_fresh {
            self.queue.push_back(Event::CaughtUp);
            self.phase = match (self.ending, self.options.live) {
                (Ending::Closed, _) | (Ending::Open, Live::No) => Phase::Ended,
                (Ending::Open, Live::Events) => Phase::Live,
                (Ending::Open, Live::LongPoll) => Phase::LongPoll { cursor: None },
            };
        } else if is_empty && moved == Moved::No {
            // Asked again at once, it would say the same.
            return Err(ClientError::Protocol {
                action: format!("read {}", shown(&self.options.stream)),
                problem: "a page is neither the last one nor has it anything".to_owned(),
            });
        }
        Ok(())
    }

    async fn go_live(&mut self) -> Result<()> {
        if self.silent_connections > SILENT_CONNECTIONS_MAX {
            self.phase = Phase::LongPoll { cursor: None };
            return Ok(());
        }
        let call = self
            .client
            .stream_call(Method::GET, &self.options.stream, "follow")
            .query("offset", self.counter.ask_from())
            .query("live", "sse")
            .header("accept", "text/event-stream");
        let response = self.client.send(&call).await?;
        let kind = answer::header(response.headers(), "content-type").unwrap_or_default();
        let encoding = answer::header(response.headers(), "stream-sse-data-encoding");
        if !kind.starts_with("text/event-stream") || encoding.is_some() {
            self.phase = Phase::LongPoll { cursor: None };
            return Ok(());
        }
        self.phase = Phase::Events(Box::new(Connection {
            response,
            parser: Parser::new(self.client.answer_bytes_max()),
            since: Instant::now(),
            is_silent: true,
        }));
        Ok(())
    }

    async fn events(&mut self) -> Result<()> {
        let Phase::Events(connection) = &mut self.phase else {
            return Ok(());
        };
        let action = format!("follow {}", shown(&self.options.stream));
        let chunk = connection.response.chunk().await;
        let Ok(Some(chunk)) = chunk else {
            return self.connection_ended(action, chunk.err());
        };
        connection.is_silent = false;
        let mut events = Vec::new();
        let fed = connection.parser.feed(&chunk, &mut events);
        fed.map_err(|_| ClientError::TooLarge {
            action: action.clone(),
            bytes_max: self.client.answer_bytes_max(),
        })?;
        self.silent_connections = 0;
        // Not what came before a connection that was closed at once: that is no recovery.
        if !events.is_empty() {
            self.recovered();
        }
        for event in events {
            self.take_event(&action, &event)?;
        }
        Ok(())
    }

    /// Servers end connections from time to time; that is no failure unless it is all that they do.
    fn connection_ended(&mut self, action: String, error: Option<reqwest::Error>) -> Result<()> {
        let Phase::Events(connection) = std::mem::replace(&mut self.phase, Phase::Live) else {
            return Ok(());
        };
        if connection.is_silent {
            self.silent_connections += 1;
        }
        match error {
            Some(error) => Err(answer::cut(&action, error)),
            None if connection.since.elapsed() < CONNECTION_MIN => Err(ClientError::Unreachable {
                action,
                source: "the connection was closed at once".into(),
            }),
            None => Ok(()),
        }
    }

    async fn long_poll(&mut self) -> Result<()> {
        let Phase::LongPoll { cursor } = &self.phase else {
            return Ok(());
        };
        let cursor = cursor.clone();
        let offset = self.counter.ask_from();
        let (page, cursor) = self
            .client
            .long_poll(&self.options.stream, offset, cursor.as_deref())
            .await?;
        self.recovered();
        self.phase = Phase::LongPoll { cursor };
        let Some(page) = page else {
            return Ok(());
        };
        self.take_page(page);
        if self.ending == Ending::Closed {
            self.phase = Phase::Ended;
        }
        Ok(())
    }

    fn take_page(&mut self, page: Page) -> Moved {
        for message in page.messages {
            self.queue
                .extend(self.counter.message(message).map(Event::Entry));
        }
        self.ending = page.tail.ending;
        self.reached(&page.tail.next_offset)
    }

    /// The last entry that waits to be given out ends at an offset, as does the reader itself if none waits.
    fn reached(&mut self, offset: &str) -> Moved {
        let reached = self.counter.reached(offset);
        let last = self.queue.iter_mut().rev().find_map(|event| match event {
            Event::Entry(entry) => Some(entry),
            Event::CaughtUp | Event::Interrupted { .. } => None,
        });
        let place = last.map_or(&mut self.position, |entry| &mut entry.after);
        let moved = if *place == reached {
            Moved::No
        } else {
            Moved::Yes
        };
        *place = reached;
        moved
    }

    fn take_event(&mut self, action: &str, event: &SseEvent) -> Result<()> {
        let malformed = |problem: String| ClientError::Protocol {
            action: action.to_owned(),
            problem,
        };
        match event.kind.as_str() {
            "data" => {
                let messages = json::flatten(&Bytes::from(event.data.clone()))
                    .map_err(|error| malformed(error.to_string()))?;
                for message in messages {
                    self.queue
                        .extend(self.counter.message(message).map(Event::Entry));
                }
            }
            "control" => {
                let control: Control = serde_json::from_str(&event.data)
                    .map_err(|error| malformed(error.to_string()))?;
                let offset = answer::checked_offset(action, &control.stream_next_offset)?;
                self.reached(&offset);
                if control.stream_closed {
                    self.ending = Ending::Closed;
                    self.phase = Phase::Ended;
                }
            }
            // Servers may say more than we know.
            _ => {}
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    Yes,
    No,
}
