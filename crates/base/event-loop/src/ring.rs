//! Reads and writes sockets through io_uring, a ring shared with the kernel. One system call submits all
//! sends and waits for completions, or two calls if other threads run in between.
//!
//! Received bytes arrive in buffers of a pool, and a received buffer can be sent unchanged. A send writes as
//! much as fits and never waits. It completes within the call that submits it, and the kernel reports it only
//! if not everything was sent (`MSG_DONTWAIT` with `MSG_WAITALL`).
//!
//! Facts are from `io_uring(7)`, `io_uring_setup(2)` (deferred work: Linux 6.1) and `io_uring_register(2)`
//! (rings of buffers).

mod pool;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use pool::Pool;

use crate::{Completion, StopReason, UnsentMessage};

/// Capacity of the submission queue.
const SUBMISSIONS: u32 = 256;
/// Capacity of the ring's table of registered sockets.
const SOCKETS: u32 = 1024;
/// Capacity of the completion queue. Further completions wait in the kernel.
const COMPLETIONS: u32 = 4096;
/// Group id of the ring's only pool.
const GROUP: u16 = 0;

/// Mask of the kind of a completion, in the two highest bits. Tokens must leave them zero.
const KIND_MASK: u64 = 3 << 62;
const KIND_RECEIVE: u64 = 0;
const KIND_SEND: u64 = 1 << 62;
const KIND_WATCH: u64 = 2 << 62;
const KIND_CANCEL: u64 = 3 << 62;
/// Marks the send of a message rather than of a buffer.
const MESSAGE_FLAG: u64 = 1 << 61;
/// Maximum bytes of a message per submission, since a completion reports at most 31 bits.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// A socket known to the ring: by its index in the ring's table, which avoids looking up the descriptor each
/// time, or by the descriptor if the table is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    fd: RawFd,
    place: Option<u32>,
}

impl Socket {
    /// Creates a socket that the ring looks up by its descriptor each time. It closes with the descriptor
    /// once no operation is pending.
    pub fn of(fd: RawFd) -> Self {
        Socket { fd, place: None }
    }
}

/// Received bytes. The buffer must be returned or sent before the pool can reuse it.
#[derive(Debug)]
pub struct Buffer {
    place: u16,
    length: u32,
}

/// A message that the next call sends.
struct Message {
    token: u64,
    bytes: Vec<u8>,
    from: usize,
    /// Result reported by the kernel; `None` if everything was sent.
    result: Option<i32>,
}

/// A ring with its pool of buffers. It belongs to the thread that created it.
pub struct Ring {
    ring: ManuallyDrop<IoUring>,
    pool: Pool,
    /// Token, length and result of each buffer that is being sent.
    sending: Vec<(u64, u32, i32)>,
    /// Buffers that the next call sends.
    to_send: Vec<u16>,
    /// Completions that were not handled yet.
    completions: Vec<(u64, i32, u32)>,
    handled: usize,
    handed_over: bool,
    messages: Vec<Message>,
    unsent: VecDeque<UnsentMessage>,
    /// Number of pending receives and sends.
    pending: usize,
    /// Free indices of the table of sockets.
    free: Vec<u32>,
    /// Whether the kernel supports waits that do not count as I/O wait.
    no_iowait: bool,
}

