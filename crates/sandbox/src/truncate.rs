//! Cutting text to a number of bytes.
//!
//! **Invariants:** what is kept is a prefix of at most `bytes_max` bytes and never ends inside of a UTF-8 character;
//! whatever was cut ends with [`TRUNCATION_MARKER`], and whatever was not is returned untouched. Truncation is the last
//! step: text that may hold a secret goes through a [`Redactor`](crate::Redactor) first, or half a secret could be
//! left at the cut.

use std::borrow::Cow;

/// What stands where something was cut.
pub const TRUNCATION_MARKER: &str = "[truncated]";

/// `text`, or its first `bytes_max` bytes at most and the marker.
#[must_use]
pub fn truncate(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let kept = &text[..text.floor_char_boundary(bytes_max)];
    Cow::Owned([kept, TRUNCATION_MARKER].concat())
}

/// As [`truncate`], for output that need not be UTF-8 throughout.
///
/// Only a character that the cut itself would split is left out; stray bytes are kept as they are.
#[must_use]
pub fn truncate_bytes(bytes: &[u8], bytes_max: usize) -> Cow<'_, [u8]> {
    if bytes.len() <= bytes_max {
        return Cow::Borrowed(bytes);
    }
    let kept = whole_characters(&bytes[..bytes_max]);
    Cow::Owned([kept, TRUNCATION_MARKER.as_bytes()].concat())
}

/// `bytes` without a character that is only begun at its end.
pub(crate) fn whole_characters(bytes: &[u8]) -> &[u8] {
    // A character has at most four bytes, so one that is cut began among the last three.
    for back in 1..=bytes.len().min(3) {
        let start = bytes.len() - back;
        let length = match bytes[start] {
            0b1000_0000..=0b1011_1111 => continue,
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            _ => 1,
        };
        return if length > back {
            &bytes[..start]
        } else {
            bytes
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_text_is_not_touched() {
        assert!(matches!(truncate("héllo", 6), Cow::Borrowed("héllo")));
        assert!(matches!(truncate("", 0), Cow::Borrowed("")));
        assert!(matches!(
            truncate_bytes(b"\xff\xfe", 2),
            Cow::Borrowed(b"\xff\xfe")
        ));
    }

    #[test]
    fn ac_17_long_text_is_cut_and_marked() {
        assert_eq!(truncate("hello world", 5), "hello[truncated]");
        assert_eq!(truncate("hello", 0), "[truncated]");
        assert_eq!(*truncate_bytes(b"hello world", 5), *b"hello[truncated]");
    }

    #[test]
    fn a_character_is_never_split() {
        assert_eq!(truncate("aé", 2), "a[truncated]");
        assert_eq!(truncate("a🦀b", 4), "a[truncated]");
        assert_eq!(truncate("a🦀b", 5), "a🦀[truncated]");
        assert_eq!(*truncate_bytes("a🦀b".as_bytes(), 4), *b"a[truncated]");
        assert_eq!(
            *truncate_bytes("a🦀b".as_bytes(), 5),
            *"a🦀[truncated]".as_bytes()
        );
    }

    #[test]
    fn stray_bytes_are_kept() {
        assert_eq!(
            *truncate_bytes(b"\x80\x80\x80\x80\x80", 4),
            *b"\x80\x80\x80\x80[truncated]"
        );
        assert_eq!(*truncate_bytes(b"\xff\xff\xff", 2), *b"\xff\xff[truncated]");
    }

    proptest! {
        #[test]
        fn the_kept_part_is_a_bounded_prefix(text in ".{0,60}", bytes_max in 0_usize..80) {
            let cut = truncate(&text, bytes_max);
            if text.len() <= bytes_max {
                prop_assert_eq!(&*cut, &*text);
            } else {
                let kept = cut.strip_suffix(TRUNCATION_MARKER).unwrap();
                prop_assert!(kept.len() <= bytes_max);
                prop_assert!(bytes_max - kept.len() < 4);
                prop_assert!(text.starts_with(kept));
            }
        }

        #[test]
        fn text_and_bytes_are_cut_alike(text in ".{0,60}", bytes_max in 0_usize..80) {
            let bytes = truncate_bytes(text.as_bytes(), bytes_max);
            let cut = truncate(&text, bytes_max);
            prop_assert_eq!(&*bytes, cut.as_bytes());
        }

        #[test]
        fn any_bytes_are_cut_to_a_bounded_prefix(bytes: Vec<u8>, bytes_max in 0_usize..120) {
            let cut = truncate_bytes(&bytes, bytes_max);
            if bytes.len() > bytes_max {
                let kept = cut.strip_suffix(TRUNCATION_MARKER.as_bytes()).unwrap();
                prop_assert!(kept.len() <= bytes_max && bytes.starts_with(kept));
            } else {
                prop_assert_eq!(&*cut, &*bytes);
            }
        }
    }
}
