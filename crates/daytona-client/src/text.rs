//! Text from bytes that arrive in pieces, which end where they like.

/// Makes text of output as it comes. A character that is not complete yet waits for its other bytes; bytes that are no
/// text become U+FFFD.
#[derive(Debug, Clone, Default)]
pub struct TextDecoder {
    /// The beginning of a character: at most three bytes.
    held: Vec<u8>,
}

impl TextDecoder {
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut buffer = std::mem::take(&mut self.held);
        buffer.extend_from_slice(bytes);
        let complete = buffer.len() - incomplete_length(&buffer);
        self.held = buffer.split_off(complete);
        String::from_utf8_lossy(&buffer).into_owned()
    }

    /// What is left when nothing more comes.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.held).into_owned()
    }
}

/// How many bytes at the end are a character that may become complete.
fn incomplete_length(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let Some(invalid) = last.map(|chunk| chunk.invalid()) else {
        return 0;
    };
    // The standard library tells by the missing length whether more bytes could help.
    match std::str::from_utf8(invalid) {
        Err(error) if error.error_len().is_none() => invalid.len(),
        Ok(_) | Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_make_the_same_text_as_the_whole(bytes: Vec<u8>, cuts in prop::collection::vec(0_usize..64, 0..8)) {
            let mut decoder = TextDecoder::default();
            let mut text = String::new();
            let mut rest = bytes.as_slice();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                text.push_str(&decoder.push(piece));
                rest = after;
            }
            text.push_str(&decoder.push(rest));
            text.push_str(&decoder.finish());
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn text_comes_through_in_any_pieces(text in "[aäπ🦀]{0,20}", size in 1_usize..5) {
            let mut decoder = TextDecoder::default();
            let mut decoded = String::new();
            for piece in text.as_bytes().chunks(size) {
                decoded.push_str(&decoder.push(piece));
            }
            prop_assert_eq!(decoder.finish(), "");
            prop_assert_eq!(decoded, text);
        }
    }

    #[test]
    fn half_a_character_waits() {
        let mut decoder = TextDecoder::default();
        assert_eq!(decoder.push(b"a\xf0\x9f"), "a");
        assert_eq!(decoder.push(b"\xa6\x80b"), "🦀b");
        assert_eq!(decoder.push(b"\xc3"), "");
        assert_eq!(decoder.finish(), "\u{fffd}");
    }
}
