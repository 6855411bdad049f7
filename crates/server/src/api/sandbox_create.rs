//! A request for a new sandbox, checked: what Daytona refuses is refused with its words.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holm_daytona_wire::Hidden;
use holm_daytona_wire::sandbox::{CreateSandbox, SandboxState};
use holm_daytona_wire::snapshot::{CreateBuildInfo, SnapshotState};

use crate::clock::{self, Millis, minutes_after};
use crate::error::{ApiError, Result};
use crate::keys::random_token;
use crate::records::{
    Foundation, Intervals, NetworkSettings, Resources, SandboxRecord, SnapshotRecord, VolumeMount,
};

/// Made from when no snapshot is named.
pub(crate) const DEFAULT_SNAPSHOT: &str = "daytona-small";
pub(crate) const DEFAULT_USER: &str = "daytona";
pub(crate) const TARGET: &str = "local";

const STOP_MINUTES_DEFAULT: i32 = 15;
const ARCHIVE_MINUTES_DEFAULT: i32 = 7 * 24 * 60;
const ARCHIVE_MINUTES_MAX: i32 = 30 * 24 * 60;
const NEVER_DELETED: i32 = -1;
const NAME_LENGTH_MAX: usize = 255;
const LABELS_MAX: usize = 256;
const LABELS_BYTES_MAX: usize = 64 * 1024;
/// Linux gives a new process no more than some megabytes for all, and 128 KiB for one.
const ENVIRONMENT_BYTES_MAX: usize = 128 * 1024;
/// Volumes, and variables for secrets, of one sandbox.
const MOUNTS_MAX: usize = 32;
const SECRETS_MAX: usize = 256;
const PATH_BYTES_MAX: usize = 1_024;
/// More of anything is a mistake in its unit.
const SIZE_MAX: u32 = 1_024;
const USER_LENGTH_MAX: usize = 256;
/// Kept with every sandbox that is made from it.
const DOCKERFILE_BYTES_MAX: usize = 256 * 1024;
/// As registries have it.
const IMAGE_LENGTH_MAX: usize = 1_024;
const ENTRYPOINT_BYTES_MAX: usize = 64 * 1024;

/// Where no volume may be mounted, with everything below.
const SYSTEM_FOLDERS: [&str; 14] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root",
    "/run", "/sbin", "/sys", "/usr",
];

/// Who asks, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) organization: &'a str,
    pub(crate) now: Millis,
    /// How long a minute is.
    pub(crate) minute: Duration,
}

/// The record of a sandbox that is about to be made from a snapshot.
pub(crate) fn record(
    request: &CreateSandbox,
    snapshot: &SnapshotRecord,
    asked: Asked<'_>,
) -> Result<SandboxRecord> {
    refuse_what_we_do_not_have(request)?;
    let id = uuid::Uuid::new_v4().to_string();
    let name = match request.name.as_deref() {
        None | Some("") => id.clone(),
        Some(name) => checked_name(name)?,
    };
    check_labels(&request.labels)?;
    check_environment(&request.env)?;
    Ok(SandboxRecord {
        id,
        organization: asked.organization.to_owned(),
        name,
        user: checked_user(request.user.as_deref(), snapshot)?,
        env: request.env.clone(),
        labels: request.labels.clone(),
        public: request.public.unwrap_or(false),
        network: network(request),
        target: checked_target(request.target.as_deref())?,
        resources: snapshot.resources,
        snapshot: Some(snapshot.name.clone()),
        foundation: snapshot.foundation.clone(),
        layers: snapshot.layers.clone(),
        state: SandboxState::Creating,
        error_reason: None,
        intervals: intervals(request)?,
        destroy_at: destroy_at(request.ttl_minutes.unwrap_or(0), asked.now, asked.minute)?,
        volumes: volumes(request)?,
        secrets: request
            .secrets
            .iter()
            .flatten()
            .map(|(name, secret)| (name.clone(), secret.clone()))
            .collect(),
        created_at: asked.now,
        updated_at: asked.now,
        last_activity_at: asked.now,
        auth_token: Hidden::new(random_token()),
        signing_key: Hidden::new(random_token()),
        linked_sandbox: None,
        dockerfile: snapshot.dockerfile.clone(),
        build: None,
        running: None,
    })
}

