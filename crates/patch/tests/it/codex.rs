//! `*** Begin Patch`.

use super::{check, refused, unreadable};

#[test]
fn files_are_created_changed_moved_and_deleted() {
    let patch = "\
*** Begin Patch
*** Add File: docs/new.md
+# Title
+
+text
*** Update File: src/a.py
@@ def f():
-    return 1
+    return 2
*** Update File: old.txt
*** Move to: sub/new.txt
@@
 keep
-drop
*** Delete File: gone.txt
*** End Patch
";
    check(
        patch,
        &[
            (
                "src/a.py",
                "def g():\n    return 1\n\ndef f():\n    return 1\n",
            ),
            ("old.txt", "keep\ndrop\n"),
            ("gone.txt", "x"),
        ],
        &[
            "docs/new.md: # Title\n\ntext\n",
            "gone.txt gone",
            "old.txt gone",
            "src/a.py: def g():\n    return 1\n\ndef f():\n    return 2\n",
            "sub/new.txt like old.txt: keep\n",
        ],
    );
}

#[test]
fn what_models_add_is_understood() {
    // A here-document, no `@@` before the first hunk, an empty line for an empty line, numbers after `@@`.
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a\n one\n\n-two\n+2\n@@ -9,1 +9,1 @@\n-three\n+3\n\n*** End Patch\nEOF\n";
    check(
        patch,
        &[("a", "one\n\ntwo\nthree\n")],
        &["a: one\n\n2\n3\n"],
    );
}

#[test]
fn lines_are_found_although_they_are_only_nearly_right_and_stay_as_they_are() {
    let patch =
        "*** Begin Patch\n*** Update File: a\n@@\n say \"hi\" - now\n-  x\n+y\n*** End Patch";
    check(
        patch,
        &[("a", "  say “hi” – now   \r\nx\r\nz\r\n")],
        &["a:   say “hi” – now   \r\ny\r\nz\r\n"],
    );
}

#[test]
fn anchors_narrow_the_search_one_after_the_other() {
    let patch =
        "*** Begin Patch\n*** Update File: a\n@@ class B\n@@ def f\n-1\n+2\n*** End Patch\n";
    check(
        patch,
        &[("a", "class A\ndef f\n1\nclass B\ndef e\n1\ndef f\n1\n")],
        &["a: class A\ndef f\n1\nclass B\ndef e\n1\ndef f\n2\n"],
    );
    refused(
        patch,
        &[("a", "class B\n")],
        "hunk 1 of 1 does not fit `a`: there is no line `def f` after line 1",
    );
}

#[test]
fn lines_without_old_ones_go_after_their_anchor_or_to_the_end() {
    let patch = |header: &str| {
        format!("*** Begin Patch\n*** Update File: a\n{header}\n+new\n\n*** End Patch\n")
    };
    let files = [("a", "one\n\ntwo")];
    check(&patch("@@ one"), &files, &["a: one\nnew\n\ntwo\n"]);
    check(&patch("@@"), &files, &["a: one\n\ntwo\nnew\n"]);
}

#[test]
fn the_end_of_a_file_is_the_end_of_the_file() {
    let patch = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End of File\n*** End Patch\n";
    check(patch, &[("a", "x\nx\n")], &["a: x\ny\n"]);
    refused(
        patch,
        &[("a", "x\nz\n")],
        "hunk 1 of 1 does not fit `a`: its 1 old lines, from `x` on, are not in the file",
    );
}

#[test]
fn sections_are_carried_out_one_after_the_other() {
    let patch = "*** Begin Patch\n*** Add File: a\n+1\n*** Update File: a\n@@\n-1\n+2\n*** Delete File: b\n*** Add File: b\n+new\n*** End Patch\n";
    check(patch, &[("b", "old")], &["a: 2\n", "b: new\n"]);
    let twice =
        "*** Begin Patch\n*** Delete File: a\n*** Update File: a\n@@\n-1\n+2\n*** End Patch\n";
    refused(
        twice,
        &[("a", "1\n")],
        "`a` does not exist, and the patch changes it",
    );
}

#[test]
fn an_error_names_the_hunk_and_the_file() {
    let patch = "*** Begin Patch\n*** Add File: new\n+x\n*** Update File: a\n@@\n-1\n+one\n@@\n-3\n+three\n*** End Patch\n";
    refused(
        patch,
        &[("a", "1\n2\n")],
        "hunk 2 of 2 does not fit `a`: its 1 old lines, from `3` on, are not in the file after line 1",
    );
    refused(
        "*** Begin Patch\n*** Delete File: a\n*** End Patch",
        &[],
        "`a` does not exist, and the patch changes it",
    );
}

#[test]
fn what_is_no_patch_is_told_with_its_line() {
    for (patch, problem) in [
        (
            "*** Begin Patch\n*** Add File: a\n+x\n",
            "the patch cannot be read, line 3: `*** End Patch` is missing: the patch is cut off",
        ),
        (
            "*** Begin Patch\n*** End Patch\n",
            "the patch cannot be read: it changes no file",
        ),
        (
            "*** Begin Patch\n*** Add File:\n*** End Patch\n",
            "the patch cannot be read, line 2: a path is missing",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n*** End Patch\n",
            "the patch cannot be read, line 2: the update of `a` changes nothing",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n*** End Patch\n",
            "the patch cannot be read, line 3: there are no lines after `@@`",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n-x\nbad\x1b[2J\n*** End Patch\n",
            "the patch cannot be read, line 5: `bad\\u{1b}[2J` begins with none of ` `, `-`, `+` and `@@`",
        ),
        (
            "*** Begin Patch\n*** Rename File: a\n*** End Patch\n",
            "the patch cannot be read, line 2: `*** Rename File: a` is not `*** Add File:`, `*** Delete File:`, `*** Update File:` or `*** End Patch`",
        ),
    ] {
        unreadable(patch, problem);
    }
}
