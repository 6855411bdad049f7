//! Session logs: whatever the bytes, reading them piece by piece and at once is the same, and what was written comes back.
#![no_main]

use holm_daytona_wire::log::{Demultiplexer, Multiplexer, Stream, split_all};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let at_once = split_all(data);
    let mut reader = Demultiplexer::default();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut take = |pieces: Vec<holm_daytona_wire::log::Piece>| {
        for piece in pieces {
            match piece.stream {
                Stream::Stdout => stdout.extend(piece.bytes),
                Stream::Stderr => stderr.extend(piece.bytes),
            }
        }
    };
    for chunk in data.chunks(3) {
        take(reader.push(chunk));
    }
    take(reader.finish());
    assert_eq!((stdout, stderr), at_once);

    let mut writer = Multiplexer::default();
    let written: Vec<u8> = data
        .chunks(5)
        .flat_map(|chunk| writer.append(Stream::Stdout, chunk))
        .collect();
    assert_eq!(split_all(&written).0, data);
});
