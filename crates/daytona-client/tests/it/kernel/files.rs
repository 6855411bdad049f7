//! Files in and out.

use bytes::Bytes;
use holm_daytona_client::wire::error::ErrorCode;
use holm_daytona_client::wire::files::ReplaceRequest;
use holm_daytona_client::{Deletion, DownloadPart, Permissions, Recurse, Upload};

use super::with_toolbox;

/// Bytes of all values that do not repeat soon.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn files_of_all_kinds_go_in_and_come_out() {
    with_toolbox(async |toolbox| {
        let files = toolbox.files();
        let large = noise(5_000_000);
        let odd = "dir with space/ü \"quoted\" 'x' %41;.bin";
        let uploads = vec![
            Upload::bytes("deep/er/empty", Bytes::new()),
            Upload::bytes(odd, &b"\r\n--x\0"[..]),
            Upload::reader("stream", std::io::Cursor::new(large.clone()), None),
            Upload::reader(
                "known",
                std::io::Cursor::new(large.clone()),
                Some(4_000_000),
            ),
        ];
        let written = files.upload(uploads).await.unwrap();
        let counts: Vec<u64> = written.iter().map(|file| file.bytes).collect();
        assert_eq!(counts, [0, 6, 5_000_000, 4_000_000]);
        assert_eq!(files.read("deep/er/empty", 0).await.unwrap(), b"");
        assert_eq!(files.read(odd, 100).await.unwrap(), b"\r\n--x\0");
        let download = files.download("stream").await.unwrap();
        assert_eq!(download.length(), Some(5_000_000));
        let mut copy = Vec::new();
        assert_eq!(download.copy_to(&mut copy).await.unwrap(), 5_000_000);
        assert!(copy == large);

        let paths = [odd, "missing", "known"].map(str::to_owned).to_vec();
        let mut downloads = files.download_many(paths).await.unwrap();
        let mut outcomes = Vec::new();
        while let Some(part) = downloads.next_part().await.unwrap() {
            match part {
                DownloadPart::File { path, length } => {
                    let mut count = 0;
                    while let Some(chunk) = downloads.chunk().await.unwrap() {
                        count += u64::try_from(chunk.len()).unwrap();
                    }
                    assert_eq!(length, Some(count));
                    outcomes.push((path, Some(count)));
                }
                DownloadPart::Failed { path, error } => {
                    assert!(error.has_code(&ErrorCode::FileNotFound), "{error:?}");
                    outcomes.push((path, None));
                }
            }
        }
        let expected = [
            (odd, Some(6)),
            ("missing", None),
            ("known", Some(4_000_000)),
        ];
        assert_eq!(
            outcomes,
            expected.map(|(path, count)| (path.to_owned(), count))
        );
    });
}

#[test]
fn files_are_looked_at_and_changed() {
    with_toolbox(async |toolbox| {
        let files = toolbox.files();
        files.create_folder("a/b", "755").await.unwrap();
        files.write("a/b/one.txt", "alpha\nbeta\n").await.unwrap();
        files.write("a/b/two.txt", "beta\n").await.unwrap();
        let info = files.info("a/b/one.txt").await.unwrap();
        assert_eq!((info.size, info.is_dir), (11, false));
        assert!(files.info("missing").await.unwrap_err().is_not_found());
        let mut names: Vec<String> = files
            .list("a/b")
            .await
            .unwrap()
            .into_iter()
            .map(|file| file.name)
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["one.txt", "two.txt"]);
        let permissions = Permissions {
            mode: Some("600".to_owned()),
            ..Permissions::default()
        };
        files
            .set_permissions("a/b/one.txt", &permissions)
            .await
            .unwrap();
        assert_eq!(files.info("a/b/one.txt").await.unwrap().permissions, "0600");
        assert_eq!(files.find_in_files("a", "beta").await.unwrap().len(), 2);
        assert_eq!(files.find_in_files("a", "nowhere").await.unwrap(), []);
        assert_eq!(files.search("a", "*.txt").await.unwrap().len(), 2);
        let replace = ReplaceRequest {
            files: vec!["a/b/one.txt".to_owned()],
            pattern: "alpha".to_owned(),
            new_value: "omega".to_owned(),
        };
        let replaced = files.replace(&replace).await.unwrap();
        assert!(replaced.iter().all(|file| file.success), "{replaced:?}");
        assert_eq!(
            files.read("a/b/one.txt", 100).await.unwrap(),
            b"omega\nbeta\n"
        );
        let taken = files
            .rename("a/b/one.txt", "a/b/two.txt")
            .await
            .unwrap_err();
        assert!(taken.is_conflict(), "{taken:?}");
        files.rename("a/b/one.txt", "a/three.txt").await.unwrap();
        let file = files.delete("a/three.txt", Recurse::No).await.unwrap();
        assert_eq!(file, Deletion::Accepted);
        let gone = files.delete("a/three.txt", Recurse::No).await.unwrap();
        assert_eq!(gone, Deletion::AlreadyGone);
        assert!(files.delete("a", Recurse::No).await.is_err());
        files.delete("a", Recurse::Yes).await.unwrap();
        assert!(files.info("a").await.unwrap_err().is_not_found());
    });
}

#[test]
fn what_cannot_be_written_is_told() {
    with_toolbox(async |toolbox| {
        let files = toolbox.files();
        let error = files.write("/proc/nope/x", "x").await.unwrap_err();
        assert_eq!(error.status(), Some(400), "{error:?}");
        files.write("locked", "x").await.unwrap();
        let locked = Permissions {
            mode: Some("000".to_owned()),
            ..Permissions::default()
        };
        files.set_permissions("locked", &locked).await.unwrap();
        let error = files.read("locked", 10_000).await.unwrap_err();
        assert!(error.has_code(&ErrorCode::FileAccessDenied), "{error:?}");
        // The connection is good for the next one.
        files.write("fine", "x").await.unwrap();
    });
}
