//! Where groups can be made on this host, and the making, finding and listing of them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, accessat, mkdir};
use rustix::io::Errno;

use super::group::GroupDir;
use super::limits::write_knob;
use super::parse::{Site, parse_memberships, parse_mounts, plan_sites};
use super::{BoxGroup, CgroupError, Controller, Limits, Reason, Version};

/// The group that holds all boxes.
const PARENT: &str = "holm";

const NAME_BYTES_MAX: usize = 128;

/// The places for groups on this host. Cheap to keep, and to be asked once per process.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    places: Vec<Place>,
    missing: Vec<(Controller, Reason)>,
}

/// A hierarchy in which the caller may make groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) version: Version,
    pub(super) controllers: Vec<Controller>,
    /// The directory of all boxes' groups.
    pub(super) parent: PathBuf,
}

/// Whether a controller can be used, for a report to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    pub controller: Controller,
    /// Where its groups are made, or why there are none.
    pub place: Result<(Version, PathBuf), Reason>,
}

impl Hierarchy {
    /// Finds this host's places, making the group `holm` in each, which is the only sure test.
    ///
    /// A host without cgroups, or one that permits nothing, is a valid answer: every limit is then unenforced.
    pub fn detect() -> Result<Self, CgroupError> {
        Self::detect_under(PARENT)
    }

    /// [`detect`](Self::detect) with another name for the group of all boxes.
    pub fn detect_under(parent: &str) -> Result<Self, CgroupError> {
        check_name(parent)?;
        let mounts = parse_mounts(&read_proc("/proc/self/mountinfo")?);
        let memberships = parse_memberships(&read_proc("/proc/self/cgroup")?);
        let unified = mounts
            .iter()
            .find(|mount| mount.version == Version::V2)
            .and_then(|mount| {
                std::fs::read_to_string(mount.mount_point.join("cgroup.controllers")).ok()
            })
            .unwrap_or_default();
        Ok(Self::settle(
            &plan_sites(&mounts, &memberships, &unified),
            parent,
        ))
    }

    /// Tries out the planned sites.
    pub(super) fn settle(sites: &[Site], parent: &str) -> Self {
        let mut found = Self {
            places: Vec::new(),
            missing: Vec::new(),
        };
        for site in sites {
            let usable = site
                .candidates
                .iter()
                .map(|candidate| candidate.join(parent))
                .find(|group| may_make_groups(group));
            match usable {
                Some(group) => found.add_place(site, group),
                None => found.miss(&site.controllers, &Reason::NotPermitted),
            }
        }
        for controller in Controller::ALL {
            if found.reason_missing(controller).is_none() && found.place_of(controller).is_none() {
                found.miss(&[controller], &Reason::NoController);
            }
        }
        found
    }

    fn add_place(&mut self, site: &Site, parent: PathBuf) {
        let mut controllers = Vec::new();
        for controller in &site.controllers {
            match enable(site.version, &parent, *controller) {
                Ok(()) => controllers.push(*controller),
                Err(reason) => self.miss(&[*controller], &reason),
            }
        }
        self.places.push(Place {
            version: site.version,
            controllers,
            parent,
        });
    }

    fn miss(&mut self, controllers: &[Controller], reason: &Reason) {
        self.missing
            .extend(controllers.iter().map(|it| (*it, reason.clone())));
    }

    fn place_of(&self, controller: Controller) -> Option<&Place> {
        self.places
            .iter()
            .find(|place| place.controllers.contains(&controller))
    }

    fn reason_missing(&self, controller: Controller) -> Option<&Reason> {
        self.missing
            .iter()
            .find(|(missing, _)| *missing == controller)
            .map(|(_, reason)| reason)
    }

    /// What this host gives, one line per controller.
    #[must_use]
    pub fn availability(&self) -> Vec<Availability> {
        Controller::ALL
            .into_iter()
            .map(|controller| Availability {
                controller,
                place: match self.place_of(controller) {
                    Some(place) => Ok((place.version, place.parent.clone())),
                    None => Err(self
                        .reason_missing(controller)
                        .cloned()
                        .unwrap_or(Reason::NoController)),
                },
            })
            .collect()
    }

    /// Makes the group of a new box and sets its limits. Look at [`BoxGroup::unenforced`] afterwards.
    pub fn create(&self, name: &str, limits: &Limits) -> Result<BoxGroup, CgroupError> {
        check_name(name)?;
        limits.check()?;
        let mut group = BoxGroup::new(name, self.missing.clone());
        for place in &self.places {
            let path = place.parent.join(name);
            match make_group(place, &path) {
                Ok(()) => group.dirs.push(GroupDir::new(place, path)),
                Err(Errno::EXIST) => {
                    group.remove()?;
                    return Err(CgroupError::AlreadyExists {
                        name: name.to_owned(),
                    });
                }
                Err(errno) => {
                    let reason = Reason::refused(&path, errno);
                    let missed = place.controllers.iter().map(|it| (*it, reason.clone()));
                    group.missing.extend(missed);
                }
            }
        }
        group.apply_new(limits);
        Ok(group)
    }

