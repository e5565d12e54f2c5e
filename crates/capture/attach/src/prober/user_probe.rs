//! Probes in functions of programs, by the system call `perf_event_open`.
//!
//! One probe serves all processes that run the file. A link for several probes (`BPF_LINK_TYPE_UPROBE_MULTI`, Linux 6.6)
//! would make the four calls one, and no hit cheaper.
//!
//! Sources: perf_event_open(2); `kernel/events/core.c` (`perf_uprobe_event_init`) for `config1` and `config2`.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Files of the kernel's source of events for probes in programs.
const SOURCE: &str = "/sys/bus/event_source/devices/uprobe";
/// Requests of `ioctl` on an event: `_IO('$', 0)` and `_IOW('$', 8, u32)`.
const ENABLE: libc::c_ulong = 0x2400;
const SET_PROGRAM: libc::c_ulong = 0x4004_2408;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Point of a probe in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbePoint {
    Call,
    Return,
}

/// `struct perf_event_attr` in its fifth version.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    source: u32,
    size: u32,
    config: u64,
    unused_sampling: [u64; 5],
    config1: u64,
    config2: u64,
    unused: [u64; 5],
}

/// Source of probes: its number, and the bit that selects returns.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeSource {
    number: u32,
    return_bit: u32,
}

impl ProbeSource {
    /// Finds the source; fails if the kernel has none.
    pub fn find() -> io::Result<Self> {
        let read = |name: &str, before: &str| {
            let text = fs::read_to_string(format!("{SOURCE}/{name}"))?;
            let number = text
                .trim()
                .strip_prefix(before)
                .and_then(|rest| rest.parse().ok());
            number.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        };
        Ok(ProbeSource {
            number: read("type", "")?,
            return_bit: read("format/retprobe", "config:")?,
        })
    }

    /// Returns whether the kernel refuses probes to this process since it lacks CAP_SYS_ADMIN. Linux 6.16 and later updates of earlier
    /// versions require it, in place of CAP_PERFMON (`perf_uprobe_event_init`).
    pub fn is_refused(self) -> bool {
        // The check of capabilities comes first. A directory can have no probe.
        let opened = self.open(c"/", 0, ProbePoint::Call);
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Runs a program at each call of a function or each return from it, until the result is closed. `offset` is the
    /// position of the function in the file.
    pub fn attach(
        self,
        file: &CStr,
        offset: u64,
        point: ProbePoint,
        program: BorrowedFd<'_>,
    ) -> io::Result<OwnedFd> {
        let event = self.open(file, offset, point)?;
        request(&event, SET_PROGRAM, libc::c_long::from(program.as_raw_fd()))?;
        request(&event, ENABLE, 0)?;
        Ok(event)
    }

    fn open(self, file: &CStr, offset: u64, point: ProbePoint) -> io::Result<OwnedFd> {
        let attributes = EventAttributes {
            source: self.number,
            size: size_of::<EventAttributes>() as u32,
            config: match point {
                ProbePoint::Call => 0,
                ProbePoint::Return => 1 << self.return_bit,
            },
            config1: file.as_ptr() as u64,
            config2: offset,
            ..EventAttributes::default()
        };
        // All processes. The processor must be named, but programs run on each.
        let (process, processor, group): (libc::pid_t, libc::c_int, libc::c_int) = (-1, 0, -1);
        let attributes = std::ptr::from_ref(&attributes);
        // SAFETY: the structure has the size that it states, and the path is valid for the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes,
                process,
                processor,
                group,
                CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made the descriptor, and it has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    }
}

fn request(event: &OwnedFd, request: libc::c_ulong, argument: libc::c_long) -> io::Result<()> {
    // SAFETY: the requests have no addresses.
    if unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
