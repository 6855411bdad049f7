//! Reads `multipart/form-data` as a stream, without copying what it passes on.
//!
//! ```text
//! Preamble ──delimiter──▶ AfterDelimiter ──CRLF──▶ Headers ──blank line──▶ Data ──delimiter──▶ AfterDelimiter
//!                              └──"--"──▶ Epilogue
//! ```
//!
//! A pure machine: it is fed bytes and asked for what they mean. What it holds back is bounded by [`HEADER_BYTES_MAX`] and
//! the delimiter's length, whatever comes.

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;

/// All headers of one part together.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// RFC 2046 allows 70.
const BOUNDARY_BYTES_MAX: usize = 200;

/// What the bytes mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A part begins.
    Part(PartHeaders),
    /// More of the content of the part that began last.
    Data(Bytes),
    /// The part is complete.
    PartEnd,
    /// The last part was complete; what follows means nothing.
    End,
    /// More bytes are needed.
    Starved,
}

/// What is known of a part before its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartHeaders {
    /// The field's name.
    pub name: String,
    /// What the file is called: `filename*` if it is there and can be read, else `filename`.
    pub file_name: Option<String>,
    /// How long the content is, if the sender says so.
    pub content_length: Option<u64>,
}

/// The body is not what its content type says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MultipartError {
    #[error("a part has more than {HEADER_BYTES_MAX} bytes of headers")]
    HeadersTooLong,
    #[error("a part's headers are malformed")]
    MalformedHeaders,
    #[error("the body does not continue as multipart after a boundary")]
    MalformedBoundary,
    #[error("the body ends in the middle of a part")]
    Truncated,
    #[error("a part is not as long as its headers say")]
    WrongLength,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Preamble,
    AfterDelimiter,
    Headers,
    Data,
    Epilogue,
}

/// The machine.
#[derive(Debug)]
pub struct Multipart {
    state: State,
    buffer: Bytes,
    /// `CRLF--boundary`.
    delimiter: Bytes,
    find_delimiter: Finder<'static>,
    lengths: Lengths,
    /// What is left of the part, if its length is known and counts.
    left: Option<u64>,
    is_ended: bool,
}

/// What the lengths count that parts say of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths {
    /// Nothing: a part ends where the delimiter is.
    Ignored,
    /// The content is not searched for the delimiter, which has to follow it.
    Trusted,
}

impl Multipart {
    pub fn new(boundary: &str, lengths: Lengths) -> Self {
        let delimiter = Bytes::from(format!("\r\n--{boundary}"));
        Self {
            state: State::Preamble,
            // The first delimiter may stand at the very beginning, without the line before it.
            buffer: Bytes::from_static(b"\r\n"),
            find_delimiter: Finder::new(&delimiter).into_owned(),
            delimiter,
            lengths,
            left: None,
            is_ended: false,
        }
    }

    /// Gives more bytes. Call it only when the machine is starved.
    pub fn feed(&mut self, bytes: Bytes) {
        if self.buffer.is_empty() {
            self.buffer = bytes;
        } else {
            let mut joined = BytesMut::with_capacity(self.buffer.len() + bytes.len());
            joined.extend_from_slice(&self.buffer);
            joined.extend_from_slice(&bytes);
            self.buffer = joined.freeze();
        }
    }