fn refuse_what_we_do_not_have(request: &CreateSandbox) -> Result<()> {
    if request.gpu.is_some_and(|gpu| gpu > 0) {
        return Err(ApiError::bad_request(
            "GPUs are not available on this server",
        ));
    }
    if request.kvm == Some(true) {
        return Err(ApiError::bad_request(
            "virtual machines are not available on this server: leave `kvm` out",
        ));
    }
    if request.secrets.iter().flatten().count() > SECRETS_MAX {
        return Err(ApiError::bad_request(format!(
            "a sandbox has at most {SECRETS_MAX} secrets"
        )));
    }
    let proxy = request.outbound_proxy_url.as_deref();
    if proxy.is_some_and(|proxy| !proxy.is_empty()) {
        return Err(ApiError::not_implemented(
            "outbound proxies are not available on this server: use `networkAllowList` and `domainAllowList`",
        ));
    }
    if request.linked_sandbox.is_some() {
        return Err(ApiError::not_implemented(
            "linked sandboxes are not available on this server: share a volume instead",
        ));
    }
    Ok(())
}

/// A name that can stand in an address.
pub(crate) fn checked_name(name: &str) -> Result<String> {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    // Clients take these out of addresses before they send them.
    let is_a_step = matches!(name, "." | "..");
    if is_a_step || name.len() > NAME_LENGTH_MAX || !name.chars().all(is_fine) {
        return Err(ApiError::bad_request(format!(
            "a name has at most {NAME_LENGTH_MAX} letters, digits, dots, underscores and hyphens"
        )));
    }
    Ok(name.to_owned())
}

/// Which place it is asked for does not matter, there is one; what the client calls it is shown again.
fn checked_target(target: Option<&str>) -> Result<String> {
    match target {
        None | Some("") => Ok(TARGET.to_owned()),
        Some(target) => checked_name(target),
    }
}

/// When a sandbox ends that has so many minutes; zero means never.
pub(crate) fn destroy_at(minutes: i32, now: Millis, minute: Duration) -> Result<Option<Millis>> {
    match minutes {
        ..0 => Err(ApiError::bad_request(
            "Time to live must be non-negative, in minutes",
        )),
        0 => Ok(None),
        _ => Ok(Some(minutes_after(now, minutes, minute))),
    }
}

pub(crate) fn check_labels(labels: &BTreeMap<String, String>) -> Result<()> {
    if labels.len() > LABELS_MAX || bytes_of(labels) > LABELS_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "a sandbox has at most {LABELS_MAX} labels, of {LABELS_BYTES_MAX} bytes together"
        )));
    }
    Ok(())
}

fn bytes_of(pairs: &BTreeMap<String, String>) -> usize {
    let pairs = pairs.iter();
    pairs.map(|(name, value)| name.len() + value.len()).sum()
}

fn checked_user(user: Option<&str>, snapshot: &SnapshotRecord) -> Result<String> {
    let user = user.filter(|user| !user.is_empty());
    let is_plain = |user: &str| user.len() <= USER_LENGTH_MAX && !user.contains(char::is_control);
    if user.is_some_and(|user| !is_plain(user)) {
        return Err(ApiError::bad_request(format!(
            "a user has at most {USER_LENGTH_MAX} characters, and no control characters"
        )));
    }
    if snapshot.state != SnapshotState::Active {
        // The image says who, once it is there.
        return Ok(user.unwrap_or_default().to_owned());
    }
    match (user, &snapshot.foundation) {
        (None | Some(DEFAULT_USER), Foundation::Host) => Ok(DEFAULT_USER.to_owned()),
        (Some(user), Foundation::Host) => Err(ApiError::bad_request(format!(
            "this snapshot has no user `{user}`, only `{DEFAULT_USER}`: use a snapshot with a root of its own"
        ))),
        (Some(user), Foundation::Image { .. }) => Ok(user.to_owned()),
        (None, Foundation::Image { .. }) => Ok(snapshot
            .image_user
            .clone()
            .unwrap_or_else(|| "root".to_owned())),
    }
}

