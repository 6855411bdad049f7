//! What the script around a command tells in the command's own outputs: `RS "holm:" ID ":" TEXT LF`.
//!
//! The id is drawn for each command, so that no output holds it by accident. A command that reads it from its script and
//! writes a mark of its own can lie about nothing but itself.
//!
//! **Invariant:** output comes out as it went in, without the marks, wherever the chunks were cut; nothing is held back
//! but what may be the beginning of a mark.

const TEXT_BYTES_MAX: usize = 64;

/// What one output held.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Output(Vec<u8>),
    Mark(String),
}

/// Finds the marks of one output.
#[derive(Debug)]
pub(super) struct Marks {
    begin: Vec<u8>,
    held: Vec<u8>,
}

impl Marks {
    pub(super) fn new(id: &str) -> Self {
        Self {
            begin: format!("\x1eholm:{id}:").into_bytes(),
            held: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<Found> {
        self.held.extend_from_slice(chunk);
        let mut found = Vec::new();
        loop {
            let (clear, mark) = self.look();
            if clear > 0 {
                found.push(Found::Output(self.held.drain(..clear).collect()));
            }
            let Some(length) = mark else {
                return found;
            };
            let mark: Vec<u8> = self.held.drain(..length).collect();
            let text = mark.get(self.begin.len()..length - 1).unwrap_or_default();
            found.push(Found::Mark(String::from_utf8_lossy(text).into_owned()));
        }
    }

    /// The end of the output: what was held back was no mark.
    pub(super) fn finish(self) -> Vec<u8> {
        self.held
    }

    /// How much at the beginning is output, and how long the mark after it is, if it is whole.
    fn look(&self) -> (usize, Option<usize>) {
        let mut from = 0;
        while let Some(at) = self.next_separator(from) {
            let rest = &self.held[at..];
            let known = rest.len().min(self.begin.len());
            if rest[..known] != self.begin[..known] {
                from = at + 1;
                continue;
            }
            let text = rest.get(self.begin.len()..).unwrap_or_default();
            let end = text
                .iter()
                .take(TEXT_BYTES_MAX)
                .position(|byte| *byte == b'\n');
            match end {
                Some(end) => return (at, Some(self.begin.len() + end + 1)),
                // Too long for one of ours.
                None if text.len() >= TEXT_BYTES_MAX => from = at + 1,
                None => return (at, None),
            }
        }
        (self.held.len(), None)
    }

    fn next_separator(&self, from: usize) -> Option<usize> {
        let rest = self.held.get(from..)?;
        rest.iter()
            .position(|byte| *byte == 0x1e)
            .map(|at| from + at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(chunks: &[&[u8]]) -> (Vec<u8>, Vec<String>) {
        let mut marks = Marks::new("ab");
        let (mut output, mut texts) = (Vec::new(), Vec::new());
        for chunk in chunks {
            for found in marks.push(chunk) {
                match found {
                    Found::Output(bytes) => output.extend(bytes),
                    Found::Mark(text) => texts.push(text),
                }
            }
        }
        output.extend(marks.finish());
        (output, texts)
    }

    #[test]
    fn marks_are_taken_out_and_what_looks_like_one_is_not() {
        let (output, texts) = run(&[b"x\x1eholm:ab:end:0\ny\x1eholm:cd:no\n\x1e"]);
        assert_eq!(output, b"xy\x1eholm:cd:no\n\x1e");
        assert_eq!(texts, ["end:0"]);
        let long = [b"\x1eholm:ab:".as_slice(), &[b'z'; 100], b"\n"].concat();
        assert_eq!(run(&[&long]), (long.clone(), Vec::new()));
    }

    #[test]
    fn lines_appear_when_they_are_written() {
        let mut marks = Marks::new("ab");
        assert_eq!(marks.push(b"ready"), [Found::Output(b"ready".to_vec())]);
        assert_eq!(marks.push(b"\x1eholm:a"), []);
        assert_eq!(marks.push(b"b:end\n"), [Found::Mark("end".to_owned())]);
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            parts in prop::collection::vec(prop_oneof![
                Just(b"\x1eholm:ab:end:0\n".to_vec()),
                Just(b"\x1eholm:".to_vec()),
                prop::collection::vec(any::<u8>(), 0..8),
            ], 0..8),
            cut in 1_usize..7,
        ) {
            let whole = parts.concat();
            let chunks: Vec<&[u8]> = whole.chunks(cut).collect();
            prop_assert_eq!(run(&chunks), run(&[&whole]));
        }
    }
}
