//! Patches in the sandbox: all of it, or nothing.

use super::{file, read, sh, told, with_provider};

#[test]
fn seed_002_apply_patch_creates_updates_renames_and_deletes() {
    with_provider(async |provider| {
        let files = [
            file("src/a.py", "def f():\n    return 1\n"),
            file("old.sh", "#!/bin/sh\necho old\n"),
            file("gone", "x"),
        ];
        provider.upload(&files).await.unwrap();
        assert!(sh(provider, "chmod 751 old.sh").await.success());
        let patch = "*** Begin Patch\n*** Add File: /src/app/docs/new.md\n+# Title\n*** Update File: src/a.py\n@@ def f():\n-    return 1\n+    return 2\n*** Update File: old.sh\n*** Move to: bin/new.sh\n@@\n-echo old\n+echo new\n*** Delete File: gone\n*** End Patch\n";
        let report = provider.apply_patch(patch.as_bytes()).await.unwrap();
        let below = |names: &[&str]| -> Vec<String> {
            names
                .iter()
                .map(|name| format!("/home/daytona/workspace/{name}"))
                .collect()
        };
        assert_eq!(
            report.written,
            below(&["bin/new.sh", "docs/new.md", "src/a.py"])
        );
        assert_eq!(report.removed, below(&["gone", "old.sh"]));
        assert_eq!(
            read(provider, "src/a.py").await,
            b"def f():\n    return 2\n"
        );
        assert_eq!(
            told(provider, "bin/new.sh; stat -c %a bin/new.sh").await,
            "new\n751"
        );
        assert_eq!(
            told(provider, "find . -type f | sort").await,
            "./bin/new.sh\n./docs/new.md\n./src/a.py"
        );

        let diff = "diff --git a/docs/new.md b/tool\nsimilarity index 50%\nrename from docs/new.md\nrename to tool\nnew mode 100755\n--- a/docs/new.md\n+++ b/tool\n@@ -1 +1 @@\n-# Title\n+exit 5\n";
        provider.apply_patch(diff.as_bytes()).await.unwrap();
        assert_eq!(sh(provider, "./tool").await.exit_code, 5);
        assert_eq!(
            told(provider, "ls -A .. | grep holm-patch || true").await,
            ""
        );
    });
}

#[test]
fn nothing_is_written_when_any_part_of_a_patch_fails() {
    with_provider(async |provider| {
        let files = [file("a", "1\n"), file("b", "1\n"), file("locked/c", "1\n")];
        provider.upload(&files).await.unwrap();
        assert!(
            sh(
                provider,
                "mkdir folder && ln -s /etc out && ln -s a link && chmod 500 locked"
            )
            .await
            .success()
        );
        let before = told(provider, "find . | sort; cat a b locked/c").await;
        let update = |path: &str| format!("*** Update File: {path}\n@@\n-1\n+2\n");
        let patch = |parts: &[String]| {
            format!(
                "*** Begin Patch\n*** Add File: new/er\n+x\n{}*** End Patch\n",
                parts.concat()
            )
        };
        for (patch, problem) in [
            (
                patch(&[update("a"), "*** Update File: b\n@@\n-3\n+2\n".into()]),
                "hunk 1 of 1 does not fit `/home/daytona/workspace/b`",
            ),
            (
                patch(&[update("a"), update("missing")]),
                "`/home/daytona/workspace/missing` does not exist",
            ),
            (
                patch(&[update("a"), "*** Add File: ../x\n+x\n".into()]),
                "path confinement violation",
            ),
            (
                patch(&[update("a"), "*** Add File: out/x\n+x\n".into()]),
                "path confinement violation",
            ),
            (
                patch(&[update("a"), update("link")]),
                "is not a regular file",
            ),
            (
                patch(&[update("a"), "*** Add File: folder\n+x\n".into()]),
                "is not a regular file",
            ),
            (
                "*** Begin Patch\n*** Add File: x\n".to_owned(),
                "`*** End Patch` is missing",
            ),
        ] {
            let error = provider
                .apply_patch(patch.as_bytes())
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains(problem), "{error}");
            assert_eq!(
                told(provider, "find . | sort; cat a b locked/c").await,
                before
            );
        }
        // This one fails in the sandbox, after the first files are in their places.
        let late = patch(&[
            update("a"),
            "*** Delete File: b\n".into(),
            update("locked/c"),
        ]);
        let error = provider
            .apply_patch(late.as_bytes())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("could not carry out the patch, and all files are as they were: "),
            "{error}"
        );
        assert_eq!(
            told(
                provider,
                "find . -type f -o -type l | sort; cat a b locked/c"
            )
            .await,
            "./a\n./b\n./link\n./locked/c\n./out\n1\n1\n1"
        );
        assert_eq!(
            told(provider, "ls -A .. | grep holm-patch || true").await,
            ""
        );
    });
}

#[test]
fn patches_at_the_same_time_lose_nothing() {
    with_provider(async |provider| {
        provider.upload(&[file("list", "0\n")]).await.unwrap();
        let add = async |line: &str| {
            let patch =
                format!("*** Begin Patch\n*** Update File: list\n@@\n+{line}\n*** End Patch\n");
            provider.apply_patch(patch.as_bytes()).await.unwrap();
        };
        tokio::join!(add("1"), add("2"), add("3"), add("4"));
        assert_eq!(told(provider, "sort list").await, "0\n1\n2\n3\n4");
    });
}
