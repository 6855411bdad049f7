//! A record as Daytona shows it.

use holm_daytona_wire::sandbox::{
    BackupState, Sandbox, SandboxClass, SandboxDesiredState, SandboxState, SandboxVolume,
};
use holm_daytona_wire::snapshot::BuildInfo;

use crate::clock::rfc3339;
use crate::records::SandboxRecord;
use crate::sandboxes::Phase;

/// A sandbox, whose toolbox is found below `public_url`.
pub(crate) fn show(record: &SandboxRecord, public_url: &str) -> Sandbox {
    let network = &record.network;
    Sandbox {
        id: record.id.clone(),
        organization_id: record.organization.clone(),
        name: record.name.clone(),
        target: record.target.clone(),
        sandbox_class: Some(SandboxClass::Container),
        state: Some(record.state.clone()),
        desired_state: desired(&record.state),
        snapshot: record.snapshot.clone(),
        user: record.user.clone(),
        error_reason: record.error_reason.clone(),
        // `recover` tries to start it.
        recoverable: Some(record.state == SandboxState::Error),
        public: record.public,
        network_block_all: network.block_all,
        network_allow_list: network.allow_list.clone(),
        domain_allow_list: network.domain_allow_list.clone(),
        cpu: record.resources.cpu,
        gpu: 0,
        memory: record.resources.memory_gib,
        disk: record.resources.disk_gib,
        labels: record.labels.clone(),
        backup_state: Some(BackupState::None),
        auto_stop_interval: Some(record.intervals.stop),
        auto_pause_interval: Some(record.intervals.pause),
        auto_archive_interval: Some(record.intervals.archive),
        auto_delete_interval: Some(record.intervals.delete),
        auto_destroy_at: record.destroy_at.map(rfc3339),
        created_at: Some(rfc3339(record.created_at)),
        updated_at: Some(rfc3339(record.updated_at)),
        last_activity_at: Some(rfc3339(record.last_activity_at)),
        daemon_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        toolbox_proxy_url: format!("{public_url}/toolbox"),
        env: record.env.clone(),
        kvm: false,
        volumes: record
            .volumes
            .iter()
            .map(|volume| SandboxVolume {
                volume_id: volume.volume_id.clone(),
                mount_path: volume.mount_path.clone(),
                subpath: volume.subpath.clone(),
            })
            .collect(),
        build_info: record.dockerfile.as_ref().map(|dockerfile| BuildInfo {
            dockerfile_content: Some(dockerfile.clone()),
            created_at: rfc3339(record.created_at),
            updated_at: rfc3339(record.updated_at),
            ..BuildInfo::default()
        }),
        linked_sandbox_id: record.linked_sandbox.clone(),
        ..Sandbox::default()
    }
}

fn desired(state: &SandboxState) -> Option<SandboxDesiredState> {
    Some(match Phase::of(state) {
        Phase::Stopped => SandboxDesiredState::Stopped,
        Phase::Archived => SandboxDesiredState::Archived,
        Phase::Frozen => SandboxDesiredState::Paused,
        Phase::Leaving => SandboxDesiredState::Destroyed,
        Phase::Running | Phase::Unready => SandboxDesiredState::Started,
    })
}
