//! Every byte comes back on its stream, however the log is cut.

use proptest::prelude::*;

use super::*;

fn write(chunks: &[(Stream, Vec<u8>)]) -> Vec<u8> {
    let mut multiplexer = Multiplexer::default();
    chunks
        .iter()
        .flat_map(|(stream, output)| multiplexer.append(*stream, output))
        .collect()
}

fn of(chunks: &[(Stream, Vec<u8>)], wanted: Stream) -> Vec<u8> {
    chunks
        .iter()
        .filter(|(stream, _)| *stream == wanted)
        .flat_map(|(_, output)| output.clone())
        .collect()
}

#[test]
fn a_log_looks_as_the_sdks_saw_it() {
    let log = write(&[
        (Stream::Stdout, b"o1\n".to_vec()),
        (Stream::Stderr, b"e1\n".to_vec()),
    ]);
    assert_eq!(log, b"\x01\x01\x01o1\n\x02\x02\x02e1\n");
    assert_eq!(split_all(&log), (b"o1\n".to_vec(), b"e1\n".to_vec()));
    assert_eq!(strip_markers(&log), b"o1\ne1\n");
}

#[test]
fn no_output_is_no_chunk() {
    assert_eq!(Multiplexer::default().append(Stream::Stdout, b""), b"");
    assert_eq!(split_all(b""), (Vec::new(), Vec::new()));
}

#[test]
fn bytes_before_the_first_marker_are_dropped() {
    assert_eq!(split_all(b"lost\x01\x01\x01kept").0, b"kept");
    assert_eq!(strip_markers(b"lost"), b"");
}

#[test]
fn the_beginning_of_a_marker_is_held_back_and_given_at_the_end() {
    let mut demultiplexer = Demultiplexer::default();
    let stdout = |bytes: &[u8]| {
        vec![Piece {
            stream: Stream::Stdout,
            bytes: bytes.to_vec(),
        }]
    };
    assert_eq!(demultiplexer.push(b"\x01\x01\x01a\x02\x02"), stdout(b"a"));
    assert_eq!(demultiplexer.clone().finish(), stdout(b"\x02\x02"));
    assert_eq!(demultiplexer.push(b"\x02e").len(), 1);
}

#[test]
fn output_that_looks_like_markers_stays_output() {
    let chunks = [
        (Stream::Stdout, vec![1; 10]),
        (Stream::Stderr, vec![2, 2, 2, 1, 1, 1, 1]),
        (Stream::Stdout, vec![2; 7]),
        (Stream::Stderr, vec![2]),
        (Stream::Stderr, vec![2, 2]),
    ];
    let log = write(&chunks);
    let (stdout, stderr) = split_all(&log);
    assert_eq!(stdout, of(&chunks, Stream::Stdout));
    assert_eq!(stderr, of(&chunks, Stream::Stderr));
}

/// Mostly bytes that markers are made of: the hard case is the likely one.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 1..=2_u8, 1 => any::<u8>()]
}

fn chunks() -> impl Strategy<Value = Vec<(Stream, Vec<u8>)>> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    prop::collection::vec((stream, prop::collection::vec(byte(), 0..12)), 0..12)
}

proptest! {
    #[test]
    fn every_byte_comes_back_under_any_cut(
        chunks in chunks(),
        cuts in prop::collection::vec(1..9_usize, 1..40),
    ) {
        let log = write(&chunks);
        let mut demultiplexer = Demultiplexer::default();
        let mut pieces = Vec::new();
        let mut rest = log.as_slice();
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            pieces.extend(demultiplexer.push(now));
            rest = later;
        }
        pieces.extend(demultiplexer.finish());
        for wanted in [Stream::Stdout, Stream::Stderr] {
            let got: Vec<u8> = pieces
                .iter()
                .filter(|piece| piece.stream == wanted)
                .flat_map(|piece| piece.bytes.clone())
                .collect();
            prop_assert_eq!(got, of(&chunks, wanted));
        }
        let in_order: Vec<u8> = chunks.iter().flat_map(|(_, output)| output.clone()).collect();
        prop_assert_eq!(strip_markers(&log), in_order);
    }

    #[test]
    fn any_bytes_are_read_the_same_under_any_cut(
        log in prop::collection::vec(byte(), 0..60),
        at in 0..60_usize,
    ) {
        let (before, after) = log.split_at(at.min(log.len()));
        let mut demultiplexer = Demultiplexer::default();
        let mut pieces = demultiplexer.push(before);
        pieces.extend(demultiplexer.push(after));
        pieces.extend(demultiplexer.finish());
        let joined: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.bytes).collect();
        prop_assert_eq!(joined, strip_markers(&log));
    }
}
