//! The seam between planned steps and the kernel.
//!
//! [`RealKernel`] performs each step with as few system calls as it takes, by file descriptor wherever
//! the kernel allows it: a place is resolved by `openat2` beneath the box's root, so that nothing a box
//! left behind (a symbolic link in a kept upper layer, say) can move a mount elsewhere.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, OpenTreeFlags, UnmountFlags,
};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::seccomp::{Filters, Profile};
use crate::step::{
    Access, Capability, DescriptorIndex, Devices, Filesystem, Groups, OverlayOptions, Owner,
    RootMount, TranslatedLayers, UpperLayer, capability_set,
};
use crate::{mounts, sys};

/// What a step may ask of the kernel. Implemented by [`RealKernel`] and by the tests' recorder.
pub(crate) trait Kernel {
    fn make_mounts_private(&mut self) -> io::Result<()>;
    fn mount_root(&mut self, root: &RootMount) -> io::Result<()>;
    fn make_directory(&mut self, place: &Path, mode: u32, owner: Option<Owner>) -> io::Result<()>;
    fn symlink(&mut self, place: &Path, target: &Path) -> io::Result<()>;
    fn mount_overlay(
        &mut self,
        place: &Path,
        lower: &[std::path::PathBuf],
        upper: Option<&UpperLayer>,
        options: OverlayOptions,
    ) -> io::Result<()>;
    fn bind_mount(
        &mut self,
        source: &Path,
        place: &Path,
        access: Access,
        devices: Devices,
        owners: Option<DescriptorIndex>,
    ) -> io::Result<()>;
    fn make_device(&mut self, place: &Path) -> io::Result<()>;
    fn attach_mount(&mut self, mount: DescriptorIndex, place: &Path) -> io::Result<()>;
    fn mount(&mut self, place: &Path, filesystem: &Filesystem) -> io::Result<()>;
    fn mask(&mut self, place: &Path) -> io::Result<()>;
    fn bring_up_loopback(&mut self) -> io::Result<()>;
    fn allow_low_ports(&mut self) -> io::Result<()>;
    fn set_hostname(&mut self, name: &str) -> io::Result<()>;
    fn join_control_groups(&mut self, tasks: &[DescriptorIndex]) -> io::Result<()>;
    fn new_cgroup_namespace(&mut self) -> io::Result<()>;
    fn enter_root(&mut self) -> io::Result<()>;
    fn enter_user_namespace(&mut self, descriptor: DescriptorIndex) -> io::Result<()>;
    fn become_user(&mut self, uid: u32, gid: u32, groups: Groups) -> io::Result<()>;
    fn limit_processes(&mut self, count_max: u64) -> io::Result<()>;
    fn keep_capabilities(&mut self, keep: &[Capability], commands: &[Capability])
    -> io::Result<()>;
    fn no_new_privileges(&mut self) -> io::Result<()>;
    fn hide_from_box(&mut self) -> io::Result<()>;
    fn die_with_spawner(&mut self) -> io::Result<()>;
    fn install_seccomp(&mut self, profile: Profile) -> io::Result<()>;
}

/// Speaks to the kernel of this machine, for the one box that the calling process becomes.
#[derive(Debug, Default)]
pub(crate) struct RealKernel {
    descriptors: Vec<OwnedFd>,
    root: Option<OwnedFd>,
    maker: Option<Owner>,
}

impl RealKernel {
    /// Replaces the descriptors that the next steps refer to by index.
    pub(crate) fn hold(&mut self, descriptors: Vec<OwnedFd>) {
        self.descriptors = descriptors;
    }

    /// Closes what the steps needed, so that no command can inherit it.
    pub(crate) fn release(&mut self) {
        self.descriptors.clear();
        self.root = None;
    }

    fn descriptor(&self, index: DescriptorIndex) -> io::Result<BorrowedFd<'_>> {
        self.descriptors
            .get(index)
            .map(AsFd::as_fd)
            .ok_or_else(|| io::Error::other("a step refers to a descriptor that was not sent"))
    }

    fn root(&self) -> io::Result<BorrowedFd<'_>> {
        self.root
            .as_ref()
            .map(AsFd::as_fd)
            .ok_or_else(|| io::Error::other("a step needs the box's root before it is mounted"))
    }

    /// Opens a place beneath the box's root without ever leaving it.
    fn open_place(&self, place: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat2(
            self.root()?,
            place,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        )?)
    }

    /// Opens a folder of the box, making what is missing on the way to it.
    fn open_or_make_directory(&self, place: &Path) -> io::Result<OwnedFd> {
        let directory = OFlags::PATH | OFlags::DIRECTORY;
        match self.open_place(place, directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let mut at = self.open_place(Path::new("/"), directory)?;
        let mut walked = std::path::PathBuf::from("/");
        for part in place.components() {
            let Component::Normal(name) = part else {
                continue;
            };
            let is_new = match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                Ok(()) => true,
                Err(rustix::io::Errno::EXIST) => false,
                Err(error) => return Err(error.into()),
            };
            walked.push(name);
            at = self.open_place(&walked, directory)?;
            if let (true, Some(owner)) = (is_new, self.maker) {
                give(&at, owner)?;
            }
        }
        Ok(at)
    }

    /// Hangs a mount over a folder or file of the box, making it if it is missing.
    fn attach(&self, mount: &OwnedFd, place: &Path) -> io::Result<()> {
        let target = if mounts::is_folder(mount)? {
            self.open_or_make_directory(place)?
        } else {
            self.open_or_make_file(place)?
        };
        mounts::attach(mount, &target)
    }

    /// Opens the target of a bind mount of a file, making an empty file if there is none.
    fn open_or_make_file(&self, place: &Path) -> io::Result<OwnedFd> {
        match self.open_place(place, OFlags::PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let parent = self.open_or_make_directory(parent)?;
        rustix::fs::openat(
            &parent,
            name,
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY,
            Mode::from_raw_mode(0o644),
        )?;
        self.open_place(place, OFlags::PATH)
    }
}

