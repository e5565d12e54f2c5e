//! Raises the limit of open files, of which each connection is one.

use std::io;

/// Number of open files other than connections: the run, the workload, and descriptors of the threads.
pub const OTHER_FILES: u64 = 128;

/// Raises the limit of open files to that of `connections` connections. Returns the maximum number of
/// connections if it is less.
///
/// # Errors
/// If the limit cannot be read.
pub fn raise_fd_limit(connections: u64) -> io::Result<Option<u64>> {
    let needed = connections + OTHER_FILES;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is plain data that the call fills in.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < needed {
        limit.rlim_cur = needed.min(limit.rlim_max);
        // SAFETY: the structure was filled in above, and is read only.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok((limit.rlim_cur < needed).then(|| limit.rlim_cur.saturating_sub(OTHER_FILES)))
}

/// Returns the limit of the process's address space in bytes (`ulimit -v`); `None` if there is none.
///
/// # Errors
/// If the limit cannot be read.
pub fn address_space_limit() -> io::Result<Option<u64>> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is plain data that the call fills in.
    if unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_some_and_not_for_all_there_could_be() {
        assert_eq!(raise_fd_limit(10).unwrap(), None);
        assert!(
            raise_fd_limit(1 << 40)
                .unwrap()
                .is_some_and(|room| room >= 10)
        );
    }
}
