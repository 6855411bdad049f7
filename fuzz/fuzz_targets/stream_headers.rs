//! Values of headers and queries about streams: what is taken is written back the same, and nothing panics.
#![no_main]

use holm_thread_log::producer::parse_producer_number;
use holm_thread_log::{ContentType, EntryKey, Lifetime, Offset, ProducerId, ReadFrom, Timestamp, cursor, etag};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(offset) = text.parse::<Offset>() {
        assert_eq!(offset.to_string(), text);
    }
    if let Ok(ReadFrom::At(offset)) = text.parse::<ReadFrom>() {
        assert_eq!(offset.to_string(), text);
    }
    if let Ok(number) = parse_producer_number(text) {
        assert_eq!(number.to_string(), text.trim_start_matches('0').to_owned() + if number == 0 { "0" } else { "" });
    }
    if let Ok(id) = text.parse::<ProducerId>() {
        assert_eq!(id.as_str(), text);
    }
    if let Ok(key) = text.parse::<EntryKey>() {
        assert_eq!(key.as_str(), text);
    }
    if let Ok(kind) = text.parse::<ContentType>() {
        // It goes out as a header again.
        assert!(kind.as_str().bytes().all(|byte| (b' '..0x7f).contains(&byte)));
        assert_eq!(kind.as_str().parse::<ContentType>().as_ref(), Ok(&kind));
    }
    if let Ok(Lifetime::Sliding { seconds }) = Lifetime::parse_ttl(text) {
        assert_eq!(seconds.to_string(), text);
        Lifetime::Sliding { seconds }.deadline(Timestamp(i64::MAX));
    }
    if let Ok(time) = Timestamp::parse_rfc3339(text) {
        assert_eq!(Timestamp::parse_rfc3339(&time.to_string()), Ok(time));
    }
    let next = cursor(Timestamp(1_794_830_400_000), Some(text), 7);
    if let Ok(client) = text.parse::<u64>() {
        assert!(next > client || client == u64::MAX);
    }
    etag::is_known(text, "\"x\"");
});
