//! The rules, one by one, and what holds for all paths.

use proptest::prelude::*;

use super::*;

const WORKSPACE: &str = "/home/daytona/workspace";

fn mapper() -> PathMapper {
    let root = |local: &str, remote: &str| LocalRoot {
        local: local.into(),
        remote: remote.into(),
    };
    let roots = vec![
        root("/src/app", ""),
        root("/src/app/vendor", "third-party"),
        root("/srv/../data", "data"),
    ];
    PathMapper::new(WORKSPACE, roots).unwrap()
}

#[track_caller]
fn check(path: &str, remote: &str, rule: Rule) {
    let expected = if remote.is_empty() {
        WORKSPACE.to_owned()
    } else {
        format!("{WORKSPACE}/{remote}")
    };
    let mapped = mapper().map_by_rule(Path::new(path)).unwrap();
    assert_eq!(mapped, (expected, rule));
}

#[test]
fn seed_002_relative_paths_map_directly_to_the_workspace() {
    check("hello.py", "hello.py", Rule::Relative);
    check("./a/b/../c", "a/c", Rule::Relative);
    check("..foo/...", "..foo/...", Rule::Relative);
    check("", "", Rule::Relative);
}

#[test]
fn seed_002_absolute_paths_lose_their_system_folders() {
    for (path, remote) in [
        ("/Users/username/project/file.py", "project/file.py"),
        ("/home/bob/project/file.py", "project/file.py"),
        ("/private/tmp/x/y.txt", "x/y.txt"),
        ("/root/notes", "notes"),
        ("/project/usr/local/a", "project/usr/local/a"),
        ("/etc/../etc/passwd", "passwd"),
    ] {
        check(path, remote, Rule::WithoutSystemFolders);
    }
    for path in ["/", "/tmp", "/home", "/home/bob", "/usr/lib", "/../.."] {
        let error = mapper().map(Path::new(path)).unwrap_err().to_string();
        assert!(error.ends_with("is nothing but system folders"), "{error}");
    }
}

#[test]
fn local_roots_come_before_guesses_and_the_longest_counts() {
    check("/src/app/src/main.rs", "src/main.rs", Rule::LocalRoot);
    check("/src/app", "", Rule::LocalRoot);
    check("/src/app/vendor/x", "third-party/x", Rule::LocalRoot);
    check("/data/x", "data/x", Rule::LocalRoot);
    check("/src/app/vendor/../x", "x", Rule::LocalRoot);
}

#[test]
fn a_root_is_a_folder_and_not_the_beginning_of_a_name() {
    check(
        "/src/app-evil/x",
        "src/app-evil/x",
        Rule::WithoutSystemFolders,
    );
    check("/home/daytona/workspace/x", "x", Rule::Remote);
    check(
        "/home/daytona/workspace-evil/x",
        "workspace-evil/x",
        Rule::WithoutSystemFolders,
    );
    check(
        "/src/app/../app-evil",
        "src/app-evil",
        Rule::WithoutSystemFolders,
    );
}

#[test]
fn what_leads_out_is_refused() {
    for path in ["..", "../x", "a/../../x", "../workspace-evil/x"] {
        let error = mapper().map(Path::new(path)).unwrap_err().to_string();
        assert!(error.starts_with("path confinement violation"), "{error}");
    }
    for path in ["a\nb", "a\0b", "a\x1b[2J"] {
        assert!(mapper().map(Path::new(path)).is_err(), "{path:?}");
    }
    let escaping = LocalRoot {
        local: "/x".into(),
        remote: "../y".into(),
    };
    assert!(PathMapper::new(WORKSPACE, vec![escaping]).is_err());
}

#[test]
fn seed_002_mappings_are_cached() {
    let mapper = mapper();
    let first = mapper.map(Path::new("/home/bob/p/x")).unwrap();
    assert_eq!(mapper.known().mapped.len(), 1);
    assert_eq!(mapper.map(Path::new("/home/bob/p/x")).unwrap(), first);
    assert_eq!(mapper.known().mapped.len(), 1);
}

#[test]
fn seed_002_mappings_are_logged() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        mapper().map(Path::new("/home/bob/p/x")).unwrap();
    });
    let lines = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(lines.lines().count(), 1, "{lines}");
    for part in [
        "mapped a path",
        "path=/home/bob/p/x",
        "remote=\"/home/daytona/workspace/p/x\"",
        "rule=WithoutSystemFolders",
    ] {
        assert!(lines.contains(part), "{lines}");
    }
}

/// What is logged, for whoever looks.
#[derive(Debug, Clone, Default)]
struct Log(std::sync::Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[test]
fn two_local_files_never_become_one() {
    let mapper = mapper();
    mapper.map(Path::new("/home/ann/project/a.py")).unwrap();
    mapper.map(Path::new("/home/ann/./project/a.py")).unwrap();
    let error = mapper.map(Path::new("/home/bob/project/a.py")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`/home/ann/project/a.py` and `/home/bob/project/a.py` would be the same file \
         `/home/daytona/workspace/project/a.py` in the sandbox"
    );
    assert!(error.hint().unwrap().contains("local root"));
}

proptest! {
    #[test]
    fn no_path_leaves_the_workspace(
        parts in prop::collection::vec(prop_oneof![
            Just("..".to_owned()), Just(".".to_owned()), Just("home".to_owned()), Just("src".to_owned()), Just("app".to_owned()),
            Just("workspace".to_owned()), Just("workspace-evil".to_owned()), Just("daytona".to_owned()), "[a-z.]{0,3}",
        ], 0..10),
        start in prop_oneof![Just(""), Just("/"), Just("//"), Just("/home/daytona/workspace/"), Just("/src/app/")],
    ) {
        let path = format!("{start}{}", parts.join("/"));
        if let Ok(remote) = mapper().map(Path::new(&path)) {
            prop_assert!(Path::new(&remote).starts_with(WORKSPACE), "{} -> {}", path, remote);
            prop_assert!(remote.split('/').all(|part| part != ".." && part != "."), "{} -> {}", path, remote);
        }
    }
}