/// Changes the owner of an open folder; a descriptor that only names it will do.
fn give(folder: &OwnedFd, owner: Owner) -> io::Result<()> {
    Ok(rustix::fs::chownat(
        folder,
        c"",
        Some(rustix::fs::Uid::from_raw(owner.uid)),
        Some(rustix::fs::Gid::from_raw(owner.gid)),
        AtFlags::EMPTY_PATH,
    )?)
}

impl Kernel for RealKernel {
    fn make_mounts_private(&mut self) -> io::Result<()> {
        let all = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        Ok(rustix::mount::mount_change(c"/", all)?)
    }

    fn mount_root(&mut self, root: &RootMount) -> io::Result<()> {
        let translated = match &root.translated {
            Some(TranslatedLayers { layers, owners }) => {
                mounts::translated_layers(&root.at, layers, self.descriptor(*owners)?)?
            }
            None => Vec::new(),
        };
        let overlay = mounts::overlay(&root.lower, &translated, Some(&root.upper), root.options)?;
        // The mount's own descriptor stays: another of the same path means the folder below the mount.
        mounts::attach(&overlay, &mounts::open_folder(&root.at)?)?;
        self.root = Some(overlay);
        self.maker = root.maker;
        Ok(())
    }

    fn make_directory(&mut self, place: &Path, mode: u32, owner: Option<Owner>) -> io::Result<()> {
        self.open_or_make_directory(place)?;
        let directory = self.open_place(place, OFlags::RDONLY | OFlags::DIRECTORY)?;
        if let Some(owner) = owner {
            give(&directory, owner)?;
        }
        Ok(rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode))?)
    }

    fn symlink(&mut self, place: &Path, target: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let parent = self.open_or_make_directory(parent)?;
        match rustix::fs::symlinkat(target, &parent, name) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn mount_overlay(
        &mut self,
        place: &Path,
        lower: &[std::path::PathBuf],
        upper: Option<&UpperLayer>,
        options: OverlayOptions,
    ) -> io::Result<()> {
        let overlay = mounts::overlay(lower, &[], upper, options)?;
        let target = self.open_or_make_directory(place)?;
        mounts::attach(&overlay, &target)
    }

    fn bind_mount(
        &mut self,
        source: &Path,
        place: &Path,
        access: Access,
        devices: Devices,
        owners: Option<DescriptorIndex>,
    ) -> io::Result<()> {
        let owners = owners.map(|index| self.descriptor(index)).transpose()?;
        let mount = mounts::bind(source, access, devices, owners)?;
        self.attach(&mount, place)
    }

    fn make_device(&mut self, place: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let on_host = rustix::fs::stat(place)?;
        let folder = self.open_or_make_directory(parent)?;
        let mode = Mode::from_raw_mode(0o666);
        match rustix::fs::mknodat(
            &folder,
            name,
            FileType::CharacterDevice,
            mode,
            on_host.st_rdev,
        ) {
            Ok(()) => Ok(rustix::fs::chmodat(&folder, name, mode, AtFlags::empty())?),
            // Only the machine's own root may make one.
            Err(rustix::io::Errno::PERM) => {
                let mount = mounts::bind(place, Access::ReadWrite, Devices::Usable, None)?;
                self.attach(&mount, place)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn attach_mount(&mut self, mount: DescriptorIndex, place: &Path) -> io::Result<()> {
        let mount = self.descriptor(mount)?.try_clone_to_owned()?;
        self.attach(&mount, place)
    }

    fn mount(&mut self, place: &Path, filesystem: &Filesystem) -> io::Result<()> {
        let (name, extra) = match filesystem {
            Filesystem::Tmpfs {
                devices: Devices::Hidden,
                ..
            } => (c"tmpfs", MountAttrFlags::MOUNT_ATTR_NODEV),
            Filesystem::Tmpfs {
                devices: Devices::Usable,
                ..
            } => (c"tmpfs", MountAttrFlags::MOUNT_ATTR_NOEXEC),
            Filesystem::Proc => (
                c"proc",
                MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC,
            ),
            Filesystem::Devpts { .. } => (c"devpts", MountAttrFlags::MOUNT_ATTR_NOEXEC),
        };
        let context = rustix::mount::fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC)?;
        match filesystem {
            Filesystem::Tmpfs { mode, owner, .. } => {
                let mode = format!("{mode:o}");
                rustix::mount::fsconfig_set_string(&context, c"mode", mode.as_str())?;
                mounts::set_owner(&context, *owner)?;
            }
            Filesystem::Proc => {}
            Filesystem::Devpts { owner } => {
                mounts::set_owner(&context, *owner)?;
                rustix::mount::fsconfig_set_string(&context, c"mode", c"620")?;
                rustix::mount::fsconfig_set_string(&context, c"ptmxmode", c"666")?;
            }
        }
        rustix::mount::fsconfig_create(&context)?;
        let mount = rustix::mount::fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            extra | MountAttrFlags::MOUNT_ATTR_NOSUID,
        )?;
        let target = self.open_or_make_directory(place)?;
        mounts::attach(&mount, &target)
    }

    fn mask(&mut self, place: &Path) -> io::Result<()> {
        let target = match self.open_place(place, OFlags::PATH) {
            Ok(target) => target,
            // A kernel built without the file has nothing to hide.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let null = rustix::mount::open_tree(
            CWD,
            c"/dev/null",
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
        )?;
        sys::set_mount_attributes(
            null.as_fd(),
            libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC,
        )?;
        mounts::attach(&null, &target)
    }

    fn bring_up_loopback(&mut self) -> io::Result<()> {
        sys::bring_up_loopback()
    }

    fn allow_low_ports(&mut self) -> io::Result<()> {
        // The kernel means the network namespace of the writer, whatever /proc this is.
        std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
    }

    fn set_hostname(&mut self, name: &str) -> io::Result<()> {
        Ok(rustix::system::sethostname(name.as_bytes())?)
    }

    fn join_control_groups(&mut self, tasks: &[DescriptorIndex]) -> io::Result<()> {
        for &index in tasks {
            // "0" is the writer itself, and `tasks` moves one thread: the kernel then skips the lock
            // whose first taker waits 6 to 15 ms for an RCU grace period.
            rustix::io::write(self.descriptor(index)?, b"0")?;
        }
        Ok(())
    }

    fn new_cgroup_namespace(&mut self) -> io::Result<()> {
        sys::unshare(libc::CLONE_NEWCGROUP)
    }

    fn enter_root(&mut self) -> io::Result<()> {
        rustix::process::fchdir(self.root()?)?;
        rustix::process::pivot_root(c".", c".")?;
        // The old root now lies over the new one; taking it off leaves the box alone with its own.
        rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
        Ok(rustix::process::chdir(c"/")?)
    }

    fn enter_user_namespace(&mut self, descriptor: DescriptorIndex) -> io::Result<()> {
        let namespace = self.descriptor(descriptor)?;
        Ok(rustix::thread::move_into_link_name_space(
            namespace,
            Some(rustix::thread::LinkNameSpaceType::User),
        )?)
    }

    fn become_user(&mut self, uid: u32, gid: u32, groups: Groups) -> io::Result<()> {
        match groups {
            Groups::Drop => rustix::thread::set_thread_groups(&[])?,
            Groups::Keep => {}
        }
        let (uid, gid) = (
            rustix::process::Uid::from_raw(uid),
            rustix::process::Gid::from_raw(gid),
        );
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
    }

    fn limit_processes(&mut self, count_max: u64) -> io::Result<()> {
        let limit = rustix::process::Rlimit {
            current: Some(count_max),
            maximum: Some(count_max),
        };
        Ok(rustix::process::setrlimit(
            rustix::process::Resource::Nproc,
            limit,
        )?)
    }

    fn keep_capabilities(
        &mut self,
        keep: &[Capability],
        commands: &[Capability],
    ) -> io::Result<()> {
        let (keep, commands) = (capability_set(keep), capability_set(commands));
        // Init keeps what it holds; the bounding set only decides what an execve may bring.
        sys::limit_bounding_set(commands)?;
        rustix::thread::clear_ambient_capability_set()?;
        let sets = CapabilitySets {
            effective: keep,
            // Forbidden new privileges, an execve gives only what was permitted before it.
            permitted: keep | commands,
            inheritable: CapabilitySet::empty(),
        };
        Ok(rustix::thread::set_capabilities(None, sets)?)
    }

    fn no_new_privileges(&mut self) -> io::Result<()> {
        Ok(rustix::thread::set_no_new_privs(true)?)
    }

    fn hide_from_box(&mut self) -> io::Result<()> {
        use rustix::process::DumpableBehavior;
        Ok(rustix::process::set_dumpable_behavior(
            DumpableBehavior::NotDumpable,
        )?)
    }

    fn die_with_spawner(&mut self) -> io::Result<()> {
        let signal = rustix::process::Signal::KILL;
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        Ok(())
    }

    fn install_seccomp(&mut self, profile: Profile) -> io::Result<()> {
        Filters::prepared(profile)
            .and_then(Filters::install)
            .map_err(io::Error::other)
    }
}
