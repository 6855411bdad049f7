//! Server-sent events, as they come in: bytes to events, with a limit.

use serde::Deserialize;

/// One event with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SseEvent {
    pub(super) kind: String,
    pub(super) data: String,
}

/// The text of a `control` event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Control {
    pub(super) stream_next_offset: String,
    #[serde(default)]
    pub(super) up_to_date: bool,
    #[serde(default)]
    pub(super) stream_closed: bool,
}

/// An event grew beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// What is known of the event that is under way. An event that is cut off by the end of the connection is never given out.
#[derive(Debug)]
pub(super) struct Parser {
    line: Vec<u8>,
    kind: String,
    data: Vec<u8>,
    has_data: bool,
    /// The line feed of a pair: the line has ended with the other one.
    skips_line_feed: bool,
    is_first_line: bool,
    bytes_max: usize,
}

impl Parser {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            kind: String::new(),
            data: Vec::new(),
            has_data: false,
            skips_line_feed: false,
            is_first_line: true,
            bytes_max,
        }
    }

    /// Takes bytes in, and adds what they complete to `events`.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        events: &mut Vec<SseEvent>,
    ) -> Result<(), TooLong> {
        if std::mem::take(&mut self.skips_line_feed) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let (line, rest) = bytes.split_at(end);
            self.extend(line)?;
            bytes = if let Some(rest) = rest.strip_prefix(b"\r") {
                self.skips_line_feed = rest.is_empty();
                rest.strip_prefix(b"\n").unwrap_or(rest)
            } else {
                rest.get(1..).unwrap_or_default()
            };
            self.end_line(events);
        }
        self.extend(bytes)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() + bytes.len() > self.bytes_max {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            self.end_event(events);
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.kind = String::from_utf8_lossy(value).into_owned(),
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            // Comments, ids (we count for ourselves) and what is not known.
            _ => {}
        }
    }

    fn end_event(&mut self, events: &mut Vec<SseEvent>) {
        let kind = std::mem::take(&mut self.kind);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            events.push(SseEvent {
                kind,
                data: String::from_utf8_lossy(&data).into_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use holm_thread_log::Offset;
    use holm_thread_log::sse::{Encoding, write_comment, write_data};
    use proptest::prelude::*;

    fn parse(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = Parser::new(1_000_000);
        let mut events = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, &mut events).unwrap();
        }
        let pair = |event: SseEvent| (event.kind, event.data);
        events.into_iter().map(pair).collect()
    }

    fn pair(kind: &str, data: &str) -> (String, String) {
        (kind.to_owned(), data.to_owned())
    }

    #[test]
    fn lines_end_in_three_ways() {
        let expected = [pair("a", "1\n2"), pair("", "3")];
        let text = "\u{feff}event: a\ndata: 1\ndata:2\n\n:comment\ndata:3\n\n";
        for ending in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', ending);
            assert_eq!(parse(&[text.as_bytes()]), expected, "{ending:?}");
        }
    }

    #[test]
    fn what_is_cut_off_is_not_given_out() {
        assert_eq!(parse(&[b"data: 1\n\ndata: 2\n"]), [pair("", "1")]);
        assert_eq!(parse(&[b"event: x\n\n"]), []);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::new(100);
        let mut events = Vec::new();
        assert!(parser.feed(&[b'a'; 101], &mut events).is_err());
        let mut parser = Parser::new(100);
        let many = b"data: 0123456789\n".repeat(20);
        assert!(parser.feed(&many, &mut events).is_err());
    }

    proptest! {
        /// However a connection cuts it, what the server wrote is what we read.
        #[test]
        fn cuts_do_not_matter(texts in prop::collection::vec("[ a:\\r\\n\u{e9}]{0,12}", 1..5), cuts in prop::collection::vec(0_usize..200, 0..8)) {
            let mut bytes = Vec::new();
            for text in &texts {
                write_data(&mut bytes, Encoding::Text, &Bytes::from(text.clone()), Offset::START);
                write_comment(&mut bytes);
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            let expected: Vec<_> = texts
                .iter()
                .map(|text| pair("data", &text.replace("\r\n", "\n").replace('\r', "\n")))
                .collect();
            prop_assert_eq!(parse(&chunks), expected);
        }
    }
}
