//! Names of streams and patterns for them: a name means one thing everywhere, and no pattern takes long.
#![no_main]

use holm_thread_log::StreamName;
use holm_thread_log::subscription::{Acknowledge, Define, Pattern};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (first, second) = text.split_once('\n').unwrap_or((text, text));
    let name = first.parse::<StreamName>();
    if let Ok(name) = &name {
        assert_eq!(name.as_str(), first);
        assert!(!first.contains(['%', '\\', '\0', '?', '#']));
        assert!(first.split('/').all(|part| !matches!(part, "" | "." | "..")));
        // Below an organisation it cannot reach out of it.
        let stored: StreamName = format!("org/{first}").parse().unwrap_or_else(|_| name.clone());
        assert!(stored == *name || stored.as_str().starts_with("org/"));
    }
    if let (Ok(name), Ok(pattern)) = (&name, second.parse::<Pattern>()) {
        if pattern.matches(name) {
            assert!(name.as_str().starts_with(pattern.literal_prefix().trim_end_matches('/')));
        }
        assert!("**".parse::<Pattern>().is_ok_and(|all| all.matches(name)));
    }
    drop(Define::parse(text.as_bytes()));
    drop(Define::parse_streams(text.as_bytes()));
    drop(Acknowledge::parse(text.as_bytes()));
});
