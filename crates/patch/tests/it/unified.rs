//! Diffs of `diff -u` and of git.

use super::{check, refused, unreadable};

const EDIT: &str = "\
--- a/x
+++ b/x
@@ -2,3 +2,3 @@ fn context()
 two
-three
+3
 four
";

#[test]
fn lines_are_changed_where_they_are() {
    check(
        EDIT,
        &[("x", "one\ntwo\nthree\nfour\n")],
        &["x: one\ntwo\n3\nfour\n"],
    );
}

#[test]
fn the_nearest_place_counts_when_lines_have_moved() {
    let body = "two\nthree\nfour\n";
    let far = format!("{body}{}{body}-\n{body}", "-\n".repeat(7));
    let expected = format!("x: {}{}{body}-\n{body}", "two\n3\nfour\n", "-\n".repeat(7));
    check(EDIT, &[("x", &far)], &[&expected]);
}

#[test]
fn git_creates_deletes_renames_copies_and_sets_modes() {
    let patch = "\
From 0123 Mon Sep 17 00:00:00 2001
Subject: [PATCH] all of it

 a file | 2 +-
---
diff --git a/new.sh b/new.sh
new file mode 100755
index 0000000..1111111
--- /dev/null
+++ b/new.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+-- x
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
diff --git a/gone b/gone
deleted file mode 100644
index 1111111..0000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-last
\\ No newline at end of file
diff --git a/a b/b
similarity index 100%
rename from a
rename to b
diff --git a/b b/a
similarity index 50%
rename from b
rename to a
--- a/b
+++ b/a
@@ -1 +1 @@
-B
+C
diff --git a/one b/two
similarity index 100%
copy from one
copy to two
diff --git \"a/\\303\\274\" \"b/\\303\\274\"
old mode 100644
new mode 100755
--\x20
2.43.0
";
    check(
        patch,
        &[
            ("gone", "last"),
            ("a", "A\n"),
            ("b", "B\n"),
            ("one", "1"),
            ("ü", "u"),
        ],
        &[
            "a like b: C\n",
            "b like a: A\n",
            "empty -x: ",
            "gone gone",
            "new.sh +x: #!/bin/sh\n-- x\n",
            "two like one: 1",
            "ü +x: u",
        ],
    );
}

#[test]
fn prefixes_are_prefixes_only_where_they_are() {
    let hunk = "@@ -0,0 +1 @@\n+1\n";
    for (head, name) in [
        (
            "diff --git b/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n",
            "b/x -x",
        ),
        (
            "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n",
            "x -x",
        ),
        ("diff --git a/x b/x\n--- /dev/null\n+++ b/y\n", "y"),
        ("--- /dev/null\n+++ b/x\n", "x"),
        ("--- /dev/null\n+++ c/x\n", "c/x"),
    ] {
        check(&format!("{head}{hunk}"), &[], &[&format!("{name}: 1\n")]);
    }
}

#[test]
fn the_end_of_the_last_line_is_part_of_it() {
    let patch = "--- x\n+++ x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n";
    check(patch, &[("x", "a")], &["x: a\n"]);
    let patch = "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file";
    check(patch, &[("x", "a\nb\n")], &["x: a\nc"]);
}

#[test]
fn a_file_with_other_line_ends_keeps_them() {
    check(
        EDIT,
        &[("x", "one\r\ntwo\r\nthree\r\nfour\r\n")],
        &["x: one\r\ntwo\r\n3\r\nfour\r\n"],
    );
}

#[test]
fn nothing_is_guessed() {
    refused(
        EDIT,
        &[("x", "one\ntwo \nthree\nfour\n")],
        "hunk 1 of 1 does not fit `x`: its 3 old lines, from `two` on, are not in the file",
    );
    refused(EDIT, &[], "`x` does not exist, and the patch changes it");
    let create = "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+1\n";
    refused(
        create,
        &[("x", "")],
        "`x` exists already, and the patch creates it",
    );
    let delete = "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n";
    refused(
        delete,
        &[("x", "1\n2\n")],
        "the patch deletes `x`, which holds other lines than the patch says",
    );
    refused(
        &format!("{EDIT}{EDIT}"),
        &[("x", "one\ntwo\nthree\nfour\n")],
        "the patch changes `x` twice; give the parts one after the other",
    );
    let rename = "diff --git a/x b/y\nrename from x\nrename to y\n";
    refused(
        rename,
        &[("x", ""), ("y", "")],
        "`y` exists already, and the patch creates it",
    );
    let insert = "--- x\n+++ x\n@@ -9,0 +10 @@\n+1\n";
    refused(
        insert,
        &[("x", "1\n")],
        "hunk 1 of 1 does not fit `x`: it adds lines after line 9, and the file has 1 lines",
    );
}

#[test]
fn a_search_that_would_take_hours_is_given_up() {
    let old = "a\n".repeat(50_000);
    let mut patch = "--- x\n+++ x\n@@ -1,20001 +1,20000 @@\n".to_owned();
    patch.push_str(&" a\n".repeat(20_000));
    patch.push_str("-b\n");
    refused(
        &patch,
        &[("x", &old)],
        "hunk 1 of 1 does not fit `x`: finding its lines takes too long: too many lines are alike",
    );
}

#[test]
fn what_is_no_diff_is_told_with_its_line() {
    for (patch, problem) in [
        (
            "hello\n",
            "the patch cannot be read: there is neither `*** Begin Patch` nor a pair of lines `--- a/FILE` and `+++ b/FILE`",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n",
            "the patch cannot be read, line 3: the hunk says that 1 more old and 1 more new lines come",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n+c\n",
            "the patch cannot be read, line 6: `+c` comes after the end of a hunk: the numbers after `@@` are too small, or `@@` is missing",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -one +1 @@\n",
            "the patch cannot be read, line 3: `@@ -one +1 @@` is not like `@@ -1,2 +1,3 @@`",
        ),
        (
            "--- a/x\n+++ b/x\n",
            "the patch cannot be read, line 2: no hunk (`@@ -1,2 +1,3 @@`) follows the names of the file",
        ),
        (
            "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
            "the patch cannot be read, line 2: binary changes cannot be applied; upload the file instead",
        ),
        (
            "diff --git a/x b/x\nnew file mode 120000\n",
            "the patch cannot be read, line 2: symbolic links cannot be patched",
        ),
        (
            "diff --git a/x b/y\nrename from x\n",
            "the patch cannot be read, line 2: of `from` and `to` one is missing",
        ),
        (
            "--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+x\n",
            "the patch cannot be read, line 4: both names of a file are `/dev/null`",
        ),
    ] {
        unreadable(patch, problem);
    }
}
