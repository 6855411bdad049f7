//! Server-sent events: each entry is a `data` event, and a `control` event follows that says where the reader is.
//!
//! Every event has an `id` line with the offset after it, so that a plain `EventSource` resumes by its `Last-Event-ID`.

use std::fmt;

use base64::Engine;
use bytes::Bytes;

use crate::content_type::ContentType;
use crate::json;
use crate::offset::{Offset, OffsetError};
use crate::state::Ending;

/// How the bytes of entries become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Text,
    /// Each event is an array of messages.
    Json,
    /// Announced by the header `Stream-SSE-Data-Encoding: base64`.
    Base64,
}

impl Encoding {
    pub fn of(content_type: &ContentType) -> Self {
        if content_type.is_json() {
            Self::Json
        } else if content_type.is_text() {
            Self::Text
        } else {
            Self::Base64
        }
    }
}

/// Where a reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    pub next: Offset,
    pub cursor: u64,
    pub freshness: Freshness,
    pub ending: Ending,
}

/// Whether more was there when the answer was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    UpToDate,
    MoreToRead,
}

/// What a browser sends back as `Last-Event-ID` when it comes again: `OFFSET`, or `OFFSET~TICKET`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId<'a> {
    pub at: Offset,
    /// What lets a reader in again that can send nothing else.
    pub ticket: Option<&'a str>,
}

const TICKET_SIGN: char = '~';

impl<'a> EventId<'a> {
    pub fn parse(text: &'a str) -> Result<Self, OffsetError> {
        let (at, ticket) = match text.split_once(TICKET_SIGN) {
            Some((at, ticket)) => (at, Some(ticket)),
            None => (text, None),
        };
        Ok(Self {
            at: at.parse()?,
            ticket,
        })
    }
}

impl From<Offset> for EventId<'_> {
    fn from(at: Offset) -> Self {
        Self { at, ticket: None }
    }
}

impl fmt::Display for EventId<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(formatter)?;
        match self.ticket {
            Some(ticket) => write!(formatter, "{TICKET_SIGN}{ticket}"),
            None => Ok(()),
        }
    }
}

/// Writes an entry, which ends where `id` says, to `out`.
pub fn write_data<'a>(
    out: &mut Vec<u8>,
    encoding: Encoding,
    entry: &Bytes,
    id: impl Into<EventId<'a>>,
) {
    let id = id.into();
    match encoding {
        // What is not UTF-8 is shown as such: events cannot carry it.
        Encoding::Text => write_event(out, "data", id, &String::from_utf8_lossy(entry)),
        Encoding::Json => {
            let array = json::array(std::slice::from_ref(entry));
            write_event(out, "data", id, &String::from_utf8_lossy(&array));
        }
        Encoding::Base64 => {
            let text = base64::engine::general_purpose::STANDARD.encode(entry);
            write_event(out, "data", id, &text);
        }
    }
}

/// Writes where the reader is; `ticket` is a part of the event's id.
pub fn write_control(out: &mut Vec<u8>, control: Control, ticket: Option<&str>) {
    let Control {
        next,
        cursor,
        freshness,
        ending,
    } = control;
    let rest = match (ending, freshness) {
        // The last event: there is nothing to come back for.
        (Ending::Closed, _) => "\"streamClosed\":true".to_owned(),
        (Ending::Open, Freshness::UpToDate) => {
            format!("\"streamCursor\":\"{cursor}\",\"upToDate\":true")
        }
        (Ending::Open, Freshness::MoreToRead) => format!("\"streamCursor\":\"{cursor}\""),
    };
    write_event(
        out,
        "control",
        EventId { at: next, ticket },
        &format!("{{\"streamNextOffset\":\"{next}\",{rest}}}"),
    );
}

/// A comment, which keeps the connection alive and which readers ignore.
pub fn write_comment(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n\n");
}

