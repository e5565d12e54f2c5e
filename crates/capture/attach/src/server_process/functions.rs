//! Finds functions in the executable file of a server.

use object::read::ReadCache;
use object::{
    File, Object, ObjectSegment, ObjectSymbol, ReadRef, SegmentFlags, Symbol, SymbolKind, elf,
};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum size of an executable or of a file with debug symbols, since the parser reads whole tables into memory. Those of
/// a PostgreSQL server have about 20 MB.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// User to which trusted files belong.
const ROOT: u32 = 0;
/// Permissions of a file's group and of others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

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
///
/// A probe in the middle of an instruction crashes all processes that run the file, and the server's user can choose the file
/// and its root directory. So an address from another file is used only if that file is root's and of the same build, and
/// an address is always one of a function in executable memory.
pub(crate) fn find(path: &str, roots: &[PathBuf]) -> Result<FunctionOffsets, FunctionError> {
    let unreadable = |reason: String| FunctionError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let cache = open(Path::new(path)).map_err(|error| unreadable(error.to_string()))?;
    let file = File::parse(&cache).map_err(|error| unreadable(error.to_string()))?;
    let build_id = file.build_id().ok().flatten();
    let debug_path = build_id.and_then(debug_path);
    let offset = |function: &'static str| {
        let address = address(&file, function).or_else(|| {
            let path = debug_path.as_ref()?;
            roots.iter().find_map(|root| {
                let cache = open_trusted(root, path).ok()?;
                let debug = File::parse(&cache).ok()?;
                let is_same_build = debug.build_id().ok().flatten() == build_id;
                is_same_build.then(|| address(&debug, function)).flatten()
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

/// Opens an executable for the parser.
fn open(path: &Path) -> io::Result<ReadCache<fs::File>> {
    let file = fs::File::open(path)?;
    check_size(&file.metadata()?)?;
    Ok(ReadCache::new(file))
}

/// Opens a file of a container that only root can have written. Its links lead into the container only, although this process
/// sees more.
fn open_trusted(root: &Path, path: &Path) -> io::Result<ReadCache<fs::File>> {
    let file = open_in_root(root, path)?;
    let metadata = file.metadata()?;
    check_size(&metadata)?;
    if metadata.uid() != ROOT || metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(ReadCache::new(file))
}

fn open_in_root(root: &Path, path: &Path) -> io::Result<fs::File> {
    let root = fs::File::open(root)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(&root, path, flags, Mode::empty(), resolve)?.into())
}

/// Refuses special files, since a pipe would block this process and a device has no end; and files of more than
/// [`FILE_BYTES_MAX`].
fn check_size(metadata: &fs::Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "it has {} bytes, more than the limit of {FILE_BYTES_MAX}",
            metadata.len()
        )));
    }
    Ok(())
}

/// Returns the path of debug symbols, relative to a root, as distributions install them
/// (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html>).
fn debug_path(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("usr/lib/debug/.build-id/{first:02x}/{rest}.debug").into())
}

/// Returns the address of a function.
fn address<'a, R: ReadRef<'a>>(file: &File<'a, R>, function: &str) -> Option<u64> {
    file.dynamic_symbols()
        .chain(file.symbols())
        .find(|symbol| is_function(symbol) && symbol.name() == Ok(function))
        .map(|symbol| symbol.address())
}

fn is_function<'a, R: ReadRef<'a>>(symbol: &Symbol<'a, '_, R>) -> bool {
    symbol.is_definition() && symbol.kind() == SymbolKind::Text
}

