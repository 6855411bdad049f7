//! Bodies of JSON: what is taken apart and put together again means the same, as an array, as lines and as events.
#![no_main]

use bytes::Bytes;
use holm_thread_log::sse::{Encoding, write_data};
use holm_thread_log::{Offset, json};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    for encoding in [Encoding::Text, Encoding::Base64] {
        let mut event = Vec::new();
        write_data(&mut event, encoding, &body, Offset::START);
        let event = String::from_utf8(event).expect("events are text");
        // One event, whatever is in it: every line but the first two is data, and the only empty one is the last.
        let mut lines = event.split(['\r', '\n']);
        assert!(lines.next().is_some_and(|line| line.starts_with("id: ")));
        assert_eq!(lines.next(), Some("event: data"));
        let rest: Vec<&str> = lines.collect();
        let (data, end) = rest.split_at(rest.len() - 2);
        assert!(data.iter().all(|line| line.starts_with("data:")));
        assert_eq!(end, ["", ""]);
    }
    let Ok(messages) = json::flatten(&body) else {
        return;
    };
    if messages.is_empty() {
        return;
    }
    let entry = json::join(messages.iter());
    assert_eq!(json::split(&entry).as_deref(), Ok(messages.as_slice()));
    let lines = json::lines(std::slice::from_ref(&entry)).expect("what was taken is JSON");
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), messages.len());
    let array = json::array(&[entry]);
    let (Ok(all), Ok(first)) = (serde_json::from_slice::<Vec<Value>>(&array), serde_json::from_slice::<Value>(&body)) else {
        // Deeper than that parser goes.
        return;
    };
    match first {
        Value::Array(elements) => assert_eq!(all, elements),
        other => assert_eq!(all, [other]),
    }
});