impl Ring {
    /// Creates a ring with `buffers` buffers (a power of two, at most 32,768) of `buffer_bytes` bytes each.
    ///
    /// # Errors
    /// If the system has no io_uring with these features, or does not permit it to this process.
    pub fn new(buffers: u16, buffer_bytes: u32) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let mut pool = Pool::new(buffers, buffer_bytes)?;
        // SAFETY: the ring of entries has the given length and is never unmapped.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                pool.entries as u64,
                buffers,
                GROUP,
                0,
            )?;
        }
        for place in 0..buffers {
            pool.give_back(place);
        }
        // The system may allow fewer files or none. Sockets then use their descriptors.
        let registered = ring.submitter().register_files_sparse(SOCKETS);
        let free = registered.map_or_else(|_| Vec::new(), |()| (0..SOCKETS).rev().collect());
        Ok(Ring {
            no_iowait: ring.params().is_feature_no_iowait(),
            ring: ManuallyDrop::new(ring),
            pool,
            sending: vec![(0, 0, 0); usize::from(buffers)],
            to_send: Vec::new(),
            completions: Vec::new(),
            handled: 0,
            handed_over: true,
            messages: Vec::new(),
            unsent: VecDeque::new(),
            pending: 0,
            free,
        })
    }

    /// Registers a socket. While it is registered, closing its descriptor does not close it.
    pub fn register(&mut self, fd: RawFd) -> Socket {
        let place = self.free.pop().filter(|place| {
            let update = self.ring.submitter().register_files_update(*place, &[fd]);
            update.is_ok()
        });
        Socket { fd, place }
    }

    /// Unregisters a socket. Only cancelled operations may be pending.
    pub fn unregister(&mut self, socket: Socket) {
        if let Some(place) = socket.place
            && (self.ring.submitter().register_files_update(place, &[-1])).is_ok()
        {
            self.free.push(place);
        }
    }

    /// Starts to receive from this socket, until the operation is cancelled.
    ///
    /// # Errors
    /// If the submission fails.
    pub fn receive(&mut self, socket: Socket, token: u64) -> io::Result<()> {
        let entry = match socket.place {
            Some(place) => opcode::RecvMulti::new(Fixed(place), GROUP).build(),
            None => opcode::RecvMulti::new(Fd(socket.fd), GROUP).build(),
        };
        self.pending += 1;
        self.push(&entry.user_data(KIND_RECEIVE | token))
    }

    /// Cancels a receive operation. Bytes already received still arrive.
    ///
    /// # Errors
    /// If the submission fails.
    pub fn stop(&mut self, token: u64) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(KIND_RECEIVE | token).build();
        self.push(&entry.user_data(KIND_CANCEL))
    }

    /// Watches a descriptor, and reports each time it becomes readable.
    ///
    /// # Errors
    /// If the submission fails.
    pub fn watch(&mut self, fd: RawFd, token: u64) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).multi(true);
        self.push(&entry.build().user_data(KIND_WATCH | token))
    }

    /// Sends a buffer with the next system call, as far as it fits. Until its completion, nothing else may be
    /// sent to the socket, which must stay open until [`Self::submit`].
    ///
    /// # Errors
    /// If the submission fails.
    pub fn send(&mut self, socket: Socket, token: u64, buffer: Buffer) -> io::Result<()> {
        // The buffer belongs to the ring until its completion.
        let (bytes, length) = (self.pool.bytes(&buffer).as_ptr(), buffer.length);
        let entry =
            send_entry(socket, bytes, length).user_data(KIND_SEND | u64::from(buffer.place));
        let all = i32::try_from(buffer.length).unwrap_or(i32::MAX);
        self.sending[usize::from(buffer.place)] = (token, buffer.length, all);
        self.push(&entry)?;
        self.to_send.push(buffer.place);
        self.pending += 1;
        Ok(())
    }

    /// Sends bytes from `from` on with the next system call, as far as they fit. The result is reported by
    /// [`Self::next_unsent`] only, which must be called after that system call and before another send to the
    /// socket.
    ///
    /// # Errors
    /// If the submission fails.
    pub fn send_message(
        &mut self,
        socket: Socket,
        token: u64,
        bytes: Vec<u8>,
        from: usize,
    ) -> io::Result<()> {
        let message = &bytes[from..];
        if message.is_empty() {
            return Ok(());
        }
        if message.len() > MESSAGE_BYTES_MAX {
            let rest = message.to_vec();
            let broken = None;
            self.unsent.push_back(UnsentMessage {
                token,
                rest,
                broken,
            });
            return Ok(());
        }
        // A full queue would be submitted in between, and the numbering of messages would restart.
        if self.ring.submission().is_full() {
            self.submit()?;
        }
        let number = self.messages.len() as u64;
        let entry = send_entry(socket, message.as_ptr(), message.len() as u32);
        self.push(&entry.user_data(KIND_SEND | MESSAGE_FLAG | number))?;
        // The bytes stay at their address until they are submitted. They are sent within that system call or
        // not at all, so the kernel does not read them later.
        self.messages.push(Message {
            token,
            bytes,
            from,
            result: None,
        });
        Ok(())
    }

    /// Returns the next message that was not sent completely, in the order of submission.
    pub fn next_unsent(&mut self) -> Option<UnsentMessage> {
        self.unsent.pop_front()
    }

    /// Whether no receive or send is pending. Only watches can complete.
    pub fn is_idle(&self) -> bool {
        self.pending == 0 && self.handled == self.completions.len()
    }

    /// Returns the received bytes.
    #[inline]
    pub fn bytes(&self, buffer: &Buffer) -> &[u8] {
        self.pool.bytes(buffer)
    }

    /// Returns a buffer to the pool.
    #[inline]
    pub fn return_buffer(&mut self, buffer: Buffer) {
        self.pool.give_back(buffer.place);
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: descriptors are open until they are submitted, as their owner ensures. Buffers belong
            // to the pool, which is never unmapped.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.handed_over = false;
                return Ok(());
            }
            self.submit_pending()?;
        }
    }

    /// Submits all operations without waiting. Descriptors can be closed afterwards.
    ///
    /// # Errors
    /// If the submission fails.
    pub fn submit(&mut self) -> io::Result<()> {
        while !self.handed_over {
            self.submit_pending()?;
        }
        Ok(())
    }

    fn submit_pending(&mut self) -> io::Result<()> {
        let submitted = self.ring.submit();
        self.take_completions(submitted)
    }

    /// Submits all operations and yields the processor to other runnable threads. Peers that received data
    /// may then have replied before [`Self::wait`], which must follow at once.
    pub fn submit_and_yield(&mut self) {
        // An error repeats in the wait, which submits the rest.
        let _ = self.ring.submit();
        // SAFETY: no memory is involved.
        unsafe { libc::sched_yield() };
    }

    /// Returns an upper bound of the received buffers that were not handled yet.
    pub fn received_max(&self) -> usize {
        let unseen = self.completions[self.handled..].iter();
        unseen
            .filter(|one| one.0 & KIND_MASK == KIND_RECEIVE)
            .count()
    }

    /// Returns the number of buffers that the next call sends.
    pub fn to_send(&self) -> usize {
        self.to_send.len()
    }

    /// Submits all operations, and waits for a completion other than a complete send, for at most this many
    /// nanoseconds if given.
    ///
    /// # Errors
    /// If the system call fails, except by a signal.
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        let waited = match timeout_ns {
            _ if self.handled < self.completions.len() => self.ring.submit(),
            None => self.enter(None),
            Some(ns) => {
                let timeout = Timespec::new()
                    .sec(ns / 1_000_000_000)
                    .nsec((ns % 1_000_000_000) as u32);
                self.enter(Some(&SubmitArgs::new().timespec(&timeout)))
            }
        };
        self.take_completions(waited)
    }

    /// Submits, and waits for one completion. A thread that waits on a receiving ring counts as waiting for a
    /// disk, in `/proc/stat` and `/proc/pressure/io`, unless `IORING_ENTER_NO_IOWAIT` of `io_uring_enter(2)`
    /// is set (from 6.15 on).
    fn enter(&mut self, arguments: Option<&SubmitArgs>) -> io::Result<usize> {
        let mut flags = EnterFlags::GETEVENTS;
        flags.set(EnterFlags::EXT_ARG, arguments.is_some());
        flags.set(EnterFlags::NO_IOWAIT, self.no_iowait);
        let to_submit = self.ring.submission().len() as u32;
        // SAFETY: the arguments point to data that outlives the call, and have the type that `EXT_ARG`
        // requires.
        unsafe { (self.ring.submitter()).enter(to_submit, 1, flags.bits(), arguments) }
    }

    /// Moves completions out of the queue. If the queue had overflowed, the kernel submitted nothing, and the
    /// call is repeated after the queue is read.
    fn take_completions(&mut self, result: io::Result<usize>) -> io::Result<()> {
        if let Err(error) = result
            && !is_temporary(&error)
        {
            return Err(error);
        }
        self.handed_over = self.ring.submission().is_empty();
        if self.handled == self.completions.len() {
            self.completions.clear();
            self.handled = 0;
        }
        for entry in self.ring.completion() {
            let (user_data, result) = (entry.user_data(), entry.result());
            match user_data & KIND_MASK {
                KIND_SEND if user_data & MESSAGE_FLAG != 0 => {
                    let number = (user_data & !(KIND_MASK | MESSAGE_FLAG)) as usize;
                    if let Some(message) = self.messages.get_mut(number) {
                        message.result = Some(result);
                    }
                }
                KIND_SEND => self.sending[usize::from(user_data as u16)].2 = result,
                _ => self.completions.push((user_data, result, entry.flags())),
            }
        }
        if self.handed_over {
            for place in self.to_send.drain(..) {
                let sent = self.sending[usize::from(place)].2;
                self.completions
                    .push((KIND_SEND | u64::from(place), sent, 0));
            }
            let unsent_part = self.messages.drain(..).filter_map(unsent_part);
            self.unsent.extend(unsent_part);
        }
        Ok(())
    }

    /// Returns the next completion.
    pub fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let &(user_data, result, flags) = self.completions.get(self.handled)?;
            self.handled += 1;
            let token = user_data & !KIND_MASK;
            let armed = cqueue::more(flags);
            return Some(match user_data & KIND_MASK {
                KIND_SEND => {
                    self.pending -= 1;
                    let place = user_data as u16;
                    let (token, length, _) = self.sending[usize::from(place)];
                    Completion::Sent {
                        token,
                        buffer: Buffer { place, length },
                        sent: io_result(result),
                    }
                }
                KIND_WATCH => Completion::Readable { token, armed },
                KIND_RECEIVE => {
                    self.pending -= usize::from(!armed);
                    match (cqueue::buffer_select(flags), io_result(result)) {
                        (Some(place), Ok(received)) if received > 0 => Completion::Received {
                            token,
                            buffer: Buffer {
                                place,
                                length: received as u32,
                            },
                            armed,
                        },
                        (taken, other) => {
                            // The kernel may have taken a buffer for an empty receive.
                            if let Some(place) = taken {
                                self.pool.give_back(place);
                            }
                            stopped_completion(token, other)
                        }
                    }
                }
                // The cancelled operation has its own completion.
                _ => continue,
            });
        }
    }
}

