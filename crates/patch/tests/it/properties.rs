//! What holds for all patches.

use holm_patch::{Contents, FileState, apply, parse};
use proptest::prelude::*;

use super::diff;

/// Few different lines, so that many are alike; with all kinds of ends.
fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[ab]{0,2}",
        Just("-- a".to_owned()),
        Just("+++ b".to_owned())
    ];
    let end = prop_oneof![8 => Just("\n"), 1 => Just("\r\n")];
    let lines = prop::collection::vec((line, end), 0..30);
    (lines, any::<bool>()).prop_map(|(lines, is_ended)| {
        let mut text: String = lines
            .into_iter()
            .flat_map(|(line, end)| [line, end.to_owned()])
            .collect();
        if !is_ended {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        text
    })
}

fn applied(patch: &[u8], before: &str) -> Vec<u8> {
    let patch = parse(patch).unwrap();
    let contents = Contents::from([("x".to_owned(), Some(before.as_bytes().to_vec()))]);
    let outcome = apply(&patch, &contents).unwrap();
    match outcome.files.get("x").unwrap() {
        FileState::Present { content, .. } => content.clone(),
        FileState::Gone => panic!("the file is gone"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_diff_turns_the_old_file_into_the_new_one(old in text(), new in text(), context in 0_usize..4) {
        prop_assume!(old != new);
        let patch = diff::unified(&old, &new, context);
        prop_assert_eq!(applied(patch.as_bytes(), &old), new.into_bytes(), "{}", patch);
    }

    #[test]
    fn a_diff_fits_below_lines_that_were_added_since(old in text(), new in text(), added in 0_usize..5) {
        prop_assume!(old != new && old.lines().count() > 3);
        let patch = diff::unified(&old, &new, 100);
        let above = "unlike\n".repeat(added);
        let moved = format!("{above}{old}");
        prop_assert_eq!(applied(patch.as_bytes(), &moved), format!("{above}{new}").into_bytes());
    }

    #[test]
    fn a_codex_patch_of_the_whole_file_writes_the_new_one(old in "([ab]{1,2}\n){1,20}", new in "([ab]{1,2}\n){1,20}") {
        let mut patch = "*** Begin Patch\n*** Update File: x\n@@\n".to_owned();
        for (sign, line) in diff::script(&old, &new) {
            patch.push(sign);
            patch.push_str(line);
        }
        patch.push_str("*** End Patch\n");
        prop_assert_eq!(applied(patch.as_bytes(), &old), new.into_bytes(), "{}", patch);
    }

    #[test]
    fn input_never_panics(
        lines in prop::collection::vec(prop_oneof![
            Just("*** Begin Patch"), Just("*** End Patch"), Just("*** Add File: x"), Just("*** Update File: x"),
            Just("*** Delete File: x"), Just("*** Move to: y"), Just("*** End of File"), Just("@@"), Just("@@ a"),
            Just("@@ -1,2 +1,2 @@"), Just("@@ -0,0 +1 @@"), Just("@@ -18446744073709551615,1 +1 @@"),
            Just("--- a/x"), Just("+++ b/x"), Just("--- /dev/null"), Just("+++ /dev/null"), Just("diff --git a/x b/x"),
            Just("rename from x"), Just("rename to y"), Just("copy from x"), Just("copy to y"), Just("new mode 100755"),
            Just("\\ No newline"), Just(" a"), Just("-a"), Just("+b"), Just(""), Just("\"a/\\3"),
        ], 0..24),
        old in text(),
    ) {
        let Ok(patch) = parse(lines.join("\n").as_bytes()) else { return Ok(()) };
        let mut contents: Contents = patch.paths_to_read().into_iter().map(|path| (path.to_owned(), None)).collect();
        contents.insert("x".to_owned(), Some(old.into_bytes()));
        drop(apply(&patch, &contents));
    }

    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(parse(&bytes));
        drop(parse(&[b"*** Begin Patch\n".as_slice(), &bytes].concat()));
    }
}