    /// Whether a process has to be born into its group, because moving it later costs milliseconds.
    pub fn needs_birth_inside(&self) -> bool {
        self.places.iter().any(|place| place.version == Version::V2)
    }

    /// The group that an earlier process made. Its limits hold on; which ones could not be set is not remembered.
    pub fn open_existing(&self, name: &str) -> Result<BoxGroup, CgroupError> {
        check_name(name)?;
        let mut group = BoxGroup::new(name, self.missing.clone());
        for place in &self.places {
            let path = place.parent.join(name);
            if path.is_dir() {
                group.dirs.push(GroupDir::new(place, path));
            }
        }
        // Where no group can be made, the box was made without one.
        if group.dirs.is_empty() && !self.places.is_empty() {
            return Err(CgroupError::NotFound {
                name: name.to_owned(),
            });
        }
        Ok(group)
    }

    /// The names of all boxes' groups, also of those that only some hierarchy still has.
    pub fn list(&self) -> Result<BTreeSet<String>, CgroupError> {
        let mut names = BTreeSet::new();
        for place in &self.places {
            for path in child_groups(&place.parent)? {
                // Names that we would not give are not ours to clean up.
                if let Some(name) = path.file_name().and_then(OsStr::to_str)
                    && check_name(name).is_ok()
                {
                    names.insert(name.to_owned());
                }
            }
        }
        Ok(names)
    }

    /// Removes the group of all boxes itself, where it is empty.
    pub fn remove_parent(&self) {
        for place in &self.places {
            // Not empty or gone already are both fine; it is only an empty directory.
            let _ = rustix::fs::rmdir(&place.parent);
        }
    }
}

/// The groups directly below one. A missing one has none.
pub(super) fn child_groups(group: &Path) -> Result<Vec<PathBuf>, CgroupError> {
    let failed = |source| CgroupError::Io {
        operation: "list",
        path: group.to_path_buf(),
        source,
    };
    let entries = match std::fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut groups = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            groups.push(entry.path());
        }
    }
    Ok(groups)
}

/// A name becomes a directory between the kernel's own files.
fn check_name(name: &str) -> Result<(), CgroupError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if name.is_empty()
        || name.len() > NAME_BYTES_MAX
        || name.starts_with('.')
        || !name.bytes().all(plain)
    {
        return Err(CgroupError::InvalidName {
            name: name.to_owned(),
        });
    }
    Ok(())
}

fn may_make_groups(group: &Path) -> bool {
    match mkdir(group, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => {
            let wanted = Access::WRITE_OK | Access::EXEC_OK;
            accessat(CWD, group, wanted, AtFlags::EACCESS).is_ok()
        }
        Err(_) => false,
    }
}

/// Makes a box's group, and the one of all boxes again if somebody cleaned it up.
fn make_group(place: &Place, path: &Path) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(0o755);
    match mkdir(path, mode) {
        Err(Errno::NOENT) => {}
        outcome => return outcome,
    }
    match mkdir(&place.parent, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    for controller in &place.controllers {
        // Refused now, its files will be missing in the box's group, and that is reported.
        drop(enable(place.version, &place.parent, *controller));
    }
    mkdir(path, mode)
}

/// On v2 a group has a controller only when all groups above hand it down.
fn enable(version: Version, parent: &Path, controller: Controller) -> Result<(), Reason> {
    let needed = match (version, controller) {
        (Version::V1, _) | (Version::V2, Controller::CpuAccount | Controller::Freezer) => {
            return Ok(());
        }
        (Version::V2, Controller::Memory | Controller::Cpu | Controller::Pids) => controller.name(),
    };
    let above = parent.parent().unwrap_or(parent);
    for group in [above, parent] {
        let file = group.join("cgroup.subtree_control");
        let enabled = std::fs::read_to_string(&file).unwrap_or_default();
        if enabled.split_ascii_whitespace().any(|name| name == needed) {
            continue;
        }
        write_knob(group, "cgroup.subtree_control", &format!("+{needed}"))
            .map_err(|errno| Reason::refused(&file, errno))?;
    }
    Ok(())
}

fn read_proc(path: &str) -> Result<String, CgroupError> {
    std::fs::read_to_string(path).map_err(|source| CgroupError::Io {
        operation: "read",
        path: PathBuf::from(path),
        source,
    })
}
