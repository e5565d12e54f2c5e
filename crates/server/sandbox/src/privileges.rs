//! Chooses the user that a server runs as, since PostgreSQL refuses to run as root, and checks that user's
//! access.

use crate::error::{Error, ErrorContext, Result};
use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// User that the server's programs run as.
#[derive(Clone, Debug)]
pub(crate) struct RunAs(Option<User>);

#[derive(Clone, Debug)]
struct User {
    name: &'static str,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

impl RunAs {
    /// Chooses the current user; for root `postgres`, otherwise `nobody`.
    pub(crate) fn decide() -> Result<Self> {
        if !is_root() {
            return Ok(Self(None));
        }
        ["postgres", "nobody"]
            .into_iter()
            .find_map(look_up)
            .map(|user| Self(Some(user)))
            .ok_or(Error::NoUser)
    }

    /// Makes the command's process run as that user, in a separate session (so that a Ctrl-C for this program
    /// does not reach it), and create files that only that user can read.
    pub(crate) fn apply(&self, command: &mut Command) {
        let ids = self.0.as_ref().map(|user| (user.uid, user.gid));
        let become_user = move || {
            // SAFETY: all of these are async-signal-safe, and the pointer is to a live local.
            unsafe {
                libc::setsid();
                libc::umask(0o077);
                if let Some((uid, gid)) = ids {
                    // The order matters: the groups must be set while the process still has the permission.
                    if libc::setgroups(1, &gid) != 0
                        || libc::setgid(gid) != 0
                        || libc::setuid(uid) != 0
                    {
                        return Err(io::Error::last_os_error());
                    }
                }
            }
            Ok(())
        };
        // SAFETY: the closure neither allocates nor takes locks, see above.
        unsafe { command.pre_exec(become_user) };
    }

    /// Changes the owner of a file or directory to that user.
    pub(crate) fn change_owner(&self, path: &Path) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(user) => std::os::unix::fs::lchown(path, Some(user.uid), Some(user.gid))
                .context("change the owner of", path),
        }
    }

    /// Refuses a path that the user cannot access, and names the directory that is not accessible.
    pub(crate) fn check_reaches(&self, wanted: &Path) -> Result<()> {
        let Some(user) = &self.0 else { return Ok(()) };
        let real = wanted.canonicalize().context("find", wanted)?;
        // From the root down: the outermost inaccessible directory is reported.
        let mut above: Vec<&Path> = real.ancestors().collect();
        above.reverse();
        for dir in above {
            let meta = dir.metadata().context("look at", dir)?;
            let may_enter = if meta.uid() == user.uid {
                0o100
            } else if meta.gid() == user.gid {
                0o010
            } else {
                0o001
            };
            if meta.is_dir() && meta.mode() & may_enter == 0 {
                return Err(Error::Unreachable {
                    wanted: wanted.to_owned(),
                    closed: dir.to_owned(),
                    user: user.name.to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn look_up(name: &'static str) -> Option<User> {
    let c_name = CString::new(name).ok()?;
    let mut buffer = vec![0; 16 * 1024];
    // SAFETY: passwd is plain data, for which all zeroes is a value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to live locals, and the length is the buffer's.
    let failed = unsafe {
        libc::getpwnam_r(
            c_name.as_ptr(),
            &mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &mut found,
        )
    };
    // A name service may map a name to root, which is useless here.
    (failed == 0 && !found.is_null() && entry.pw_uid != 0).then_some(User {
        name,
        uid: entry.pw_uid,
        gid: entry.pw_gid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_closed_directory_is_named() {
        let top = tempfile::tempdir_in("/tmp").unwrap();
        let closed = top.path().join("closed");
        let wanted = closed.join("bin");
        std::fs::create_dir_all(&wanted).unwrap();
        let mode = |dir: &Path, mode| {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(top.path(), 0o755);
        mode(&wanted, 0o755);
        // A user that owns nothing here.
        let run_as = RunAs(Some(User {
            name: "somebody",
            uid: 4_000_000,
            gid: 4_000_000,
        }));

        mode(&closed, 0o755);
        run_as.check_reaches(&wanted).unwrap();

        mode(&closed, 0o700);
        match run_as.check_reaches(&wanted) {
            Err(Error::Unreachable { closed: named, .. }) => {
                assert_eq!(named, closed.canonicalize().unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
}
