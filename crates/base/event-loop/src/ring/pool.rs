//! Memory that the kernel takes for what arrives.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::Buffer;

/// From the end of a buffer to the next, three of a processor's lines of memory. Most that arrives is short, and without
/// this the beginnings of all buffers would be kept in the few places of its nearest memory that are for such addresses.
const BETWEEN_BYTES: usize = 192;

/// Buffers that the kernel takes for what arrives. They are never unmapped.
pub(super) struct Pool {
    pub(super) entries: *mut BufRingEntry,
    memory: *mut u8,
    count: u16,
    buffer_bytes: u32,
    tail: u16,
}

// SAFETY: the memory belongs to the pool alone, and to the kernel, which does not ask for a thread.
unsafe impl Send for Pool {}

impl Pool {
    pub(super) fn new(count: u16, buffer_bytes: u32) -> io::Result<Self> {
        let entries = mapped(usize::from(count) * size_of::<BufRingEntry>())?;
        let memory = mapped(usize::from(count) * (buffer_bytes as usize + BETWEEN_BYTES))?;
        Ok(Pool {
            entries: entries.cast(),
            memory,
            count,
            buffer_bytes,
            tail: 0,
        })
    }

    /// Where a buffer begins.
    fn offset(&self, place: u16) -> usize {
        assert!(place < self.count, "the buffer is another ring's");
        usize::from(place) * (self.buffer_bytes as usize + BETWEEN_BYTES)
    }

    pub(super) fn bytes(&self, buffer: &Buffer) -> &[u8] {
        let offset = self.offset(buffer.place);
        let length = buffer.length.min(self.buffer_bytes) as usize;
        // SAFETY: within the memory, and the kernel writes to it only once it was given back, for which
        // the buffer itself is given away.
        unsafe { std::slice::from_raw_parts(self.memory.add(offset), length) }
    }

    pub(super) fn give_back(&mut self, place: u16) {
        let offset = self.offset(place);
        let next = usize::from(self.tail & (self.count - 1));
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `next` is within the ring of entries; the tail lies in its first one, where the kernel
        // looks for it, and is told after the entry is whole.
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

/// Memory that begins at a page.
fn mapped(bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: new memory, at no given place.
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