/// No line of the text can become a line of the format: each gets its own prefix.
fn write_event(out: &mut Vec<u8>, kind: &str, id: EventId<'_>, text: &str) {
    // The id comes first: there are readers that look for `data:` right after `event:`.
    out.extend_from_slice(format!("id: {id}\nevent: {kind}\n").as_bytes());
    for line in split_lines(text) {
        out.extend_from_slice(b"data:");
        // One space after the colon is the format's own.
        if line.starts_with(' ') {
            out.push(b' ');
        }
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// Lines as the format knows them: they end with `\r\n`, `\n` or `\r`.
fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\r', '\n']) else {
            rest = None;
            return Some(text);
        };
        let (line, tail) = text.split_at(end);
        rest = Some(
            tail.strip_prefix("\r\n")
                .unwrap_or_else(|| tail.get(1..).unwrap_or_default()),
        );
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offset::StreamId;
    use proptest::prelude::*;

    const NEXT: &str = "0000000000000002_0000000000000005";

    fn data(encoding: Encoding, entry: &[u8]) -> String {
        let mut out = Vec::new();
        write_data(
            &mut out,
            encoding,
            &Bytes::copy_from_slice(entry),
            Offset::new(StreamId(2), 5),
        );
        String::from_utf8(out).unwrap()
    }

    /// What a browser makes of one event: kind and data.
    fn receive(event: &str) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let (mut kind, mut lines) = (String::new(), Vec::new());
        for line in split_lines(event) {
            if line.is_empty() {
                if !lines.is_empty() {
                    events.push((std::mem::take(&mut kind), lines.join("\n")));
                    lines.clear();
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => kind = value.to_owned(),
                "data" => lines.push(value.to_owned()),
                "id" => assert_eq!(value, NEXT),
                other => panic!("unknown field {other:?}"),
            }
        }
        events
    }

    #[test]
    fn entries_become_events() {
        assert_eq!(
            data(Encoding::Text, b"hi"),
            format!("id: {NEXT}\nevent: data\ndata:hi\n\n")
        );
        assert_eq!(
            data(Encoding::Json, b"{\"a\":1},2"),
            format!("id: {NEXT}\nevent: data\ndata:[{{\"a\":1}},2]\n\n")
        );
        assert_eq!(
            data(Encoding::Base64, b"Hello"),
            format!("id: {NEXT}\nevent: data\ndata:SGVsbG8=\n\n")
        );
    }

    #[test]
    fn controls_say_where_the_reader_is() {
        let control = |freshness, ending| {
            let mut out = Vec::new();
            let next = Offset::new(StreamId(2), 5);
            write_control(
                &mut out,
                Control {
                    next,
                    cursor: 12,
                    freshness,
                    ending,
                },
                None,
            );
            receive(&String::from_utf8(out).unwrap()).remove(0).1
        };
        assert_eq!(
            control(Freshness::UpToDate, Ending::Open),
            format!(
                "{{\"streamNextOffset\":\"{NEXT}\",\"streamCursor\":\"12\",\"upToDate\":true}}"
            )
        );
        assert_eq!(
            control(Freshness::MoreToRead, Ending::Open),
            format!("{{\"streamNextOffset\":\"{NEXT}\",\"streamCursor\":\"12\"}}")
        );
        assert_eq!(
            control(Freshness::UpToDate, Ending::Closed),
            format!("{{\"streamNextOffset\":\"{NEXT}\",\"streamClosed\":true}}")
        );
    }

    #[test]
    fn ids_may_carry_a_ticket() {
        let at = Offset::new(StreamId(2), 5);
        let mut out = Vec::new();
        let id = EventId {
            at,
            ticket: Some("12-ab"),
        };
        write_data(&mut out, Encoding::Text, &Bytes::from("x"), id);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, format!("id: {NEXT}~12-ab\nevent: data\ndata:x\n\n"));
        assert_eq!(EventId::parse(&format!("{NEXT}~12-ab")), Ok(id));
        assert_eq!(EventId::parse(NEXT), Ok(EventId::from(at)));
        for wrong in ["", "~", "~12-ab", "now", "-1", "5~12-ab"] {
            assert!(EventId::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        /// Whatever is in an entry, the reader gets one event with that text.
        #[test]
        fn text_cannot_forge_events(text in "[ a:\r\nde\u{e9}]{0,40}") {
            let expected = text.replace("\r\n", "\n").replace('\r', "\n");
            let received = receive(&data(Encoding::Text, text.as_bytes()));
            prop_assert_eq!(received, [("data".to_owned(), expected)]);
        }
    }
}
