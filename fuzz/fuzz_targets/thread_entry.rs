//! Entries of threads: whatever the bytes, they are an entry or refused, and any row that takes entries in can be stored and read.
#![no_main]

use bytes::Bytes;
use holm_thread_log::threads::{Admitted, Row, ThreadEntry, admit};
use holm_thread_log::{Message, Payload};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(Payload::Messages(messages)) = Payload::json(&Bytes::copy_from_slice(data)) else {
        return;
    };
    let parsed: Vec<_> = messages
        .iter()
        .map(|message| ThreadEntry::parse(&message.data))
        .collect();
    let mut row = Row::empty();
    for entry in parsed.iter().flatten() {
        row.apply(entry);
    }
    let stored = row.to_content("o").unwrap();
    assert_eq!(Row::from_content(&stored).unwrap(), row);
    // What is let in is exactly what could be read, each with its key.
    if let Ok(Admitted::Entries(admitted)) = admit(messages) {
        assert!(parsed.iter().all(Result::is_ok));
        let has_key = |message: &Message| message.key.is_some();
        assert!(admitted.iter().all(has_key));
    }
});
