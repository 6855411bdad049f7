//! Forms as clients write them, and as nobody should.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Event, HEADER_BYTES_MAX, Lengths, Multipart, MultipartError, boundary};

/// A part that was read to its end.
type Part = (String, Vec<u8>);

/// Reads a body that comes in chunks of these lengths, over and over.
fn read(body: &[u8], chunks: &[usize]) -> Result<Vec<Part>, MultipartError> {
    read_with(Lengths::Ignored, body, chunks)
}

fn read_with(lengths: Lengths, body: &[u8], chunks: &[usize]) -> Result<Vec<Part>, MultipartError> {
    let mut multipart = Multipart::new("xyz", lengths);
    let mut left = body;
    let mut chunks = chunks.iter().cycle();
    let mut parts = Vec::new();
    loop {
        match multipart.next_event()? {
            Event::Part(headers) => parts.push((headers.name, Vec::new())),
            Event::Data(bytes) => parts.last_mut().unwrap().1.extend_from_slice(&bytes),
            Event::PartEnd => {}
            Event::End => return Ok(parts),
            Event::Starved if left.is_empty() => multipart.end(),
            Event::Starved => {
                let length = chunks
                    .next()
                    .map_or(1, |length| (*length).clamp(1, left.len()));
                let (chunk, rest) = left.split_at(length);
                multipart.feed(Bytes::copy_from_slice(chunk));
                left = rest;
            }
        }
    }
}

fn part(name: &str, content: &str) -> Part {
    (name.to_owned(), content.as_bytes().to_vec())
}

#[test]
fn forms_are_read_whatever_the_chunks() {
    let body = b"preamble\r\n--xyz\r\nContent-Disposition: form-data; name=\"files[0].path\"\r\n\r\n/a\r\n\
        --xyz  \r\nContent-Type: text/plain\r\ncontent-disposition: form-data; filename=\"a;b=\\\"c\"; name=files[0].file\r\n\r\n\
        one\r\n--xy\r\n--xy\r\ntwo\r\n--xyz\r\nContent-Disposition: form-data; name=empty\r\n\r\n\r\n--xyz--\r\nepilogue --xyz";
    let wanted = [
        part("files[0].path", "/a"),
        part("files[0].file", "one\r\n--xy\r\n--xy\r\ntwo"),
        part("empty", ""),
    ];
    for length in [1, 2, 3, 5, 7, 20, 1000] {
        assert_eq!(read(body, &[length]).unwrap(), wanted, "{length}");
    }
    assert_eq!(read(b"--xyz--", &[1000]).unwrap(), []);
}

#[test]
fn what_is_no_form_is_refused() {
    let headers = "--xyz\r\nContent-Disposition: form-data; name=a\r\n\r\n";
    let giant = format!("--xyz\r\nX: {}\r\n\r\n", "x".repeat(HEADER_BYTES_MAX));
    for (body, error) in [
        ("", MultipartError::Truncated),
        ("no boundary at all", MultipartError::Truncated),
        ("--xyz", MultipartError::Truncated),
        (
            "--xyz\r\n\r\ndata\r\n--xyz--",
            MultipartError::MalformedHeaders,
        ),
        (
            "--xyz\r\nA: b\r\n\r\n\r\n--xyz--",
            MultipartError::MalformedHeaders,
        ),
        (
            "--xyz\r\nContent-Disposition: form-data; name=\"a\r\n\r\n\r\n--xyz--",
            MultipartError::MalformedHeaders,
        ),
        ("--xyzzy\r\n", MultipartError::MalformedBoundary),
        (&giant, MultipartError::HeadersTooLong),
        (headers, MultipartError::Truncated),
        (
            &format!("{headers}data\r\n--xyz"),
            MultipartError::Truncated,
        ),
        (&format!("{headers}data\r\n--xy"), MultipartError::Truncated),
    ] {
        for length in [1, 4, 100_000] {
            assert_eq!(read(body.as_bytes(), &[length]), Err(error), "{body:.80}");
        }
    }
    let not_text = b"--xyz\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\n\r\n--xyz--";
    assert_eq!(read(not_text, &[9]), Err(MultipartError::MalformedHeaders));
}

#[test]
fn the_boundary_stands_in_the_content_type() {
    for (kind, wanted) in [
        ("multipart/form-data; boundary=abc", Some("abc")),
        (
            "Multipart/Form-Data; charset=utf-8; Boundary=\"a b\"",
            Some("a b"),
        ),
        ("multipart/form-data", None),
        ("multipart/form-data; boundary=", None),
        ("multipart/form-data; boundary=\"abc", None),
        ("multipart/mixed; boundary=abc", None),
        ("text/plain; boundary=abc", None),
    ] {
        assert_eq!(boundary(kind).as_deref(), wanted, "{kind}");
    }
    let long = format!("multipart/form-data; boundary={}", "x".repeat(201));
    assert_eq!(boundary(&long), None);
}

