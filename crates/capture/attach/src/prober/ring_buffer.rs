//! Reads the ring buffer that the programs fill.
//!
//! Source of the layout: the kernel's `Documentation/bpf/ringbuf.rst` and `kernel/bpf/ringbuf.c`.

use super::bpf::{Map, MapType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bits of the length in a sample's header.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: u64 = 8;

/// Result of reading the ring buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drained {
    /// Bytes that the samples occupied.
    pub bytes: u64,
    /// Whether all samples that were begun before the call are read. A sample that is not complete holds up later ones.
    pub is_complete: bool,
}

/// Memory that is shared with the kernel.
#[derive(Debug)]
struct SharedMemory {
    address: *mut u8,
    bytes: usize,
}

impl SharedMemory {
    fn map(fd: RawFd, bytes: usize, protection: libc::c_int, offset: usize) -> io::Result<Self> {
        let flags = libc::MAP_SHARED;
        // SAFETY: the kernel chooses the address, and the result is checked.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                flags,
                fd,
                offset as libc::off_t,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMemory {
            address: address.cast(),
            bytes,
        })
    }

    fn position(&self) -> &AtomicU64 {
        // SAFETY: the memory begins with a page that has a position of eight bytes, which both sides access atomically.
        unsafe { &*self.address.cast() }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with these values, and nothing borrows it any more.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}

/// Ring buffer of the kernel.
#[derive(Debug)]
pub(super) struct RingBuffer {
    descriptor: OwnedFd,
    /// Page with the position of the reader.
    reader: SharedMemory,
    /// Page with the position of the writers, and the data twice, so that no sample is split.
    writers: SharedMemory,
    page_bytes: usize,
    bytes: u64,
}

impl AsRawFd for RingBuffer {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl RingBuffer {
    /// Creates a buffer of `bytes`: a power of two, and a multiple of the page size.
    pub fn create(bytes: u32) -> io::Result<Self> {
        let map = Map::create(MapType::RingBuffer, 0, 0, bytes)?;
        Self::map(map.into_descriptor(), bytes)
    }

    fn map(descriptor: OwnedFd, bytes: u32) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let all = page_bytes + 2 * bytes as usize;
        let fd = descriptor.as_raw_fd();
        Ok(RingBuffer {
            reader: SharedMemory::map(fd, page_bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?,
            writers: SharedMemory::map(fd, all, libc::PROT_READ, page_bytes)?,
            page_bytes,
            bytes: u64::from(bytes),
            descriptor,
        })
    }

    /// Returns the size of the samples that were begun and not read.
    pub fn unread_bytes(&self) -> u64 {
        let read = self.reader.position().load(Ordering::Relaxed);
        let written = self.writers.position().load(Ordering::Acquire);
        written.saturating_sub(read)
    }

    /// Passes the samples to `consume` that were complete when the call began, up to the first incomplete one, and frees
    /// their space.
    ///
    /// # Errors
    /// The first error of `consume`. Its sample is freed.
    pub fn drain(
        &mut self,
        mut consume: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Drained> {
        let start = self.reader.position().load(Ordering::Relaxed);
        let end = self.writers.position().load(Ordering::Acquire);
        let mut at = start;
        while at < end {
            let index = self.page_bytes + (at & (self.bytes - 1)) as usize;
            // SAFETY: a sample begins at each position between that of the reader and that of the writers.
            let header = unsafe { &*self.writers.address.add(index).cast::<AtomicU32>() };
            let header = header.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = header & !DISCARDED;
            let sample = index + HEADER_BYTES as usize;
            at += (u64::from(length) + HEADER_BYTES).next_multiple_of(8);
            let result = if header & DISCARDED == 0 {
                // SAFETY: the sample is complete, and the kernel does not change it before the position is moved.
                // The data are mapped twice, so that it is contiguous.
                consume(unsafe {
                    std::slice::from_raw_parts(self.writers.address.add(sample), length as usize)
                })
            } else {
                Ok(())
            };
            self.reader.position().store(at, Ordering::Release);
            result?;
        }
        Ok(Drained {
            bytes: at - start,
            is_complete: at >= end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    const BYTES: u32 = 1 << 16;

    /// Writes a sample of eight bytes to a file with the layout of a ring buffer, and returns the next position.
    fn write_sample(file: &File, at: u64, flags: u32, value: u64) -> u64 {
        let page = rustix::param::page_size() as u64;
        let header = (8 | flags).to_ne_bytes();
        file.write_all_at(&header, 2 * page + at).unwrap();
        let data = 2 * page + at + HEADER_BYTES;
        file.write_all_at(&value.to_ne_bytes(), data).unwrap();
        let next = at + HEADER_BYTES + 8;
        file.write_all_at(&next.to_ne_bytes(), page).unwrap();
        next
    }

    #[test]
    fn sample_that_is_not_complete_holds_up_later_ones_and_is_reported() {
        let file = tempfile::tempfile().unwrap();
        let page = rustix::param::page_size() as u64;
        file.set_len(2 * page + 2 * u64::from(BYTES)).unwrap();
        let mut ring = RingBuffer::map(file.try_clone().unwrap().into(), BYTES).unwrap();
        let busy = write_sample(&file, 0, 0, 1);
        let discarded = write_sample(&file, busy, BUSY, 2);
        let last = write_sample(&file, discarded, DISCARDED, 3);
        let end = write_sample(&file, last, 0, 4);
        let drain = |ring: &mut RingBuffer| {
            let mut found = Vec::new();
            let drained = ring.drain(|sample| {
                found.push(sample[0]);
                Ok(())
            });
            (drained.unwrap(), found)
        };
        let first = Drained {
            bytes: busy,
            is_complete: false,
        };
        assert_eq!(drain(&mut ring), (first, vec![1]));
        assert_eq!(ring.unread_bytes(), end - busy);
        // The header is complete now.
        file.write_all_at(&8_u32.to_ne_bytes(), 2 * page + busy)
            .unwrap();
        let rest = Drained {
            bytes: end - busy,
            is_complete: true,
        };
        assert_eq!(drain(&mut ring), (rest, vec![2, 4]));
    }
}
