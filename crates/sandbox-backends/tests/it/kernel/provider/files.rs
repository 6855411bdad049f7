//! Files in and out, confined and compared.

use std::path::Path;

use holm_sandbox::SandboxError;
use holm_sandbox_backends::daytona_provider::ProviderError;

use super::{file, read, sh, told, with_provider};

#[test]
fn seed_002_files_are_uploaded_verified_and_downloaded_whatever_they_hold() {
    with_provider(async |provider| {
        let all: Vec<u8> = (0..=255).collect();
        let large: Vec<u8> = all.iter().copied().cycle().take(3_000_000).collect();
        let files = [
            file("hello.py", "print('hi')\n"),
            file("/src/app/deep/er/bytes.bin", all.clone()),
            file("/Users/ann/project/large", large.clone()),
            file("empty", ""),
            file("odd name/ü '$(x)'.txt", "odd"),
        ];
        provider.upload(&files).await.unwrap();
        assert_eq!(told(provider, "cat hello.py").await, "print('hi')");
        assert_eq!(read(provider, "deep/er/bytes.bin").await, all);
        assert!(read(provider, "project/large").await == large);
        assert_eq!(read(provider, "empty").await, b"");
        assert_eq!(read(provider, "odd name/ü '$(x)'.txt").await, b"odd");
        let mut copy = Vec::new();
        let path = Path::new("/src/app/project/large");
        let length = provider.download_to(path, &mut copy).await.unwrap();
        assert_eq!(length, 3_000_000);
        assert!(copy == large);

        provider.upload(&[file("hello.py", "new")]).await.unwrap();
        assert_eq!(read(provider, "hello.py").await, b"new");
        provider.delete(Path::new("hello.py")).await.unwrap();
        for gone in ["hello.py", "never"] {
            let error = provider.download(Path::new(gone)).await.unwrap_err();
            assert!(
                error.to_string().ends_with("does not exist in the sandbox"),
                "{error}"
            );
        }
    });
}

#[track_caller]
fn is_confinement<T: std::fmt::Debug>(outcome: Result<T, ProviderError>) {
    assert!(
        matches!(
            outcome,
            Err(ProviderError::Sandbox(SandboxError::PathConfinement { .. }))
        ),
        "{outcome:?}"
    );
}

#[test]
fn no_operation_leaves_the_workspace_by_name_or_over_links() {
    with_provider(async |provider| {
        let made = sh(
            provider,
            "mkdir ../workspace-evil inside && echo secret >../workspace-evil/secret && ln -s ../workspace-evil out \
             && ln -s /etc/passwd passwd && ln -s ../workspace-evil/new dangling && ln -s inside in && ln -s loop loop",
        );
        assert!(made.await.success());
        for path in [
            "out/secret",
            "out/new/er",
            "passwd",
            "dangling",
            "loop",
            "../workspace-evil/secret",
        ] {
            let path = Path::new(path);
            is_confinement(provider.download(path).await);
            is_confinement(provider.upload(&[file(path.to_str().unwrap(), "x")]).await);
            is_confinement(provider.delete(path).await);
        }
        // One that leads out spoils all, before the first is written.
        let both = [file("fine", "x"), file("out/secret", "x")];
        is_confinement(provider.upload(&both).await);
        assert_eq!(
            told(provider, "ls fine 2>&1 || cat ../workspace-evil/*")
                .await
                .lines()
                .last(),
            Some("secret")
        );
        // A name that only begins like the workspace's is another place, in it.
        provider
            .upload(&[file("/home/daytona/workspace-evil/x", "x")])
            .await
            .unwrap();
        assert_eq!(read(provider, "workspace-evil/x").await, b"x");
        // What stays inside may be linked.
        provider.upload(&[file("in/file", "linked")]).await.unwrap();
        assert_eq!(told(provider, "cat inside/file").await, "linked");
    });
}

#[test]
fn seed_002_permission_errors_are_told() {
    with_provider(async |provider| {
        let locked = sh(provider, "mkdir locked && chmod 500 locked && mkdir folder").await;
        assert!(locked.success());
        let error = provider.upload(&[file("locked/x", "x")]).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("locked/x") && text.to_lowercase().contains("permission"),
            "{text}"
        );
        let error = provider.upload(&[file("folder", "x")]).await.unwrap_err();
        assert!(
            error.to_string().ends_with("is not a regular file"),
            "{error}"
        );
    });
}
