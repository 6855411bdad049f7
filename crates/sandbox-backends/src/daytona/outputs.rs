//! Both outputs of a command as they come: without the marks, capped, redacted, and handed on.

use std::time::Duration;

use holm_daytona_client::wire::log::{Piece, Stream};
use holm_sandbox::{
    Capture, Captured, Exec, ExecOutcome, OutputSink, OutputStream, Redactor, StreamRedactor,
};

use super::marks::{Found, Marks};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    Running,
}

/// Both outputs of a command, and what its script told in them.
pub(super) struct Outputs {
    stdout: Output,
    stderr: Output,
    sink: Option<Box<dyn OutputSink>>,
    /// What looks like the beginning of a marker: output, unless the log breaks off behind it.
    unsure: Option<Piece>,
    pub(super) pid: Option<u32>,
    pub(super) code: Option<i32>,
    pub(super) failure: Option<i32>,
    pub(super) left: Left,
}

struct Output {
    stream: OutputStream,
    marks: Option<Marks>,
    capture: Capture,
    shown: StreamRedactor,
    /// How much of the log has arrived, and how much of it is to be passed over after following anew.
    seen: u64,
    skip: u64,
    room: usize,
}

impl Output {
    fn take(&mut self, mut bytes: &[u8], sink: &mut Option<Box<dyn OutputSink>>) -> Vec<String> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let skipped = self.skip.min(length);
        self.skip -= skipped;
        self.seen += length - skipped;
        bytes = bytes
            .get(usize::try_from(skipped).unwrap_or(usize::MAX)..)
            .unwrap_or_default();
        let mut texts = Vec::new();
        let Some(marks) = &mut self.marks else {
            // What comes after the end is of those that were left behind.
            return texts;
        };
        let mut is_ended = false;
        for found in marks.push(bytes) {
            match found {
                Found::Mark(text) => {
                    is_ended |= !text.starts_with("pid:");
                    texts.push(text);
                }
                Found::Output(_) if is_ended => {}
                Found::Output(output) => {
                    self.room = self.room.saturating_sub(output.len());
                    self.capture.push(&output);
                    if let Some(sink) = sink {
                        let shown = self.shown.push(&output);
                        if !shown.is_empty() {
                            sink.output(self.stream, &shown);
                        }
                    }
                }
            }
        }
        if is_ended {
            self.marks = None;
        }
        texts
    }

    /// Gives what was held back, and the whole.
    fn finish(mut self, sink: &mut Option<Box<dyn OutputSink>>) -> Captured {
        let held = self.marks.take().map(Marks::finish).unwrap_or_default();
        self.capture.push(&held);
        if let Some(sink) = sink {
            let mut shown = self.shown.push(&held);
            shown.extend(self.shown.finish());
            if !shown.is_empty() {
                sink.output(self.stream, &shown);
            }
        }
        self.capture.finish()
    }
}

impl Outputs {
    pub(super) fn new(
        exec: &Exec,
        id: &str,
        redactor: Redactor,
        sink: Option<Box<dyn OutputSink>>,
    ) -> Self {
        let output = |stream| Output {
            stream,
            marks: Some(Marks::new(id)),
            capture: Capture::new(exec.output_bytes_max, redactor.clone()),
            shown: StreamRedactor::new(redactor.clone()),
            seen: 0,
            skip: 0,
            room: exec
                .output_bytes_max
                .saturating_add(redactor.secret_bytes_max()),
        };
        Self {
            stdout: output(OutputStream::Stdout),
            stderr: output(OutputStream::Stderr),
            sink,
            unsure: None,
            pid: None,
            code: None,
            failure: None,
            left: Left::Nothing,
        }
    }

    pub(super) fn take(&mut self, piece: Piece) {
        if let Some(before) = self.unsure.take() {
            self.add(&before);
        }
        let markers = [Stream::Stdout, Stream::Stderr].map(Stream::marker);
        if markers
            .iter()
            .any(|marker| marker.starts_with(&piece.bytes))
        {
            self.unsure = Some(piece);
        } else {
            self.add(&piece);
        }
    }

    fn add(&mut self, piece: &Piece) {
        let output = match piece.stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        for text in output.take(&piece.bytes, &mut self.sink) {
            self.heed(&text);
        }
    }

    fn heed(&mut self, text: &str) {
        let mut words = text.split(':');
        match (words.next(), words.next(), words.next()) {
            (Some("pid"), Some(pid), _) => self.pid = pid.parse().ok(),
            (Some("fail"), Some(code), _) => self.failure = code.parse().ok(),
            (Some("end"), Some(code), left) => {
                self.code = code.parse().ok();
                if left == Some("left") {
                    self.left = Left::Running;
                }
            }
            _ => {}
        }
    }

    /// The log is followed from its beginning again.
    pub(super) fn begin_again(&mut self) {
        self.unsure = None;
        for output in [&mut self.stdout, &mut self.stderr] {
            output.skip = output.seen;
        }
    }

    pub(super) fn are_ended(&self) -> bool {
        self.stdout.marks.is_none() && self.stderr.marks.is_none()
    }

    /// Nothing of what could still come would be kept.
    pub(super) fn are_full(&self) -> bool {
        self.sink.is_none() && self.stdout.room == 0 && self.stderr.room == 0
    }

    pub(super) fn outcome(mut self, exit_code: i32, how: How, duration: Duration) -> ExecOutcome {
        if let Some(last) = self.unsure.take() {
            self.add(&last);
        }
        let stdout = self.stdout.finish(&mut self.sink);
        let stderr = self.stderr.finish(&mut self.sink);
        ExecOutcome {
            exit_code,
            signal: signal_of(exit_code),
            truncated: stdout.truncated || stderr.truncated,
            stdout: stdout.bytes,
            stderr: stderr.bytes,
            duration,
            timed_out: how == How::TimedOut,
        }
    }
}

/// What ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Ended,
    TimedOut,
    Killed,
}

/// A shell tells of a signal by the code alone; codes beyond the last signal are the command's own.
pub(super) fn signal_of(exit_code: i32) -> Option<i32> {
    const SIGNAL_MAX: i32 = 64;
    let signal = exit_code - 128;
    (1..=SIGNAL_MAX).contains(&signal).then_some(signal)
}
