//! Chooses the user that a server runs as, since PostgreSQL refuses to run as root, and checks that user's
//! access.

use crate::error::{Error, ErrorContext, Result};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// System user of root's sandboxes. It owns nothing else, so that a superuser of a sandbox gains nothing.
const USER: &str = "rehearse-sandbox";
/// Variable that names another system user.
pub(crate) const USER_VARIABLE: &str = "REHEARSE_SANDBOX_USER";
/// Maximum attempts to create the user, since other processes may hold the lock of the user database.
const ATTEMPTS: u32 = 40;

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// User that the server's programs run as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunAs(Option<User>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct User {
    name: String,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

/// Returns the number of the user that new servers run as.
///
/// # Errors
/// If root starts them, and their system user neither exists nor can be created.
pub fn server_uid() -> Result<u32> {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let own = unsafe { libc::geteuid() };
    Ok(RunAs::decide()?.0.map_or(own, |user| user.uid))
}

impl RunAs {
    /// Chooses the current user; for root a system user that owns nothing else, which is created once.
    pub(crate) fn decide() -> Result<Self> {
        if !is_root() {
            return Ok(Self(None));
        }
        let named = std::env::var(USER_VARIABLE).ok();
        let user = match named.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => look_up(name).ok_or_else(|| Error::NoUser {
                user: name.to_owned(),
                why: "there is no such user, or it is root".to_owned(),
            })?,
            None => own_user()?,
        };
        Ok(Self(Some(user)))
    }

    /// Returns the owner of a directory. A sandbox of an earlier version did not record its user.
    pub(crate) fn owner(dir: &Path) -> Result<Self> {
        if !is_root() {
            return Ok(Self(None));
        }
        let meta = dir.metadata().context("look at", dir)?;
        Ok(Self(Some(User {
            name: meta.uid().to_string(),
            uid: meta.uid(),
            gid: meta.gid(),
        })))
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

    /// Lets that user enter a directory of root, and no other user.
    pub(crate) fn admit(&self, dir: &Path) -> Result<()> {
        let mode = match &self.0 {
            None => 0o700,
            Some(user) => {
                std::os::unix::fs::chown(dir, None, Some(user.gid))
                    .context("change the group of", dir)?;
                0o710
            }
        };
        std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(mode))
            .context("set the permissions of", dir)
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
                    user: user.name.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Finds the system user of sandboxes, or creates it.
fn own_user() -> Result<User> {
    let mut why = String::new();
    for _ in 0..ATTEMPTS {
        if let Some(user) = look_up(USER) {
            return Ok(user);
        }
        match create_user() {
            Ok(()) => {}
            Err(Creation::NoProgram) => {
                why = "this machine has neither useradd nor adduser".to_owned();
                break;
            }
            // Another process may be creating it.
            Err(Creation::Refused(said)) => {
                why = said;
                sleep(Duration::from_millis(100));
            }
        }
    }
    look_up(USER).ok_or_else(|| Error::NoUser {
        user: USER.to_owned(),
        why,
    })
}

/// Reason why the system user was not created.
enum Creation {
    NoProgram,
    Refused(String),
}

/// Creates the system user and its group, with `useradd` or the commands of BusyBox.
fn create_user() -> Result<(), Creation> {
    const SHELL: &str = "/sbin/nologin";
    const HOME: &str = "/nonexistent";
    let flags = ["--system", "--user-group", "--no-create-home"];
    let places = ["--home-dir", HOME, "--shell", SHELL, USER];
    let useradd = [&flags[..], &places[..]].concat();
    match run("useradd", &useradd) {
        Err(Creation::NoProgram) => {
            run("addgroup", &["-S", USER])?;
            let arguments = ["-S", "-D", "-H", "-h", HOME, "-s", SHELL, "-G", USER, USER];
            run("adduser", &arguments)
        }
        other => other,
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), Creation> {
    let sbin = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", &sbin)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Creation::NoProgram,
            _ => Creation::Refused(format!("{program}: {error}")),
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Creation::Refused(format!("{program}: {}", said.trim())))
}

/// Returns the numbers of a system user and of its group; `None` for root, and if there is no such user.
pub fn user_and_group(name: &str) -> Option<(u32, u32)> {
    look_up(name).map(|user| (user.uid, user.gid))
}

/// Returns the number of a user's primary group; `None` if there is no such user.
pub fn group_of_user(user: u32) -> Option<u32> {
    // SAFETY: all pointers are to live memory, and the length is the buffer's.
    let entry = look_up_entry(|entry, buffer, length, found| unsafe {
        libc::getpwuid_r(user, entry, buffer, length, found)
    });
    entry.map(|entry| entry.pw_gid)
}

fn look_up(name: &str) -> Option<User> {
    let c_name = CString::new(name).ok()?;
    // SAFETY: all pointers are to live memory, and the length is the buffer's.
    let entry = look_up_entry(|entry, buffer, length, found| unsafe {
        libc::getpwnam_r(c_name.as_ptr(), entry, buffer, length, found)
    })?;
    // A name service may map a name to root, which is useless here.
    (entry.pw_uid != 0).then_some(User {
        name: name.to_owned(),
        uid: entry.pw_uid,
        gid: entry.pw_gid,
    })
}

/// Returns the entry of a user, of which only the numbers are valid.
fn look_up_entry(
    call: impl FnOnce(
        *mut libc::passwd,
        *mut libc::c_char,
        libc::size_t,
        *mut *mut libc::passwd,
    ) -> libc::c_int,
) -> Option<libc::passwd> {
    let mut buffer = vec![0; 16 * 1024];
    // SAFETY: passwd is plain data, for which all zeroes is a value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    let failed = call(&mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found);
    (failed == 0 && !found.is_null()).then_some(entry)
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
            name: "somebody".to_owned(),
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
