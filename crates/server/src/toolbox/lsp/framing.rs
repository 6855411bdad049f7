//! Messages on a stream: `Content-Length: N`, a blank line, and N bytes of JSON.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

const HEADER_BYTES_MAX: u64 = 8 * 1024;
/// One message.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

pub(super) fn frame(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The next message; nothing at the end of the stream.
pub(super) async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Value>> {
    let malformed = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut length = None;
    let mut left = HEADER_BYTES_MAX;
    loop {
        let mut line = Vec::new();
        let count = (&mut *stream)
            .take(left)
            .read_until(b'\n', &mut line)
            .await?;
        left -= u64::try_from(count).unwrap_or(left).min(left);
        if count == 0 && left > 0 && length.is_none() {
            return Ok(None);
        }
        if !line.ends_with(b"\n") {
            return Err(malformed("a header does not end"));
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            match length {
                Some(_) => break,
                // Some servers print empty lines before they speak.
                None => continue,
            }
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let length = length.filter(|length| *length <= BODY_BYTES_MAX);
    let mut body = vec![0; length.ok_or_else(|| malformed("a message is too long"))?];
    stream.read_exact(&mut body).await?;
    let message = serde_json::from_slice(&body).map_err(|_| malformed("a message is no JSON"))?;
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use serde_json::json;

    use super::*;

    fn read_all(mut bytes: &[u8]) -> Vec<Result<Value, io::ErrorKind>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut messages = Vec::new();
        while let Some(message) = runtime.block_on(read(&mut bytes)).transpose() {
            let is_error = message.is_err();
            messages.push(message.map_err(|error| error.kind()));
            if is_error {
                break;
            }
        }
        messages
    }

    #[test]
    fn messages_are_read_as_they_are_framed() {
        let (one, two) = (json!({ "a": "ü" }), json!([1]));
        let bytes = [
            frame(&one),
            b"\r\nContent-Type: x\r\n".to_vec(),
            frame(&two),
        ]
        .concat();
        assert_eq!(read_all(&bytes), [Ok(one), Ok(two)]);
        assert_eq!(read_all(b""), []);
    }

    #[test]
    fn what_is_no_message_ends_the_talk() {
        let invalid = Err(io::ErrorKind::InvalidData);
        assert_eq!(
            read_all(b"Content-Length: 99999999999\r\n\r\n"),
            from_ref(&invalid)
        );
        assert_eq!(
            read_all(b"Content-Length: -1\r\n\r\n{}"),
            from_ref(&invalid)
        );
        assert_eq!(
            read_all(b"Content-Length: 3\r\n\r\n{{{"),
            from_ref(&invalid)
        );
        assert_eq!(read_all(&vec![b'x'; 100_000]), from_ref(&invalid));
        assert_eq!(read_all(&b"\n".repeat(100_000)), [invalid]);
        let short = read_all(b"Content-Length: 9\r\n\r\n{}");
        assert_eq!(short, [Err(io::ErrorKind::UnexpectedEof)]);
    }
}
