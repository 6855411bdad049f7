//! Streams of JSON values.
//!
//! A body that is an array brings its elements as messages of their own, one level deep. Each message keeps the exact bytes
//! that the client sent. A stored entry is the messages of one request with commas between, so that reading is joining.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the body is not valid JSON: {0}")]
pub struct JsonError(String);

/// The messages of a body, as slices of it: none for `[]`.
pub fn flatten(body: &Bytes) -> Result<Vec<Bytes>, JsonError> {
    let is_array = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let malformed = |error: serde_json::Error| JsonError(error.to_string());
    let values: Vec<&RawValue> = if is_array {
        serde_json::from_slice(body).map_err(malformed)?
    } else {
        vec![serde_json::from_slice(body).map_err(malformed)?]
    };
    Ok(values
        .into_iter()
        .map(|value| body.slice_ref(value.get().as_bytes()))
        .collect())
}

/// One entry from the messages of a request.
pub fn join<'a>(messages: impl ExactSizeIterator<Item = &'a Bytes>) -> Bytes {
    let mut messages = messages.peekable();
    let mut entry = BytesMut::new();
    // One message, the common case, is not copied.
    if messages.len() == 1 {
        return messages.next().cloned().unwrap_or_default();
    }
    while let Some(message) = messages.next() {
        entry.put_slice(message);
        if messages.peek().is_some() {
            entry.put_u8(b',');
        }
    }
    entry.freeze()
}

/// The messages of an entry.
pub fn split(entry: &Bytes) -> Result<Vec<Bytes>, JsonError> {
    flatten(&array(std::slice::from_ref(entry)))
}

/// What a reader gets: one array of all messages.
pub fn array(entries: &[Bytes]) -> Bytes {
    let size: usize = entries.iter().map(|entry| entry.len() + 1).sum();
    let mut body = BytesMut::with_capacity(size + 2);
    body.put_u8(b'[');
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.put_slice(entry);
    }
    body.put_u8(b']');
    body.freeze()
}

/// One message in each line. A line end in JSON can only be white space, so it becomes a space.
pub fn lines<'a>(entries: impl IntoIterator<Item = &'a Bytes>) -> Result<Bytes, JsonError> {
    let mut body = BytesMut::new();
    for entry in entries {
        for message in split(entry)? {
            body.extend(message.iter().map(|byte| match byte {
                b'\n' | b'\r' => b' ',
                other => *other,
            }));
            body.put_u8(b'\n');
        }
    }
    Ok(body.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(body: &str) -> Result<Vec<String>, JsonError> {
        let messages = flatten(&Bytes::copy_from_slice(body.as_bytes()))?;
        Ok(messages
            .iter()
            .map(|message| String::from_utf8_lossy(message).into_owned())
            .collect())
    }

    #[test]
    fn one_level_is_flattened_and_bytes_are_kept() {
        let table: [(&str, &[&str]); 9] = [
            ("{\"b\": 1,  \"a\":2}", &["{\"b\": 1,  \"a\":2}"]),
            (" [ {\"a\" : 1} ,2 ]\n", &["{\"a\" : 1}", "2"]),
            ("[[1,2],[3,4]]", &["[1,2]", "[3,4]"]),
            ("[[[1,2,3]]]", &["[[1,2,3]]"]),
            ("[]", &[]),
            ("null", &["null"]),
            ("1e400", &["1e400"]),
            (
                "123456789012345678901234567890",
                &["123456789012345678901234567890"],
            ),
            ("\"\\u0000\"", &["\"\\u0000\""]),
        ];
        for (body, messages) in table {
            assert_eq!(texts(body).unwrap(), messages, "{body}");
        }
    }

    #[test]
    fn what_is_no_json() {
        for wrong in [
            "",
            " ",
            "{",
            "[1,]",
            "[1",
            "{\"a\":1} {\"b\":2}",
            "nul",
            "\u{feff}1",
            "[1]x",
            "'a'",
            "\"\n\"",
        ] {
            assert!(texts(wrong).is_err(), "{wrong:?}");
        }
        assert!(flatten(&Bytes::from_static(b"\"\xff\"")).is_err());
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(texts(&deep).unwrap(), [deep[1..deep.len() - 1].to_owned()]);
    }

    #[test]
    fn lines_hold_one_message_each() {
        let entries = [
            Bytes::from_static(b"{\"a\":\n1},2"),
            Bytes::from_static(b"3"),
        ];
        assert_eq!(
            lines(&entries).unwrap(),
            Bytes::from_static(b"{\"a\": 1}\n2\n3\n")
        );
    }

    proptest! {
        #[test]
        fn joining_and_splitting_are_inverse(numbers in prop::collection::vec(any::<i64>(), 1..20)) {
            let messages: Vec<Bytes> = numbers.iter().map(|number| Bytes::from(number.to_string())).collect();
            let entry = join(messages.iter());
            prop_assert_eq!(split(&entry), Ok(messages));
            let all: Vec<i64> = serde_json::from_slice(&array(&[entry])).unwrap();
            prop_assert_eq!(all, numbers);
        }

        #[test]
        fn any_bytes_are_valid_or_refused(body in prop::collection::vec(any::<u8>(), 0..64)) {
            let body = Bytes::from(body);
            let expected = serde_json::from_slice::<&RawValue>(&body).is_ok();
            prop_assert_eq!(flatten(&body).is_ok(), expected);
        }
    }
}
