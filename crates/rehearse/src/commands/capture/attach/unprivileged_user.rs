//! Chooses the user of the process that decodes, and gives up its privileges.

use capture_attach::{UserIdentity, drop_privileges, is_root};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use study::Failure;

use crate::options::attach::CaptureAttach;
use crate::terminal;

/// Gives up all privileges, and reports which user the capture runs as if root has started it.
///
/// # Errors
/// If the user does not exist, or the system refuses a step.
pub(super) fn give_up_privileges(options: &CaptureAttach) -> Result<(), Failure> {
    let chosen = choose_user(options)?;
    if let Some((UserIdentity { user, group: 0 }, reason)) = &chosen {
        return Err(Failure::usage(format!(
            "the capture cannot run as user {user} {reason}: its group is that of root, or unknown; name another user with --user NAME"
        )));
    }
    drop_privileges(chosen.as_ref().map(|(user, _)| *user)).map_err(|error| {
        Failure::could_not(format!(
            "cannot give up the privileges of the process that decodes: {error}; run the command as root or by sudo, and not \
             within a service or a container that forbids to change the user"
        ))
    })?;
    match chosen {
        Some((user, reason)) => terminal::note(&format!(
            "the capture runs as user {} {reason}; only its prober holds privileges",
            user.user
        )),
        None if is_root() => terminal::note(
            "the capture stays user root without capabilities, since it was not started by sudo and its output directory is root's; choose another user with --user NAME",
        ),
        None => (),
    }
    Ok(())
}

/// Returns the user to become, with the reason: that of `--user`, that of sudo, or the owner of the output directory.
fn choose_user(options: &CaptureAttach) -> Result<Option<(UserIdentity, String)>, Failure> {
    if !is_root() {
        return match &options.user {
            None => Ok(None),
            Some(_) => Err(Failure::usage(
                "--user needs root: only root can become another user",
            )),
        };
    }
    if let Some(name) = &options.user {
        let (user, group) = sandbox::user_and_group(name).ok_or_else(|| {
            Failure::usage(format!(
                "--user {name}: there is no such user, or it is root; name a user of this system"
            ))
        })?;
        return Ok(Some((UserIdentity { user, group }, "of --user".to_owned())));
    }
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let of_sudo = number("SUDO_UID").zip(number("SUDO_GID"));
    if let Some((user, group)) = of_sudo.filter(|(user, _)| *user != 0) {
        return Ok(Some((
            UserIdentity { user, group },
            "of SUDO_UID".to_owned(),
        )));
    }
    Ok(owner_of_directory(&options.live.output))
}

/// Returns the owner of the directory in which the output is to be, with its primary group, unless it is root's. The directory's
/// group may have more rights than its owner.
fn owner_of_directory(output: &Path) -> Option<(UserIdentity, String)> {
    let parent = output.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let metadata = std::fs::metadata(directory).ok()?;
    let owner = UserIdentity {
        user: metadata.uid(),
        group: sandbox::group_of_user(metadata.uid()).unwrap_or_default(),
    };
    let reason = format!("that owns {}", directory.display());
    (owner.user != 0).then_some((owner, reason))
}