pub(crate) fn check_environment(environment: &BTreeMap<String, String>) -> Result<()> {
    if bytes_of(environment) > ENVIRONMENT_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "the environment of a sandbox has at most {ENVIRONMENT_BYTES_MAX} bytes"
        )));
    }
    for (name, value) in environment {
        if !is_variable_name(name) {
            return Err(ApiError::bad_request(format!(
                "invalid environment variable name: '{name}'"
            )));
        }
        if value.contains('\0') {
            return Err(ApiError::bad_request(format!(
                "the value of the environment variable '{name}' holds a NUL"
            )));
        }
    }
    Ok(())
}

/// `[A-Za-z_][A-Za-z0-9_]*`.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.chars().all(is_word)
        && name
            .chars()
            .next()
            .is_some_and(|first| !first.is_ascii_digit())
}

fn network(request: &CreateSandbox) -> NetworkSettings {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    NetworkSettings {
        block_all: request.network_block_all.unwrap_or(false),
        allow_list: given(&request.network_allow_list),
        domain_allow_list: given(&request.domain_allow_list),
    }
}

fn intervals(request: &CreateSandbox) -> Result<Intervals> {
    Ok(Intervals {
        stop: stop_interval(request.auto_stop_interval.unwrap_or(STOP_MINUTES_DEFAULT))?,
        pause: stop_interval(request.auto_pause_interval.unwrap_or(0))?,
        archive: archive_interval(
            request
                .auto_archive_interval
                .unwrap_or(ARCHIVE_MINUTES_DEFAULT),
        )?,
        delete: request.auto_delete_interval.unwrap_or(NEVER_DELETED),
    })
}

pub(crate) fn stop_interval(minutes: i32) -> Result<i32> {
    if minutes < 0 {
        return Err(ApiError::bad_request(
            "Auto-stop interval must be non-negative",
        ));
    }
    Ok(minutes)
}

/// Zero means the longest.
pub(crate) fn archive_interval(minutes: i32) -> Result<i32> {
    match minutes {
        0 => Ok(ARCHIVE_MINUTES_MAX),
        1..=ARCHIVE_MINUTES_MAX => Ok(minutes),
        _ => Err(ApiError::bad_request(format!(
            "Auto-archive interval must be between 0 and {ARCHIVE_MINUTES_MAX} minutes"
        ))),
    }
}

fn volumes(request: &CreateSandbox) -> Result<Vec<VolumeMount>> {
    let check = |volume: &holm_daytona_wire::sandbox::SandboxVolume| {
        check_mount_path(&volume.mount_path)?;
        if let Some(subpath) = &volume.subpath
            && !is_plain_relative(subpath)
        {
            return Err(ApiError::bad_request(format!(
                "Invalid subpath `{subpath}`: it has to be relative and without `..`"
            )));
        }
        Ok(VolumeMount {
            volume_id: volume.volume_id.clone(),
            mount_path: volume.mount_path.trim_end_matches('/').to_owned(),
            subpath: volume.subpath.clone().filter(|subpath| !subpath.is_empty()),
        })
    };
    if request.volumes.len() > MOUNTS_MAX {
        return Err(ApiError::bad_request(format!(
            "a sandbox has at most {MOUNTS_MAX} volumes"
        )));
    }
    let mounts: Vec<VolumeMount> = request.volumes.iter().map(check).collect::<Result<_>>()?;
    let mut places = BTreeSet::new();
    for mount in &mounts {
        if !places.insert(&mount.mount_path) {
            return Err(ApiError::bad_request(format!(
                "Invalid mount path `{}`: two volumes are mounted there",
                mount.mount_path
            )));
        }
    }
    Ok(mounts)
}

