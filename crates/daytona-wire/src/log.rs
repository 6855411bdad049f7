//! The log of a session's command: both outputs in one stream of bytes, told apart by markers.
//!
//! A chunk is a marker of three equal bytes (`01 01 01` for stdout, `02 02 02` for stderr) and then the output itself,
//! up to the next marker. There is no length and no escape: output that holds a marker's bytes is taken for a marker by
//! every reader, and Daytona's own log is ambiguous there. Ours is not: [`Multiplexer`] breaks such output with further
//! markers, so that a reader which takes the leftmost marker, as the SDKs and [`Demultiplexer`] do, gets every byte
//! back on the right stream.

/// One of the two outputs of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}

const MARKER_LENGTH: usize = 3;

impl Stream {
    pub fn marker(self) -> [u8; MARKER_LENGTH] {
        [self.marker_byte(); MARKER_LENGTH]
    }

    fn marker_byte(self) -> u8 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
        }
    }

    fn from_marker_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Stdout),
            2 => Some(Self::Stderr),
            _ => None,
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Stdout => Self::Stderr,
            Self::Stderr => Self::Stdout,
        }
    }
}

/// Writes a log. What [`Multiplexer::append`] gives belongs in one frame, since some readers look for a marker in one
/// frame only.
#[derive(Debug, Clone, Default)]
pub struct Multiplexer {
    last_byte: Option<u8>,
}

impl Multiplexer {
    /// The bytes that the log grows by; none for no output.
    pub fn append(&mut self, stream: Stream, output: &[u8]) -> Vec<u8> {
        let mut log = Vec::with_capacity(output.len() + 2 * MARKER_LENGTH);
        if output.is_empty() {
            return log;
        }
        self.push_marker(stream, &mut log);
        // How often the last byte of output stands in a row since the last marker.
        let mut run = 0;
        for &byte in output {
            let repeats = run > 0 && self.last_byte == Some(byte);
            run = if repeats { run + 1 } else { 1 };
            if run == MARKER_LENGTH && Stream::from_marker_byte(byte).is_some() {
                self.push_marker(stream, &mut log);
                run = 1;
            }
            log.push(byte);
            self.last_byte = Some(byte);
        }
        log
    }

    fn push_marker(&mut self, stream: Stream, log: &mut Vec<u8>) {
        // Output that ends with a byte of the marker would move the marker forward by one.
        if self.last_byte == Some(stream.marker_byte()) {
            log.extend(stream.other().marker());
        }
        log.extend(stream.marker());
        self.last_byte = Some(stream.marker_byte());
    }
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub stream: Stream,
    pub bytes: Vec<u8>,
}

/// Reads a log in whatever chunks it arrives. Bytes before the first marker belong to no stream and are dropped.
#[derive(Debug, Clone, Default)]
pub struct Demultiplexer {
    stream: Option<Stream>,
    /// The end of what has arrived, as far as it may be the beginning of a marker.
    held: Vec<u8>,
}

impl Demultiplexer {
    pub fn push(&mut self, chunk: &[u8]) -> Vec<Piece> {
        let mut buffer = std::mem::take(&mut self.held);
        buffer.extend_from_slice(chunk);
        let mut pieces = Vec::new();
        let mut rest = buffer.as_slice();
        while let Some((before, stream, after)) = split_at_marker(rest) {
            self.emit(before, &mut pieces);
            self.stream = Some(stream);
            rest = after;
        }
        let (output, held) = rest.split_at(rest.len() - marker_beginning_length(rest));
        self.emit(output, &mut pieces);
        self.held = held.to_vec();
        pieces
    }

    /// What was held back, now that no more comes.
    pub fn finish(mut self) -> Vec<Piece> {
        let held = std::mem::take(&mut self.held);
        let mut pieces = Vec::new();
        self.emit(&held, &mut pieces);
        pieces
    }

    fn emit(&self, bytes: &[u8], pieces: &mut Vec<Piece>) {
        let (Some(stream), false) = (self.stream, bytes.is_empty()) else {
            return;
        };
        pieces.push(Piece {
            stream,
            bytes: bytes.to_vec(),
        });
    }
}

fn split_at_marker(bytes: &[u8]) -> Option<(&[u8], Stream, &[u8])> {
    let (at, stream) = bytes
        .windows(MARKER_LENGTH)
        .enumerate()
        .find_map(|(at, window)| {
            let stream = Stream::from_marker_byte(window[0])?;
            (window == stream.marker()).then_some((at, stream))
        })?;
    Some((&bytes[..at], stream, &bytes[at + MARKER_LENGTH..]))
}

/// How many of the last bytes may be the beginning of a marker; `bytes` holds no whole one.
fn marker_beginning_length(bytes: &[u8]) -> usize {
    let Some(&last) = bytes.last() else { return 0 };
    if Stream::from_marker_byte(last).is_none() {
        return 0;
    }
    bytes.iter().rev().take_while(|byte| **byte == last).count()
}

/// The two outputs of a whole log: stdout, then stderr.
pub fn split_all(log: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    for piece in read_all(log) {
        match piece.stream {
            Stream::Stdout => stdout.extend(piece.bytes),
            Stream::Stderr => stderr.extend(piece.bytes),
        }
    }
    (stdout, stderr)
}

/// Both outputs of a whole log as they came, in one.
pub fn strip_markers(log: &[u8]) -> Vec<u8> {
    read_all(log)
        .into_iter()
        .flat_map(|piece| piece.bytes)
        .collect()
}

fn read_all(log: &[u8]) -> Vec<Piece> {
    let mut demultiplexer = Demultiplexer::default();
    let mut pieces = demultiplexer.push(log);
    pieces.extend(demultiplexer.finish());
    pieces
}

#[cfg(test)]
mod tests;
