//! What is written is read back the same.

use std::fmt::Debug;

use holm_daytona_wire::Hidden;
use holm_daytona_wire::error::{ApiErrorBody, DaemonErrorBody, ErrorCode};
use holm_daytona_wire::events::SandboxStateUpdated;
use holm_daytona_wire::git::{FileStatus, FileStatusWord, GitCloneRequest, GitStatus};
use holm_daytona_wire::sandbox::{
    BackupState, CreateSandbox, Sandbox, SandboxClass, SandboxDesiredState, SandboxState,
    SandboxVolume,
};
use holm_daytona_wire::snapshot::{BuildInfo, CreateBuildInfo, Snapshot, SnapshotState};
use holm_daytona_wire::volume::{Volume, VolumeState};
use proptest::option;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
}

fn map() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    prop::collection::btree_map(".*", ".*", 0..3)
}

fn sandbox() -> impl Strategy<Value = Sandbox> {
    let texts = (".*", option::of(".*"), option::of(".*"));
    let numbers = (any::<u32>(), any::<u32>(), option::of(any::<i32>()));
    let volume = (".*", ".*", option::of(".*"));
    (
        texts,
        numbers,
        map(),
        map(),
        ".*",
        any::<bool>(),
        option::of(volume),
    )
        .prop_map(
            |(
                (id, snapshot, error_reason),
                (cpu, disk, interval),
                env,
                labels,
                word,
                flag,
                volume,
            )| {
                Sandbox {
                    id,
                    snapshot,
                    error_reason,
                    cpu,
                    disk,
                    auto_delete_interval: interval,
                    env,
                    labels,
                    kvm: flag,
                    recoverable: Some(flag),
                    state: Some(SandboxState::from(word.as_str())),
                    desired_state: Some(SandboxDesiredState::Archived),
                    backup_state: Some(BackupState::None),
                    sandbox_class: Some(SandboxClass::Container),
                    volumes: volume
                        .map(|(volume_id, mount_path, subpath)| SandboxVolume {
                            volume_id,
                            mount_path,
                            subpath,
                        })
                        .into_iter()
                        .collect(),
                    build_info: flag.then(BuildInfo::default),
                    ..Sandbox::default()
                }
            },
        )
}

proptest! {
    #[test]
    fn sandboxes(sandbox in sandbox(), word in ".*") {
        same(&sandbox);
        same(&SandboxStateUpdated {
            old_state: SandboxState::from(word.as_str()),
            new_state: SandboxState::Started,
            sandbox,
        });
    }

    #[test]
    fn requests(name in option::of(".*"), env in map(), secrets in prop::collection::vec(map(), 0..3), content in ".*") {
        same(&CreateSandbox {
            name,
            env,
            secrets,
            build_info: Some(CreateBuildInfo { dockerfile_content: content.clone(), context_hashes: vec![content] }),
            ..CreateSandbox::default()
        });
    }

    #[test]
    fn snapshots_and_volumes(text in ".*", size in option::of(any::<u16>()), entrypoint in option::of(prop::collection::vec(".*", 0..3))) {
        same(&Snapshot {
            name: text.clone(),
            size: size.map(|quarters| f64::from(quarters) / 4.0),
            entrypoint,
            state: SnapshotState::from(text.as_str()),
            error_reason: Some(text.clone()),
            ..Snapshot::default()
        });
        same(&Volume { state: VolumeState::from(text.as_str()), name: text, ..Volume::default() });
    }

    #[test]
    fn errors(code in ".*", message in ".*") {
        same(&ApiErrorBody::new(ErrorCode::from(code.as_str()), &message).at("/p", "t"));
        same(&DaemonErrorBody::new(ErrorCode::from(code.as_str()), &message).at("GET", "/p", "t"));
    }

    #[test]
    fn git(text in ".*", ahead in any::<u32>()) {
        same(&GitCloneRequest { url: text.clone(), password: Some(Hidden::new(text.clone())), ..GitCloneRequest::default() });
        let file = FileStatus { name: text.clone(), staging: FileStatusWord::UpdatedButUnmerged, ..FileStatus::default() };
        same(&GitStatus { current_branch: text, file_status: vec![file], ahead, ..GitStatus::default() });
    }
}
