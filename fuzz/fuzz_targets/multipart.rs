//! Forms: whatever the bytes and however they are cut, reading them ends, and both ways of cutting give the same.
#![no_main]

use bytes::Bytes;
use holm_daytona_wire::multipart::{Event, Lengths, Multipart};
use libfuzzer_sys::fuzz_target;

/// What was read: names and contents, and whether it was a whole form.
fn read(body: &[u8], chunk: usize, lengths: Lengths) -> (Vec<(String, Vec<u8>)>, bool) {
    let mut form = Multipart::new("xyz", lengths);
    let mut chunks = body.chunks(chunk);
    let mut parts: Vec<(String, Vec<u8>)> = Vec::new();
    loop {
        match form.next_event() {
            Ok(Event::Part(headers)) => parts.push((headers.name, Vec::new())),
            Ok(Event::Data(bytes)) => parts.last_mut().expect("data has a part").1.extend(bytes),
            Ok(Event::PartEnd) => {}
            Ok(Event::End) => return (parts, true),
            Ok(Event::Starved) => match chunks.next() {
                Some(bytes) => form.feed(Bytes::copy_from_slice(bytes)),
                None => form.end(),
            },
            Err(_) => return (parts, false),
        }
    }
}

fuzz_target!(|body: &[u8]| {
    for lengths in [Lengths::Ignored, Lengths::Trusted] {
        let whole = read(body, body.len().max(1), lengths);
        let pieces = read(body, 7, lengths);
        assert_eq!(whole.1, pieces.1);
        if whole.1 {
            assert_eq!(whole.0, pieces.0);
        }
    }
});