fn check_mount_path(path: &str) -> Result<()> {
    let refused = |why: &str| {
        Err(ApiError::bad_request(format!(
            "Invalid mount path `{path}`: {why}"
        )))
    };
    if !path.starts_with('/') {
        return refused("it has to be absolute");
    }
    if path.trim_end_matches('/').is_empty() {
        return refused("it cannot be the root");
    }
    if path.contains("//") || !is_plain_relative(path.trim_start_matches('/')) {
        return refused("it holds `.`, `..` or an empty part");
    }
    let is_below = |folder: &&&str| {
        path.strip_prefix(**folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(folder) = SYSTEM_FOLDERS.iter().find(is_below) {
        return refused(&format!("`{folder}` belongs to the system"));
    }
    Ok(())
}

/// Relative, without parts that lead elsewhere.
fn is_plain_relative(path: &str) -> bool {
    let parts = path.trim_end_matches('/').split('/');
    !path.starts_with('/')
        && path.len() <= PATH_BYTES_MAX
        && !path.contains('\0')
        && parts.into_iter().all(|part| !matches!(part, "." | ".."))
}

/// What a new snapshot is made from.
#[derive(Debug)]
pub(crate) struct NewSnapshot<'a> {
    pub(crate) organization: &'a str,
    pub(crate) name: &'a str,
    pub(crate) image: Option<&'a str>,
    pub(crate) build: Option<&'a CreateBuildInfo>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) resources: Resources,
}

/// The record of a snapshot that is about to be pulled or built.
pub(crate) fn snapshot_record(new: NewSnapshot<'_>) -> Result<SnapshotRecord> {
    let name = checked_image_name(new.name)?;
    let image = new.image.filter(|image| !image.is_empty());
    if image.is_some() == new.build.is_some() {
        return Err(ApiError::bad_request(
            "a snapshot is made from either `imageName` or `buildInfo`",
        ));
    }
    if let Some(build) = new.build {
        if !build.context_hashes.is_empty() {
            return Err(ApiError::not_implemented(
                "local files cannot be added to an image on this server, which has no object storage: upload them to the sandbox, or build the image elsewhere and pull it",
            ));
        }
        if build.dockerfile_content.trim().is_empty() {
            return Err(ApiError::bad_request(
                "`buildInfo.dockerfileContent` is empty",
            ));
        }
        if build.dockerfile_content.len() > DOCKERFILE_BYTES_MAX {
            return Err(ApiError::bad_request(format!(
                "`buildInfo.dockerfileContent` has more than {DOCKERFILE_BYTES_MAX} bytes"
            )));
        }
    }
    if image.is_some_and(|image| image.len() > IMAGE_LENGTH_MAX) {
        return Err(ApiError::bad_request(format!(
            "`imageName` has more than {IMAGE_LENGTH_MAX} bytes"
        )));
    }
    if new.entrypoint.iter().map(String::len).sum::<usize>() > ENTRYPOINT_BYTES_MAX
        || new.entrypoint.len() > ENTRYPOINT_BYTES_MAX
    {
        return Err(ApiError::bad_request(format!(
            "`entrypoint` has more than {ENTRYPOINT_BYTES_MAX} bytes"
        )));
    }
    let now = clock::now();
    Ok(SnapshotRecord {
        id: uuid::Uuid::new_v4().to_string(),
        organization: new.organization.to_owned(),
        name,
        state: SnapshotState::Pending,
        foundation: Foundation::Host,
        layers: Vec::new(),
        layers_id_range: 0,
        image_name: image.map(str::to_owned),
        image_user: None,
        entrypoint: new.entrypoint,
        dockerfile: new.build.map(|build| build.dockerfile_content.clone()),
        resources: new.resources,
        size_bytes: 0,
        error_reason: None,
        created_at: now,
        updated_at: now,
        last_used_at: None,
        source_sandbox: None,
    })
}

/// Snapshots may be named like images, with a registry, a path and a tag.
pub(crate) fn checked_image_name(name: &str) -> Result<String> {
    if name.is_empty() {
        return Err(ApiError::bad_request("a snapshot needs a `name`"));
    }
    let plain: String = name.replace(['/', ':', '@'], "-");
    checked_name(&plain)?;
    Ok(name.to_owned())
}

/// Sizes of a sandbox that has no snapshot to take them from, with Daytona's defaults.
pub(crate) fn resources(
    cpu: Option<u32>,
    memory: Option<u32>,
    disk: Option<u32>,
) -> Result<Resources> {
    let check = |what: &str, value: Option<u32>, default: u32| match value.unwrap_or(default) {
        value @ 1..=SIZE_MAX => Ok(value),
        _ => Err(ApiError::bad_request(format!(
            "`{what}` has to be between 1 and {SIZE_MAX}"
        ))),
    };
    Ok(Resources {
        cpu: check("cpu", cpu, 1)?,
        memory_gib: check("memory", memory, 1)?,
        disk_gib: check("disk", disk, 3)?,
    })
}