    /// Says that no bytes will follow.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    pub fn next_event(&mut self) -> Result<Event, MultipartError> {
        let event = match self.state {
            State::Preamble => self.preamble()?,
            State::AfterDelimiter => self.after_delimiter()?,
            State::Headers => self.headers()?,
            State::Data => self.data()?,
            State::Epilogue => {
                self.buffer = Bytes::new();
                Event::End
            }
        };
        if event == Event::Starved && self.is_ended {
            return Err(MultipartError::Truncated);
        }
        Ok(event)
    }

    fn preamble(&mut self) -> Result<Event, MultipartError> {
        if let Some(at) = self.find_delimiter.find(&self.buffer) {
            drop(self.buffer.split_to(at + self.delimiter.len()));
            self.state = State::AfterDelimiter;
            return self.next_event();
        }
        let kept = self.possible_delimiter();
        drop(self.buffer.split_to(self.buffer.len() - kept));
        Ok(Event::Starved)
    }

    fn after_delimiter(&mut self) -> Result<Event, MultipartError> {
        // Spaces may follow a boundary.
        let spaces = self
            .buffer
            .iter()
            .take_while(|byte| matches!(**byte, b' ' | b'\t'))
            .count();
        if spaces > BOUNDARY_BYTES_MAX {
            return Err(MultipartError::MalformedBoundary);
        }
        let rest = self.buffer.get(spaces..).unwrap_or_default();
        match rest {
            [] => Ok(Event::Starved),
            [b'\r'] | [b'-'] => Ok(Event::Starved),
            [b'\r', b'\n', ..] => {
                // The end of this line stays: a part without headers goes on with another one.
                drop(self.buffer.split_to(spaces));
                self.state = State::Headers;
                self.next_event()
            }
            [b'-', b'-', ..] if spaces == 0 => {
                self.state = State::Epilogue;
                self.next_event()
            }
            [_, ..] => Err(MultipartError::MalformedBoundary),
        }
    }

    fn headers(&mut self) -> Result<Event, MultipartError> {
        let searched = self.buffer.len().min(HEADER_BYTES_MAX);
        let searched = self.buffer.get(..searched).unwrap_or_default();
        let Some(at) = memchr::memmem::find(searched, b"\r\n\r\n") else {
            return if self.buffer.len() >= HEADER_BYTES_MAX {
                Err(MultipartError::HeadersTooLong)
            } else {
                Ok(Event::Starved)
            };
        };
        let headers = self.buffer.split_to(at);
        drop(self.buffer.split_to(4));
        self.state = State::Data;
        let headers = parse_headers(&headers)?;
        self.left = match self.lengths {
            Lengths::Ignored => None,
            Lengths::Trusted => headers.content_length,
        };
        Ok(Event::Part(headers))
    }

    fn data(&mut self) -> Result<Event, MultipartError> {
        match self.left {
            None => Ok(self.data_until_delimiter()),
            Some(0) => self.delimiter_after_data(),
            Some(left) => Ok(self.data_of_length(left)),
        }
    }

    fn data_of_length(&mut self, left: u64) -> Event {
        if self.buffer.is_empty() {
            return Event::Starved;
        }
        let count =
            usize::try_from(left).map_or(self.buffer.len(), |left| left.min(self.buffer.len()));
        self.left = Some(left - count as u64);
        Event::Data(self.buffer.split_to(count))
    }

    fn delimiter_after_data(&mut self) -> Result<Event, MultipartError> {
        let common = self.buffer.len().min(self.delimiter.len());
        if self.buffer.get(..common) != self.delimiter.get(..common) {
            return Err(MultipartError::WrongLength);
        }
        if common < self.delimiter.len() {
            return Ok(Event::Starved);
        }
        drop(self.buffer.split_to(common));
        self.state = State::AfterDelimiter;
        Ok(Event::PartEnd)
    }

    fn data_until_delimiter(&mut self) -> Event {
        if let Some(at) = self.find_delimiter.find(&self.buffer) {
            if at > 0 {
                return Event::Data(self.buffer.split_to(at));
            }
            drop(self.buffer.split_to(self.delimiter.len()));
            self.state = State::AfterDelimiter;
            return Event::PartEnd;
        }
        let kept = self.possible_delimiter();
        let data = self.buffer.split_to(self.buffer.len() - kept);
        if data.is_empty() {
            Event::Starved
        } else {
            Event::Data(data)
        }
    }

    /// How many of the last bytes may be the beginning of a delimiter.
    fn possible_delimiter(&self) -> usize {
        let longest = self.buffer.len().min(self.delimiter.len() - 1);
        (1..=longest)
            .rev()
            .find(|length| {
                let tail = self.buffer.len() - length;
                self.buffer.get(tail..) == self.delimiter.get(..*length)
            })
            .unwrap_or(0)
    }
}

fn parse_headers(headers: &[u8]) -> Result<PartHeaders, MultipartError> {
    let malformed = || MultipartError::MalformedHeaders;
    let headers = std::str::from_utf8(headers).map_err(|_| malformed())?;
    let value = |wanted: &str| {
        headers
            .split("\r\n")
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value)
    };
    let disposition = value("content-disposition").ok_or_else(malformed)?;
    let parameters = Parameters::parse(disposition).ok_or_else(malformed)?;
    let (plain, extended) = (parameters.get("filename"), parameters.get("filename*"));
    Ok(PartHeaders {
        name: parameters.get("name").ok_or_else(malformed)?.to_owned(),
        file_name: extended
            .and_then(extended_value)
            .or_else(|| plain.map(str::to_owned)),
        content_length: value("content-length").and_then(|length| length.trim().parse().ok()),
    })
}

/// A value in the form of RFC 5987 (`utf-8''a%20b`); `None` if it is malformed, or not in UTF-8.
fn extended_value(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_language, encoded) = rest.split_once('\'')?;
    if !charset.eq_ignore_ascii_case("utf-8") {
        return None;
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let [high, low] = *digits else { return None };
        let digit = |byte| char::from(byte).to_digit(16);
        let byte = digit(high)? * 16 + digit(low)?;
        bytes.push(u8::try_from(byte).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// The boundary that a content type names, if it is `multipart/form-data` with a boundary.
pub fn boundary(content_type: &str) -> Option<String> {
    let (kind, _) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let parameters = Parameters::parse(content_type)?;
    let boundary = parameters.get("boundary")?;
    let is_fine = !boundary.is_empty()
        && boundary.len() <= BOUNDARY_BYTES_MAX
        && boundary.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    is_fine.then(|| boundary.to_owned())
}

/// The parameters after the first word of a header's value.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// `None` if a quote is not closed.
    fn parse(value: &str) -> Option<Self> {
        let mut found = Vec::new();
        let mut rest = value.split_once(';').map_or("", |(_, rest)| rest);
        while let Some((name, after)) = rest.split_once('=') {
            let name = name.trim_matches([' ', '\t', ';']).to_ascii_lowercase();
            let after = after.trim_start_matches([' ', '\t']);
            let (value, left) = match after.strip_prefix('"') {
                Some(quoted) => unquote(quoted)?,
                None => match after.split_once(';') {
                    Some((value, left)) => (value.trim().to_owned(), left),
                    None => (after.trim().to_owned(), ""),
                },
            };
            found.push((name, value));
            rest = left;
        }
        Some(Self(found))
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A quoted text after its first quote, and what follows its last.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((text, quoted.get(at + 1..).unwrap_or_default())),
            // Browsers escape a quote only; a backslash before anything else is itself.
            '\\' if quoted
                .get(at + 1..)
                .is_some_and(|rest| rest.starts_with(['"', '\\'])) =>
            {
                text.extend(characters.next().map(|(_, escaped)| escaped));
            }
            other => text.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests;
