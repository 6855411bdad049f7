//! A client of durable streams, for runners and for the command line.
//!
//! ```text
//! append ──▶ Producer ──▶ spool (synced) ──▶ promised
//!                            │
//!                            └──▶ sender: one batch at a time, until the server confirms it ──▶ spool is cleared
//!
//! Reader: pages until it is up to date ──▶ server-sent events or long polls ──▶ closed
//!            ▲                                  │
//!            └───── from its position, after any failure that may pass ─────┘
//! ```
//!
//! - [`Client`] speaks the protocol: one call, one answer, or an error that says whether it may pass.
//! - [`Producer`] takes entries over: what it took survives the death of this process, of the server and of the way
//!   between them, and is stored once.
//! - [`Reader`] yields each entry once and in order, and knows a stream that has ended from one that is quiet.
//!
//! - Threads are streams with a row: [`Client::create_thread`] and its neighbours.
//!
//! This crate prints nothing and reads no environment.

mod answer;
mod client;
mod credentials;
mod cursor_file;
mod error;
mod export;
mod producer;
mod reader;
mod retry;
mod settings;
mod spool;
mod streams;
mod threads;
mod verify;

pub use answer::Tail;
pub use client::Client;
pub use credentials::{BoxError, Credentials, FixedToken, Renewal};
pub use cursor_file::CursorFile;
pub use error::{ApiError, ClientError, Prospect};
pub use export::{ExportEnd, ExportError, ExportHeader, ExportReader, ExportWriter};
pub use producer::{IfForgotten, Producer, ProducerError, ProducerOptions, Progress, Stopped};
pub use reader::{Entry, Event, Live, Position, Reader, ReaderOptions};
pub use retry::BackOff;
pub use settings::{Deadlines, Settings};
pub use spool::{Kind, SpoolError, SpoolLimits};
pub use streams::{Made, Page};
pub use threads::{
    NewThread, Thread, ThreadFilter, ThreadList, ThreadParent, ThreadRun, ThreadStream, stream_name,
};

pub use verify::{Finding, ThreadCheck};

pub type Result<T, E = ClientError> = std::result::Result<T, E>;