#[test]
fn a_part_says_what_its_file_is_called_and_how_long_it_is() {
    for (headers, name, length) in [
        ("; filename=\"a b\"", Some("a b"), None),
        (
            "; filename=a; filename*=utf-8''%C3%BC%2Fb",
            Some("ü/b"),
            None,
        ),
        ("; filename=a; filename*=UTF-8'en'b", Some("b"), None),
        ("; filename=a; filename*=latin-1''%FC", Some("a"), None),
        ("; filename=a; filename*=utf-8''%F", Some("a"), None),
        ("; filename=a; filename*=utf-8''%ü1", Some("a"), None),
        ("; filename=a; filename*=utf-8''%FF", Some("a"), None),
        ("\r\nContent-Length: 12", None, Some(12)),
        ("\r\nContent-Length: -1", None, None),
    ] {
        let body = format!("--xyz\r\nContent-Disposition: form-data; name=f{headers}\r\n\r\n");
        let mut multipart = Multipart::new("xyz", Lengths::Ignored);
        multipart.feed(Bytes::from(body));
        let Event::Part(part) = multipart.next_event().unwrap() else {
            panic!("{headers}");
        };
        assert_eq!(part.file_name.as_deref(), name, "{headers}");
        assert_eq!(part.content_length, length, "{headers}");
    }
}

/// A form with one part that says how long it is.
fn with_length(length: u64, content: &str) -> Vec<u8> {
    format!("--xyz\r\nContent-Disposition: form-data; name=a\r\nContent-Length: {length}\r\n\r\n{content}\r\n--xyz--\r\n")
        .into_bytes()
}

#[test]
fn a_length_that_is_trusted_decides_where_a_part_ends() {
    let content = "one\r\n--xyz\r\ntwo";
    let body = with_length(15, content);
    for length in [1, 2, 3, 5, 7, 20, 1000] {
        let read = read_with(Lengths::Trusted, &body, &[length]);
        assert_eq!(read.unwrap(), [part("a", content)], "{length}");
    }
    let empty = read_with(Lengths::Trusted, &with_length(0, ""), &[1]);
    assert_eq!(empty.unwrap(), [part("a", "")]);
}

#[test]
fn a_length_that_is_not_true_is_found_out() {
    for (length, error) in [
        (0, MultipartError::WrongLength),
        (2, MultipartError::WrongLength),
        (4, MultipartError::WrongLength),
        (16, MultipartError::Truncated),
        (u64::MAX, MultipartError::Truncated),
    ] {
        for chunk in [1, 3, 1000] {
            let read = read_with(Lengths::Trusted, &with_length(length, "one"), &[chunk]);
            assert_eq!(read, Err(error), "{length} {chunk}");
        }
        let ignored = read(&with_length(length, "one"), &[1000]);
        assert_eq!(ignored.unwrap(), [part("a", "one")]);
    }
}

/// Bytes in which pieces of forms are likely.
fn nearly_a_form() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\r\n--xyz".to_vec()),
        Just(b"--xyz--".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r\n\r\n".to_vec()),
        Just(b"Content-Disposition: form-data; name=\"files[0].path\"".to_vec()),
        Just(b"; filename=\"".to_vec()),
        (0_u8..40).prop_map(|length| format!("\r\nContent-Length: {length}").into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bytes_and_no_chunks_confuse_it(
        body in nearly_a_form(),
        first in proptest::collection::vec(1_usize..40, 1..6),
        second in proptest::collection::vec(1_usize..40, 1..6),
    ) {
        // Where it is cut does not change what it says.
        for lengths in [Lengths::Ignored, Lengths::Trusted] {
            prop_assert_eq!(read_with(lengths, &body, &first), read_with(lengths, &body, &second));
        }
    }

    #[test]
    fn contents_come_out_as_they_went_in(
        contents in proptest::collection::vec(proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'-'), any::<u8>()], 0..200), 0..5),
        chunks in proptest::collection::vec(1_usize..50, 1..6),
    ) {
        let mut body = Vec::new();
        for content in &contents {
            prop_assume!(!content.windows(7).any(|window| window == b"\r\n--xyz"));
            body.extend_from_slice(b"--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n");
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--xyz--\r\n");
        let read: Vec<_> = read(&body, &chunks).unwrap().into_iter().map(|(_, content)| content).collect();
        prop_assert_eq!(read, contents);
    }
}
