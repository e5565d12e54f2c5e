//! Template clusters: `initdb` runs once for each server build and kind of cluster.
//!
//! They are in `templates` of the state directory, 40 MB each, and may be deleted at any time. All copies
//! have the system identifier of their template.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use sandbox::{Dirs, Installation, Options, Password, Sandbox};
use tempfile::NamedTempFile;

/// Returns the random password of servers that only need one. They share it, and so their template.
pub(super) fn shared_password(places: &Dirs) -> Password {
    let path = places.state.join("template-password");
    fs::create_dir_all(&places.state).expect("a state directory");
    let mut new = NamedTempFile::new_in(&places.state).expect("a file that only its owner reads");
    let text = Password::random().expect("random bytes");
    new.write_all(text.reveal().as_bytes())
        .expect("a written file");
    // Another process may have been first.
    let _ = new.persist_noclobber(&path);
    Password::new(&fs::read_to_string(&path).expect("the password"))
}

/// Returns the template of a cluster with these options. Creates it if it does not exist.
///
/// The cluster is created in a sandbox, and then renamed. If two processes do so at once, the second one
/// discards its cluster. If a process is killed, the sandbox is deleted like every abandoned one.
pub(super) fn of(found: &Installation, options: &Options, places: &Dirs) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let templates = places.state.join("templates");
    let template = templates.join(name(found, options));
    if template.is_dir() {
        return template;
    }
    let plain = Options {
        settings: Vec::new(),
        template: None,
        ..options.clone()
    };
    let sandbox = Sandbox::create(found, plain, places).expect("a cluster");
    remove_include(sandbox.data_dir());
    // A template that a power failure damaged would fail every later test.
    let synced = Command::new("sync")
        .arg("-f")
        .arg(sandbox.data_dir())
        .status();
    assert!(synced.is_ok_and(|status| status.success()), "sync failed");
    fs::create_dir_all(&templates).expect("a directory of templates");
    match fs::rename(sandbox.data_dir(), &template) {
        Err(error) if !is_taken(&error) => {
            panic!("cannot rename to {}: {error}", template.display())
        }
        _ => template,
    }
}

fn is_taken(error: &std::io::Error) -> bool {
    let kinds = [ErrorKind::AlreadyExists, ErrorKind::DirectoryNotEmpty];
    kinds.contains(&error.kind())
}

/// Returns a name that differs for each build of a server, each owner and each kind of cluster.
fn name(found: &Installation, options: &Options) -> String {
    let mut hasher = DefaultHasher::new();
    let program = found.bin_dir.join("postgres");
    let program = fs::metadata(&program).expect("the program postgres");
    (
        program.ino(),
        program.len(),
        program.mtime(),
        program.mtime_nsec(),
    )
        .hash(&mut hasher);
    found.bin_dir.hash(&mut hasher);
    let owner = sandbox::server_uid().expect("a user of servers");
    (&options.password, &options.locale, &options.initdb, owner).hash(&mut hasher);
    format!("{}-scram-{:016x}", found.version, hasher.finish())
}

/// Removes the line by which the cluster includes its sandbox's settings.
fn remove_include(data: &Path) {
    let path = data.join("postgresql.conf");
    let text = fs::read_to_string(&path).expect("a configuration");
    let (before, _) = text.rsplit_once("\ninclude '").expect("an include");
    // Truncated, since a new file would have another owner.
    let file = fs::File::options().write(true).open(&path);
    file.and_then(|file| file.set_len(before.len() as u64))
        .expect("a configuration that can be written");
}
