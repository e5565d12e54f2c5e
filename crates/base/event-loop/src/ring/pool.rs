//! Pool of receive buffers that is shared with the kernel.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::Buffer;

/// Gap between two buffers: three cache lines. Most received data is short. Without the gap the beginnings of
/// all buffers would map to the same few cache sets.
const GAP_BYTES: usize = 192;

/// Receive buffers that the kernel takes from. They are never unmapped.
pub(super) struct Pool {
    pub(super) entries: *mut BufRingEntry,
    memory: *mut u8,
    count: u16,
    buffer_bytes: u32,
    tail: u16,
}

// SAFETY: the memory belongs to the pool and to the kernel alone, which does not depend on the thread.
unsafe impl Send for Pool {}

impl Pool {
    pub(super) fn new(count: u16, buffer_bytes: u32) -> io::Result<Self> {
        let entries = map_memory(usize::from(count) * size_of::<BufRingEntry>())?;
        let memory = map_memory(usize::from(count) * (buffer_bytes as usize + GAP_BYTES))?;
        Ok(Pool {
            entries: entries.cast(),
            memory,
            count,
            buffer_bytes,
            tail: 0,
        })
    }

    /// Returns the offset of a buffer.
    fn offset(&self, place: u16) -> usize {
        assert!(place < self.count, "the buffer is another ring's");
        usize::from(place) * (self.buffer_bytes as usize + GAP_BYTES)
    }

    pub(super) fn bytes(&self, buffer: &Buffer) -> &[u8] {
        let offset = self.offset(buffer.place);
        let length = buffer.length.min(self.buffer_bytes) as usize;
        // SAFETY: the range is within the memory. The kernel writes to it only after the buffer is returned,
        // which consumes the buffer.
        unsafe { std::slice::from_raw_parts(self.memory.add(offset), length) }
    }

    pub(super) fn give_back(&mut self, place: u16) {
        let offset = self.offset(place);
        let next = usize::from(self.tail & (self.count - 1));
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `next` is within the ring of entries. The tail is in the first entry, where the kernel
        // reads it, and is updated after the entry is complete.
        unsafe {
            let entry = &mut *self.entries.add(next);
            entry.set_addr(self.memory.add(offset) as u64);
            entry.set_len(self.buffer_bytes);
            entry.set_bid(place);
            let tail = BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Maps memory at a page boundary.
fn map_memory(bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: new memory without a given address.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    match memory == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(memory.cast()),
    }
}
