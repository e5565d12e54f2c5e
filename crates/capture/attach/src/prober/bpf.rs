//! The system call `bpf`: maps and programs.
//!
//! Source of the structures: `union bpf_attr` in the kernel's `include/uapi/linux/bpf.h`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;

/// Licence of the programs for the kernel, which offers some functions to programs under the GPL only. This one is
/// compatible (`include/linux/license.h`).
const LICENCE: &CStr = c"Dual MIT/GPL";
/// Length of the verifier's report.
const REPORT_BYTES: usize = 1 << 20;

/// Type of a map (`enum bpf_map_type`).
#[derive(Debug, Clone, Copy)]
pub(super) enum MapType {
    Hash = 1,
    Array = 2,
    ProgramArray = 3,
    RingBuffer = 27,
}

/// Type of a program (`enum bpf_prog_type`).
#[derive(Debug, Clone, Copy)]
pub(super) enum ProgramType {
    Probe = 2,
    RawTracepoint = 17,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map: u32,
    unused: u32,
    key: u64,
    value_or_next_key: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

#[repr(C)]
struct RawTracepoint {
    name: u64,
    program: u32,
    unused: u32,
}

/// Calls `bpf`.
///
/// # Safety
/// Addresses in `attributes` must be valid for what the command reads and writes.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    let size = size_of::<T>();
    // SAFETY: the structure has the size that is passed; its addresses are the caller's promise.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn own(descriptor: libc::c_long) -> OwnedFd {
    // SAFETY: the kernel just made the descriptor, and it has no other owner.
    unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) }
}

/// Map of the kernel.
#[derive(Debug)]
pub(super) struct Map {
    fd: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

impl AsRawFd for Map {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Map {
    /// Creates a map. For a ring buffer `entries` is its size in bytes, and the other sizes are 0.
    pub fn create(
        kind: MapType,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
    ) -> io::Result<Self> {
        let attributes = MapCreate {
            map_type: kind as u32,
            key_size: key_bytes,
            value_size: value_bytes,
            max_entries: entries,
            map_flags: 0,
        };
        // SAFETY: there are no addresses.
        let fd = own(unsafe { bpf(MAP_CREATE, &attributes) }?);
        Ok(Map {
            fd,
            key_bytes: key_bytes as usize,
            value_bytes: value_bytes as usize,
        })
    }

    /// Returns the descriptor, for access by memory.
    pub fn into_descriptor(self) -> OwnedFd {
        self.fd
    }

    fn element(&self, key: Option<&[u8]>, value_or_next_key: u64) -> MapElement {
        if let Some(key) = key {
            assert_eq!(key.len(), self.key_bytes);
        }
        MapElement {
            map: self.fd.as_raw_fd() as u32,
            key: key.map_or(0, |key| key.as_ptr() as u64),
            value_or_next_key,
            ..MapElement::default()
        }
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &[u8]) -> io::Result<Vec<u8>> {
        let mut value = vec![0; self.value_bytes];
        let attributes = self.element(Some(key), value.as_mut_ptr() as u64);
        // SAFETY: key and value have the sizes of the map.
        unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) }?;
        Ok(value)
    }

    /// Sets the value of a key.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value_bytes);
        let attributes = self.element(Some(key), value.as_ptr() as u64);
        // SAFETY: key and value have the sizes of the map.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }

    /// Removes a key.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        let attributes = self.element(Some(key), 0);
        // SAFETY: the key has the size of the map.
        unsafe { bpf(MAP_DELETE_ELEM, &attributes) }.map(drop)
    }

    /// Returns the key after `key`, or the first one. `None` is the end. A key that was removed is followed by the
    /// first one.
    pub fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        let mut next = vec![0; self.key_bytes];
        let attributes = self.element(key, next.as_mut_ptr() as u64);
        // SAFETY: both keys have the size of the map, and the first may be null.
        match unsafe { bpf(MAP_GET_NEXT_KEY, &attributes) } {
            Ok(_) => Ok(Some(next)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Loads a program.
///
/// # Errors
/// If the kernel refuses it. The error has the end of the verifier's report if there is one.
pub(super) fn load_program(kind: ProgramType, code: &[u64]) -> io::Result<OwnedFd> {
    let mut attributes = ProgLoad {
        prog_type: kind as u32,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr() as u64,
        license: LICENCE.as_ptr() as u64,
        ..ProgLoad::default()
    };
    // SAFETY: the program and the licence are valid for the call, and there is no buffer for a report.
    let error = match unsafe { bpf(PROG_LOAD, &attributes) } {
        Ok(descriptor) => return Ok(own(descriptor)),
        Err(error) => error,
    };
    let mut report = vec![0_u8; REPORT_BYTES];
    attributes.log_level = 1;
    attributes.log_size = REPORT_BYTES as u32;
    attributes.log_buf = report.as_mut_ptr() as u64;
    // SAFETY: as above, and the buffer has the size that is passed.
    if let Ok(descriptor) = unsafe { bpf(PROG_LOAD, &attributes) } {
        return Ok(own(descriptor));
    }
    let report = CStr::from_bytes_until_nul(&report)
        .unwrap_or_default()
        .to_string_lossy();
    let mut lines: Vec<&str> = report.lines().rev().take(4).collect();
    lines.reverse();
    if lines.is_empty() {
        return Err(error);
    }
    Err(io::Error::new(
        error.kind(),
        format!("{error}: {}", lines.join("; ")),
    ))
}

/// Runs a program at a tracepoint of the kernel, until the result is closed.
pub(super) fn attach_to_tracepoint(name: &CStr, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attributes = RawTracepoint {
        name: name.as_ptr() as u64,
        program: program.as_raw_fd() as u32,
        unused: 0,
    };
    // SAFETY: the name is valid for the call.
    unsafe { bpf(RAW_TRACEPOINT_OPEN, &attributes) }.map(own)
}
