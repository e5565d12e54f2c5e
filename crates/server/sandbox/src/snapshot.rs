//! Copies the data directory of a stopped server, with reflinks if the file system supports them.

use crate::error::{Error, ErrorContext, Result};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown, symlink};
use std::path::Path;

/// Size of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyStats {
    /// Number of files.
    pub files: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Number of files that share their blocks with the original (reflinks).
    pub shared: u64,
}

/// Copies a directory with its owners, modes and symbolic links to a path that does not exist yet.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<CopyStats> {
    let mut copied = CopyStats::default();
    copy_dir(from, to, &mut copied)?;
    Ok(copied)
}

fn copy_dir(from: &Path, to: &Path, copied: &mut CopyStats) -> Result<()> {
    let meta = from.symlink_metadata().context("look at", from)?;
    fs::create_dir(to).context("make the directory", to)?;
    for entry in fs::read_dir(from).context("read", from)? {
        let entry = entry.context("read", from)?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().context("look at", &from)?;
        if kind.is_dir() {
            copy_dir(&from, &to, copied)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&from).context("read the link", &from)?;
            symlink(&target, &to).context("make the link", &to)?;
            let meta = from.symlink_metadata().context("look at", &from)?;
            let (uid, gid) = other_owner(&meta);
            lchown(&to, uid, gid).context("change the owner of", &to)?;
        } else if kind.is_file() {
            copy_file(&from, &to, copied)?;
        }
        // Sockets and pipes belong to a running server and have no use in a copy.
    }
    // Last, since the directory may not be writable.
    let (uid, gid) = other_owner(&meta);
    lchown(to, uid, gid).context("change the owner of", to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(meta.mode() & 0o7777))
        .context("set the permissions of", to)
}

fn copy_file(from: &Path, to: &Path, copied: &mut CopyStats) -> Result<()> {
    // The directory belongs to another user if root copies it, so no link may be followed.
    let mut source = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(from)
        .context("open", from)?;
    let meta = source.metadata().context("look at", from)?;
    let mut target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)
        .context("create", to)?;
    if meta.len() > 0 {
        if share_blocks(&source, &target) {
            copied.shared += 1;
        } else {
            // On Linux by copy_file_range, within the kernel.
            io::copy(&mut source, &mut target).context("copy to", to)?;
        }
    }
    let (uid, gid) = other_owner(&meta);
    fchown(&target, uid, gid).context("change the owner of", to)?;
    target
        .set_permissions(fs::Permissions::from_mode(meta.mode() & 0o7777))
        .context("set the permissions of", to)?;
    copied.files += 1;
    copied.bytes += meta.len();
    Ok(())
}

/// Returns the owner to set; `None` if it is the current user, who may not be permitted to set it.
fn other_owner(meta: &Metadata) -> (Option<u32>, Option<u32>) {
    // SAFETY: neither call has preconditions, and neither can fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    (
        Some(meta.uid()).filter(|&owner| owner != uid),
        Some(meta.gid()).filter(|&owner| owner != gid),
    )
}

#[cfg(target_os = "linux")]
fn share_blocks(source: &File, target: &File) -> bool {
    // SAFETY: both descriptors are open for as long as the call lasts.
    unsafe { libc::ioctl(target.as_raw_fd(), libc::FICLONE, source.as_raw_fd()) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn share_blocks(source: &File, target: &File) -> bool {
    let _ = (source.as_raw_fd(), target.as_raw_fd());
    false
}

/// Refuses a data directory that refers to files outside of it: tablespaces, a moved WAL.
pub(crate) fn check_whole(data: &Path) -> Result<()> {
    let tablespaces = data.join("pg_tblspc");
    let spaces = fs::read_dir(&tablespaces).context("read", &tablespaces)?;
    let mut links = vec![data.join("pg_wal")];
    links.extend(spaces.flatten().map(|entry| entry.path()));
    for link in links {
        if let Ok(target) = fs::read_link(&link) {
            return Err(Error::Outside { link, target });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_contents_modes_and_links() {
        let top = tempfile::tempdir().unwrap();
        let from = top.path().join("from");
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/file"), "contents").unwrap();
        fs::write(from.join("empty"), "").unwrap();
        symlink("a/b/file", from.join("link")).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&from.join("a/b/file"), 0o640);
        mode(&from.join("a"), 0o750);
        if crate::privileges::is_root() {
            lchown(from.join("a/b/file"), Some(65534), Some(65534)).unwrap();
        }

        let to = top.path().join("to");
        let copied = copy_tree(&from, &to).unwrap();
        assert_eq!((copied.files, copied.bytes), (2, 8));
        assert_eq!(fs::read_to_string(to.join("link")).unwrap(), "contents");
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("a/b/file")
        );
        for path in ["", "a", "a/b", "a/b/file", "empty", "link"] {
            let look = |top: &Path| {
                let meta = top.join(path).symlink_metadata().unwrap();
                (
                    meta.mode(),
                    meta.uid(),
                    meta.gid(),
                    meta.is_file().then_some(meta.len()),
                )
            };
            assert_eq!(look(&from), look(&to), "{path}");
        }
        assert!(
            copy_tree(&from, &to).is_err(),
            "what is there must not be overwritten"
        );
    }

    #[test]
    fn snapshot_refuses_links_out_of_the_data_directory() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join("pg_tblspc")).unwrap();
        fs::create_dir(data.path().join("pg_wal")).unwrap();
        check_whole(data.path()).unwrap();
        symlink("/elsewhere", data.path().join("pg_tblspc/16384")).unwrap();
        assert!(matches!(
            check_whole(data.path()),
            Err(Error::Outside { .. })
        ));
    }
}