/// Creates a send that writes as much as fits, and is reported only if that is not everything.
fn send_entry(socket: Socket, bytes: *const u8, length: u32) -> squeue::Entry {
    let how = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
    let entry = match socket.place {
        Some(place) => opcode::Send::new(Fixed(place), bytes, length)
            .flags(how)
            .build(),
        None => opcode::Send::new(Fd(socket.fd), bytes, length)
            .flags(how)
            .build(),
    };
    entry.flags(squeue::Flags::SKIP_SUCCESS)
}

/// Returns the part of a message that was not sent, if any.
fn unsent_part(message: Message) -> Option<UnsentMessage> {
    let (sent, broken) = match io_result(message.result?) {
        Ok(sent) => (sent, None),
        Err(error) if is_temporary(&error) || is_out_of_memory(&error) => (0, None),
        Err(error) => (0, Some(error)),
    };
    let rest = message.bytes[message.from + sent..].to_vec();
    let token = message.token;
    (!rest.is_empty()).then_some(UnsentMessage {
        token,
        rest,
        broken,
    })
}

fn stopped_completion(token: u64, result: io::Result<usize>) -> Completion {
    let why = match result {
        Ok(_) => StopReason::End,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::ECANCELED | libc::EAGAIN | libc::EINTR) => {
                StopReason::Paused
            }
            _ => StopReason::Broken(error),
        },
    };
    Completion::Stopped { token, why }
}

fn io_result(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// Whether the error is temporary: a signal, a timeout, or an overflow of the completion queue.
fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)
    )
}

/// Whether the system is temporarily out of memory.
fn is_out_of_memory(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOBUFS))
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the ring is not used after this. The pool stays mapped, since the kernel may still write to
        // it.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}

#[cfg(test)]
mod tests;