/// Returns the position of an address of executable memory in the file.
fn file_offset<'a, R: ReadRef<'a>>(file: &File<'a, R>, address: u64) -> Option<u64> {
    let is_executable =
        |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & elf::PF_X != 0);
    let mut segments = file.segments();
    segments.find_map(|segment| {
        let (offset, bytes) = segment.file_range();
        let within = address.checked_sub(segment.address())?;
        (within < bytes && is_executable(segment.flags())).then_some(offset + within)
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
        let open = |name: &str| {
            let file = open_in_root(&root, Path::new(name))?;
            check_size(&file.metadata()?)?;
            Ok::<_, io::Error>(file)
        };
        for name in ["absolute", "relative", "pipe", "."] {
            assert!(open(name).is_err(), "{name}");
        }
        fs::write(root.join("debug"), "inside").unwrap();
        for name in ["absolute", "relative", "debug", "../debug"] {
            let mut text = String::new();
            open(name).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside", "{name}");
        }
    }

    #[test]
    fn executable_above_the_size_limit_is_refused() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("large");
        fs::File::create(&path)
            .unwrap()
            .set_len(FILE_BYTES_MAX + 1)
            .unwrap();
        let error = find(path.to_str().unwrap(), &[]).unwrap_err().to_string();
        assert!(error.contains("more than the limit"), "{error}");
    }

    /// Address range of the code in [`elf_file`]; that of the data follows.
    const CODE: u64 = 0x1000;
    const DATA: u64 = 0x2000;

    /// Returns an executable with a build id, and with both functions as symbols of this type at this address, if any.
    fn elf_file(build_id: &[u8; 4], symbols: Option<(u8, u64)>) -> Vec<u8> {
        const NAMES: &[u8; 26] = b"\0secure_read\0secure_write\0";
        let mut notes: Vec<u8> = [4_u32, 4, 3]
            .iter()
            .flat_map(|it| it.to_le_bytes())
            .collect();
        notes.extend(b"GNU\0");
        notes.extend(build_id);
        let mut table = vec![0; 24];
        for name in [1_u32, 13] {
            let Some((kind, address)) = symbols else {
                break;
            };
            table.extend(name.to_le_bytes());
            // Global, default visibility, section 1.
            table.extend([0x10 | kind, 0, 1, 0]);
            table.extend(address.to_le_bytes());
            table.extend(4_u64.to_le_bytes());
        }
        let long =
            |values: &[u64]| -> Vec<u8> { values.iter().flat_map(|it| it.to_le_bytes()).collect() };
        let short =
            |values: &[u32]| -> Vec<u8> { values.iter().flat_map(|it| it.to_le_bytes()).collect() };
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
        file.extend(long(&[0, 64, 0x400]));
        file.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 5, 0, 3, 0]);
        // Segments: readable and executable, readable and writable.
        for (flags, at) in [(5, CODE), (6, DATA)] {
            file.extend(short(&[1, flags]));
            file.extend(long(&[at, at, at, 0x1000, 0x1000, 0x1000]));
        }
        let mut put = |at: usize, bytes: &[u8]| {
            file.resize(at, 0);
            file.extend(bytes);
        };
        put(0x200, &notes);
        put(0x240, NAMES);
        put(0x280, &table);
        let sections: [(u32, u64, usize, u32, u64); 5] = [
            (0, 0, 0, 0, 0),
            (1, CODE, 0x1000, 0, 0),
            (2, 0x280, table.len(), 3, 24),
            (3, 0x240, NAMES.len(), 0, 0),
            (7, 0x200, notes.len(), 0, 0),
        ];
        let mut headers = Vec::new();
        for (kind, at, size, link, entry_size) in sections {
            headers.extend(short(&[0, kind]));
            headers.extend(long(&[0, 0, at, size as u64]));
            headers.extend(short(&[link, 1]));
            headers.extend(long(&[4, entry_size]));
        }
        put(0x400, &headers);
        put(0x3000, &[]);
        file
    }

    #[test]
    fn function_is_taken_from_executable_memory_only() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("server");
        let is_found = |kind, address| {
            fs::write(&path, elf_file(b"1234", Some((kind, address)))).unwrap();
            find(path.to_str().unwrap(), &[]).is_ok()
        };
        assert!(is_found(elf::STT_FUNC, CODE + 8));
        assert!(!is_found(elf::STT_OBJECT, CODE + 8));
        assert!(!is_found(elf::STT_FUNC, DATA + 8));
    }

    #[test]
    fn debug_symbols_are_used_if_they_are_of_root_and_of_the_same_build() {
        let room = tempfile::tempdir().unwrap();
        let server = room.path().join("server");
        fs::write(&server, elf_file(b"1234", None)).unwrap();
        let debug = room.path().join(debug_path(b"1234").unwrap());
        fs::create_dir_all(debug.parent().unwrap()).unwrap();
        let roots = [room.path().to_owned()];
        let write = |build_id, mode| {
            use std::os::unix::fs::PermissionsExt;
            let symbols = Some((elf::STT_FUNC, CODE + 8));
            fs::write(&debug, elf_file(build_id, symbols)).unwrap();
            fs::set_permissions(&debug, fs::Permissions::from_mode(mode)).unwrap();
            find(server.to_str().unwrap(), &roots)
        };
        if !rustix::process::geteuid().is_root() {
            assert!(write(b"1234", 0o644).is_err());
            return;
        }
        assert_eq!(write(b"1234", 0o644).unwrap().secure_read, CODE + 8);
        for (build_id, mode) in [(b"1235", 0o644), (b"1234", 0o664), (b"1234", 0o646)] {
            assert!(write(build_id, mode).is_err(), "{build_id:?} {mode:o}");
        }
        write(b"1234", 0o644).unwrap();
        std::os::unix::fs::chown(&debug, Some(65_534), None).unwrap();
        assert!(find(server.to_str().unwrap(), &roots).is_err());
    }

    #[test]
    fn debug_symbols_are_looked_for_by_build_id() {
        let path = debug_path(&[0xab, 0xcd, 0x0e]).unwrap();
        assert_eq!(path, Path::new("usr/lib/debug/.build-id/ab/cd0e.debug"));
        assert_eq!(debug_path(&[]), None);
    }
}
