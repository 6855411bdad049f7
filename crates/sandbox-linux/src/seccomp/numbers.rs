//! System call numbers that `libc` does not name, or not for every target.
#![expect(non_upper_case_globals, reason = "named like their neighbours in libc")]

use libc::c_long;

pub(super) const SYS_cachestat: c_long = 451;
pub(super) const SYS_fchmodat2: c_long = 452;
pub(super) const SYS_map_shadow_stack: c_long = 453;
pub(super) const SYS_futex_wake: c_long = 454;
pub(super) const SYS_futex_wait: c_long = 455;
pub(super) const SYS_futex_requeue: c_long = 456;
pub(super) const SYS_setxattrat: c_long = 463;
pub(super) const SYS_getxattrat: c_long = 464;
pub(super) const SYS_listxattrat: c_long = 465;
pub(super) const SYS_removexattrat: c_long = 466;
pub(super) const SYS_open_tree_attr: c_long = 467;
pub(super) const SYS_file_getattr: c_long = 468;
pub(super) const SYS_file_setattr: c_long = 469;

#[cfg(target_arch = "x86_64")]
mod machine {
    use libc::c_long;

    pub(in super::super) const SYS_renameat: c_long = 264;
    pub(in super::super) const SYS_sync_file_range: c_long = 277;
    pub(in super::super) const SYS_kexec_file_load: c_long = 320;
    pub(in super::super) const SYS_io_pgetevents: c_long = 333;
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use libc::c_long;

    pub(in super::super) const SYS_renameat: c_long = 38;
    pub(in super::super) const SYS_sync_file_range: c_long = 84;
    pub(in super::super) const SYS_kexec_file_load: c_long = 294;
    pub(in super::super) const SYS_io_pgetevents: c_long = 292;
}

pub(super) use machine::{
    SYS_io_pgetevents, SYS_kexec_file_load, SYS_renameat, SYS_sync_file_range,
};
