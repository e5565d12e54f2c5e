//! Gives up the privileges of the process that decodes, before it reads the first record.

use std::io;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// Account of a process after it gave up its privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemainingIdentity {
    /// User.
    pub user: u32,
    /// Whether it was that of `SUDO_UID`, not of the process.
    pub is_of_sudo: bool,
}

/// Gives up all capabilities for good. If the process is root's and `SUDO_UID` and `SUDO_GID` name another user, it becomes
/// that user's. The system calls affect the calling thread only, so it must be the only one.
///
/// # Errors
/// If the process has other threads, or the system refuses a step.
pub fn drop_privileges(sudo: Option<(u32, u32)>) -> io::Result<RemainingIdentity> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads would keep the privileges"));
    }
    let sudo = sudo.filter(|(user, _)| *user != 0 && geteuid().is_root());
    // Only a holder of CAP_SETPCAP may do this. The setting below makes the set meaningless for others.
    for capability in CapabilitySet::all().iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    if let Some((user, group)) = sudo {
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        set_thread_groups(&[group])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    set_no_new_privs(true)?;
    Ok(RemainingIdentity {
        user: geteuid().as_raw(),
        is_of_sudo: sudo.is_some(),
    })
}
