//! Finds functions in the executable file of a server.

use object::read::ReadCache;
use object::{File, Object, ObjectSegment, ObjectSymbol, ReadRef};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum size of a file with debug symbols. Those of a PostgreSQL server have about 20 MB.
const DEBUG_BYTES_MAX: u64 = 1 << 30;

/// Positions of the probed functions in the executable file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionOffsets {
    pub secure_read: u64,
    pub secure_write: u64,
}

/// Reason for which the functions are not found.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// The file cannot be read or is not an executable.
    #[error("cannot read the server's executable {path}: {reason}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Error of the system or of the parser.
        reason: String,
    },
    /// Neither the file nor a file with its debug symbols names a function.
    #[error(
        "the server's executable {path} has no symbol `{function}`, so no probe can be attached: it is stripped or \
         linked in an unusual way; install the server's debug symbols{}, or capture with a proxy or a log",
        .debug_file.as_ref().map(|file| format!(" as {}", file.display())).unwrap_or_default()
    )]
    NoSymbol {
        /// Path of the file.
        path: String,
        /// Name of the function.
        function: &'static str,
        /// Path at which debug symbols are looked for; `None` if the executable has no build id.
        debug_file: Option<PathBuf>,
    },
}

/// Finds the functions in an executable. Debug symbols are looked for below `roots`.
pub(crate) fn find(path: &str, roots: &[PathBuf]) -> Result<FunctionOffsets, FunctionError> {
    let unreadable = |reason: String| FunctionError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let cache = open(Path::new(path)).map_err(|error| unreadable(error.to_string()))?;
    let file = File::parse(&cache).map_err(|error| unreadable(error.to_string()))?;
    let debug_path = file.build_id().ok().flatten().and_then(debug_path);
    let offset = |function: &'static str| {
        let address = address(&file, function).or_else(|| {
            roots.iter().find_map(|root| {
                let cache = open_in_root(root, debug_path.as_ref()?).ok()?;
                address(&File::parse(&cache).ok()?, function)
            })
        });
        address
            .and_then(|address| file_offset(&file, address))
            .ok_or_else(|| FunctionError::NoSymbol {
                path: path.to_owned(),
                function,
                debug_file: debug_path.as_ref().map(|path| Path::new("/").join(path)),
            })
    };
    Ok(FunctionOffsets {
        secure_read: offset("secure_read")?,
        secure_write: offset("secure_write")?,
    })
}

fn open(path: &Path) -> io::Result<ReadCache<fs::File>> {
    fs::File::open(path).map(ReadCache::new)
}

/// Opens a file of a container. Its links lead into the container only, although this process sees more. Special files are
/// refused, since a pipe would block this process and a device has no end; and files of more than [`DEBUG_BYTES_MAX`].
fn open_in_root(root: &Path, path: &Path) -> io::Result<ReadCache<fs::File>> {
    let root = fs::File::open(root)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = fs::File::from(openat2(&root, path, flags, Mode::empty(), resolve)?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > DEBUG_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(ReadCache::new(file))
}

/// Returns the path of debug symbols, relative to a root, as distributions install them
/// (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html>).
fn debug_path(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("usr/lib/debug/.build-id/{first:02x}/{rest}.debug").into())
}

fn address<'a, R: ReadRef<'a>>(file: &File<'a, R>, function: &str) -> Option<u64> {
    file.dynamic_symbols()
        .chain(file.symbols())
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(function))
        .map(|symbol| symbol.address())
}

fn file_offset<'a, R: ReadRef<'a>>(file: &File<'a, R>, address: u64) -> Option<u64> {
    file.segments().find_map(|segment| {
        let (offset, bytes) = segment.file_range();
        let within = address.checked_sub(segment.address())?;
        (within < bytes).then_some(offset + within)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_of_a_server_is_found_at_the_place_of_its_code() {
        let server = "/usr/lib/postgresql/15/bin/postgres";
        if !Path::new(server).exists() {
            println!(
                "skipped: function_of_a_server_is_found_at_the_place_of_its_code (no {server})"
            );
            return;
        }
        let found = find(server, &[]).unwrap();
        assert!(found.secure_read > 0 && found.secure_write > found.secure_read);
    }

    #[test]
    fn executable_without_the_functions_is_refused_with_the_path_of_its_debug_symbols() {
        let own = std::env::current_exe().unwrap();
        let error = find(own.to_str().unwrap(), &[PathBuf::from("/")]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no symbol `secure_read`"), "{text}");
        let error = find("/etc/passwd", &[]).unwrap_err();
        assert!(matches!(error, FunctionError::Unreadable { .. }));
    }

    #[test]
    fn link_in_a_container_leads_into_the_container_and_pipe_is_refused() {
        use std::io::Read;
        use std::os::unix::fs::symlink;
        let room = tempfile::tempdir().unwrap();
        let outside = room.path().join("debug");
        fs::write(&outside, "outside").unwrap();
        let root = room.path().join("root");
        fs::create_dir(&root).unwrap();
        symlink("/debug", root.join("absolute")).unwrap();
        symlink("../debug", root.join("relative")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(root.join("pipe"))
            .status();
        assert!(made.unwrap().success());
        for name in ["absolute", "relative", "pipe", "."] {
            assert!(open_in_root(&root, Path::new(name)).is_err(), "{name}");
        }
        fs::write(root.join("debug"), "inside").unwrap();
        for name in ["absolute", "relative", "debug", "../debug"] {
            let mut text = String::new();
            let file = open_in_root(&root, Path::new(name)).unwrap();
            file.into_inner().read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside", "{name}");
        }
        fs::File::create(root.join("large"))
            .unwrap()
            .set_len(DEBUG_BYTES_MAX + 1)
            .unwrap();
        assert!(open_in_root(&root, Path::new("large")).is_err());
    }

    #[test]
    fn debug_symbols_are_looked_for_by_build_id() {
        let path = debug_path(&[0xab, 0xcd, 0x0e]).unwrap();
        assert_eq!(path, Path::new("usr/lib/debug/.build-id/ab/cd0e.debug"));
        assert_eq!(debug_path(&[]), None);
    }
}
