//! Gives up privileges: all of the process that decodes, before it reads the first record, and those of the prober that it does
//! not need.

use std::io;

use crate::prober::are_probes_refused;
use rustix::process::{Gid, Resource, Rlimit, Uid, geteuid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// A user and its group, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserIdentity {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
}

/// Returns whether this process is root's.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Gives up all capabilities for good, and becomes another user, for which the process must be root's. The system calls affect
/// the calling thread only, so it must be the only one.
///
/// # Errors
/// If the process has other threads, or the system refuses a step.
pub fn drop_privileges(become_user: Option<UserIdentity>) -> io::Result<()> {
    check_single_thread()?;
    let none = CapabilitySet::empty();
    limit_bounding_set(none, capabilities(None)?.permitted);
    if let Some(UserIdentity { user, group }) = become_user {
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        set_thread_groups(&[group])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
    }
    keep_capabilities(none)
}

/// Keeps only the capabilities that a prober needs, and raises the limit of locked memory, in which kernels before 5.11 count
/// maps. The process must have one thread only.
///
/// # Errors
/// If the process has other threads, or the system refuses a step.
pub fn limit_prober_privileges() -> io::Result<()> {
    check_single_thread()?;
    // If it is refused, the kernel may have enough, or does not count.
    let _ = setrlimit(
        Resource::Memlock,
        Rlimit {
            current: None,
            maximum: None,
        },
    );
    let held = capabilities(None)?.permitted;
    let special = prober_capabilities(held);
    set_capabilities(
        None,
        CapabilitySets {
            effective: special,
            permitted: held,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    let kept = match are_probes_refused() {
        true => special | held & CapabilitySet::SYS_ADMIN,
        false => special,
    };
    limit_bounding_set(kept, held);
    keep_capabilities(kept)
}

/// Returns those of the held capabilities that load programs, attach probes, and read the files of the server's process.
fn prober_capabilities(held: CapabilitySet) -> CapabilitySet {
    let load = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let read = CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH;
    // It includes the first two.
    let instead = match held.contains(load) {
        true => CapabilitySet::empty(),
        false => CapabilitySet::SYS_ADMIN,
    };
    held & (load | read | instead)
}

fn check_single_thread() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(io::Error::other("other threads would keep the privileges")),
    }
}

/// Limits the capabilities that can ever be gained. Only a holder of CAP_SETPCAP may do this. `no_new_privs` makes the set
/// meaningless for others.
fn limit_bounding_set(kept: CapabilitySet, permitted: CapabilitySet) {
    let _ = set_capabilities(
        None,
        CapabilitySets {
            effective: permitted,
            permitted,
            inheritable: CapabilitySet::empty(),
        },
    );
    for capability in (CapabilitySet::all() - kept).iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
}

fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(set_no_new_privs(true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prober_keeps_the_general_capability_only_without_the_special_ones() {
        let load = CapabilitySet::BPF | CapabilitySet::PERFMON;
        let read = CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH;
        assert_eq!(prober_capabilities(CapabilitySet::all()), load | read);
        assert_eq!(prober_capabilities(load), load);
        let old = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
        assert_eq!(prober_capabilities(old), CapabilitySet::SYS_ADMIN);
    }
}
