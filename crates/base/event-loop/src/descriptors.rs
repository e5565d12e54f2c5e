//! Room for connections: each is an open file of this process, and systems allow few at first.

use std::io;

/// Files that are open beside connections: the run, the workload, the threads' own.
const BESIDE: u64 = 128;

/// Raises how many files this process may have open to what so many connections need. Returns the
/// most connections that there is room for where that is less.
///
/// # Errors
/// Where the system does not tell.
pub fn make_room(connections: u64) -> io::Result<Option<u64>> {
    let needed = connections + BESIDE;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is plain, and filled in by the call.
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
    Ok((limit.rlim_cur < needed).then(|| limit.rlim_cur.saturating_sub(BESIDE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_some_and_not_for_all_there_could_be() {
        assert_eq!(make_room(10).unwrap(), None);
        assert!(make_room(1 << 40).unwrap().is_some_and(|room| room >= 10));
    }
}
