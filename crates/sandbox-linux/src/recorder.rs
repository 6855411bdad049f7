//! A kernel that performs nothing and writes down what it was asked, one line per call.

use std::io;
use std::path::{Path, PathBuf};

use crate::kernel::Kernel;
use crate::seccomp::Profile;
use crate::step::{
    Access, Capability, DescriptorIndex, Devices, Durability, Filesystem, Groups, OverlayMarks,
    OverlayOptions, Owner, RootMount, Step, TranslatedLayers, UpperLayer,
};

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) lines: Vec<String>,
}

impl Recorder {
    /// What `steps` ask of the kernel.
    pub(crate) fn play(steps: &[Step]) -> Vec<String> {
        let mut recorder = Self::default();
        for step in steps {
            step.perform(&mut recorder).unwrap();
        }
        assert_eq!(recorder.lines.len(), steps.len());
        recorder.lines
    }

    fn note(&mut self, line: impl Into<String>) -> io::Result<()> {
        self.lines.push(line.into());
        Ok(())
    }
}

fn layers(
    lower: &[PathBuf],
    translated: Option<&TranslatedLayers>,
    upper: Option<&UpperLayer>,
    options: OverlayOptions,
) -> String {
    let mut lower: Vec<String> = lower
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if let Some(TranslatedLayers { layers, owners }) = translated {
        let through = |path: &PathBuf| format!("{} through #{owners}", path.display());
        lower.extend(layers.iter().map(through));
    }
    let marks = match options.marks {
        OverlayMarks::Trusted => "trusted",
        OverlayMarks::User => "user",
    };
    let upper = match (upper, options.durability) {
        (None, _) => "read-only".to_owned(),
        (Some(layer), Durability::Volatile) => format!("volatile {}", layer.upper.display()),
        (Some(layer), Durability::Durable) => format!("durable {}", layer.upper.display()),
    };
    format!("{} <- {upper}, {marks} marks", lower.join(" <- "))
}

fn owned(owner: Option<Owner>) -> String {
    owner.map_or(String::new(), |Owner { uid, gid }| {
        format!(" for {uid}:{gid}")
    })
}

impl Kernel for Recorder {
    fn make_mounts_private(&mut self) -> io::Result<()> {
        self.note("private mounts")
    }

    fn mount_root(&mut self, root: &RootMount) -> io::Result<()> {
        let translated = root.translated.as_ref();
        let layers = layers(&root.lower, translated, Some(&root.upper), root.options);
        self.note(format!(
            "root at {}: {layers}{}",
            root.at.display(),
            root.maker.map_or(String::new(), |maker| format!(
                ", folders{}",
                owned(Some(maker))
            ))
        ))
    }

    fn make_directory(&mut self, place: &Path, mode: u32, owner: Option<Owner>) -> io::Result<()> {
        self.note(format!(
            "folder {} {mode:o}{}",
            place.display(),
            owned(owner)
        ))
    }

    fn symlink(&mut self, place: &Path, target: &Path) -> io::Result<()> {
        self.note(format!("link {} -> {}", place.display(), target.display()))
    }

    fn mount_overlay(
        &mut self,
        place: &Path,
        lower: &[PathBuf],
        upper: Option<&UpperLayer>,
        options: OverlayOptions,
    ) -> io::Result<()> {
        let layers = layers(lower, None, upper, options);
        self.note(format!("overlay {}: {layers}", place.display()))
    }

    fn bind_mount(
        &mut self,
        source: &Path,
        place: &Path,
        access: Access,
        devices: Devices,
        owners: Option<DescriptorIndex>,
    ) -> io::Result<()> {
        let access = match access {
            Access::ReadOnly => "ro",
            Access::ReadWrite => "rw",
        };
        let devices = match devices {
            Devices::Hidden => "",
            Devices::Usable => " with devices",
        };
        let owners = owners.map_or(String::new(), |index| format!(" owners #{index}"));
        self.note(format!(
            "bind {} <- {} {access}{devices}{owners}",
            place.display(),
            source.display()
        ))
    }

    fn make_device(&mut self, place: &Path) -> io::Result<()> {
        self.note(format!("device {}", place.display()))
    }

    fn attach_mount(&mut self, mount: DescriptorIndex, place: &Path) -> io::Result<()> {
        self.note(format!("attach {} <- #{mount}", place.display()))
    }

    fn mount(&mut self, place: &Path, filesystem: &Filesystem) -> io::Result<()> {
        let filesystem = match filesystem {
            Filesystem::Tmpfs {
                mode,
                devices,
                owner,
            } => {
                let devices = match devices {
                    Devices::Hidden => "",
                    Devices::Usable => " with devices",
                };
                format!("tmpfs {mode:o}{devices}{}", owned(*owner))
            }
            Filesystem::Proc => "proc".into(),
            Filesystem::Devpts { owner } => format!("devpts{}", owned(*owner)),
        };
        self.note(format!("mount {}: {filesystem}", place.display()))
    }

    fn mask(&mut self, place: &Path) -> io::Result<()> {
        self.note(format!("mask {}", place.display()))
    }

    fn allow_low_ports(&mut self) -> io::Result<()> {
        self.note("low ports for everybody")
    }

    fn bring_up_loopback(&mut self) -> io::Result<()> {
        self.note("loopback up")
    }

    fn set_hostname(&mut self, name: &str) -> io::Result<()> {
        self.note(format!("host name {name}"))
    }

    fn join_control_groups(&mut self, tasks: &[DescriptorIndex]) -> io::Result<()> {
        self.note(format!("join control groups {tasks:?}"))
    }

    fn new_cgroup_namespace(&mut self) -> io::Result<()> {
        self.note("new cgroup namespace")
    }

    fn enter_root(&mut self) -> io::Result<()> {
        self.note("enter root")
    }

    fn enter_user_namespace(&mut self, descriptor: DescriptorIndex) -> io::Result<()> {
        self.note(format!("enter user namespace #{descriptor}"))
    }

    fn become_user(&mut self, uid: u32, gid: u32, groups: Groups) -> io::Result<()> {
        let groups = match groups {
            Groups::Drop => "without groups",
            Groups::Keep => "with its groups",
        };
        self.note(format!("become {uid}:{gid} {groups}"))
    }

    fn limit_processes(&mut self, count_max: u64) -> io::Result<()> {
        self.note(format!("limit processes to {count_max}"))
    }

    fn keep_capabilities(
        &mut self,
        keep: &[Capability],
        commands: &[Capability],
    ) -> io::Result<()> {
        let commands = match commands {
            [] => String::new(),
            commands => format!(", for root's commands {commands:?}"),
        };
        self.note(format!("keep capabilities {keep:?}{commands}"))
    }

    fn no_new_privileges(&mut self) -> io::Result<()> {
        self.note("no new privileges")
    }

    fn hide_from_box(&mut self) -> io::Result<()> {
        self.note("hide init")
    }

    fn die_with_spawner(&mut self) -> io::Result<()> {
        self.note("die with spawner")
    }

    fn install_seccomp(&mut self, profile: Profile) -> io::Result<()> {
        self.note(format!("seccomp {profile:?}"))
    }
}
