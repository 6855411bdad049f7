//! Entity tags of what was read.

use crate::offset::{Offset, ReadFrom, StreamId};
use crate::state::Ending;

/// The tag of a page. It changes with the data and with the closing of the stream.
pub fn etag(stream: StreamId, from: ReadFrom, next: Offset, ending: Ending) -> String {
    let from = match from {
        ReadFrom::Start => "-1".to_owned(),
        ReadFrom::Now => "now".to_owned(),
        ReadFrom::At(offset) => offset.to_string(),
    };
    let suffix = match ending {
        Ending::Open => "",
        Ending::Closed => ":c",
    };
    format!("\"{stream}:{from}:{next}{suffix}\"")
}

/// Whether `If-None-Match` names the tag.
pub fn is_known(if_none_match: &str, etag: &str) -> bool {
    if_none_match
        .split(',')
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_change_with_data_and_closing() {
        let next = Offset::new(StreamId(7), 3);
        let open = etag(StreamId(7), ReadFrom::Start, next, Ending::Open);
        assert_eq!(open, "\"7:-1:0000000000000007_0000000000000003\"");
        assert_ne!(
            open,
            etag(StreamId(7), ReadFrom::Start, next, Ending::Closed)
        );
        assert_ne!(open, etag(StreamId(8), ReadFrom::Start, next, Ending::Open));
        assert!(is_known(&open, &open));
        assert!(is_known(&format!("\"x\", W/{open}"), &open));
        assert!(is_known("*", &open));
        assert!(!is_known("\"x\"", &open));
    }
}
