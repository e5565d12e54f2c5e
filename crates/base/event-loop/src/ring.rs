//! Sockets read and written through a ring that is shared with the kernel (io_uring): one call hands
//! over all that is to be sent, and waits for what comes, or two, where others are let go first.
//!
//! Bytes arrive in buffers of a pool, and a buffer that arrived can be sent as it is. A send takes
//! what there is room for and never waits: it is over when the call that handed it over returns, and the
//! kernel tells of it only where not all was sent (`MSG_DONTWAIT` with `MSG_WAITALL`).
//!
//! Facts from `io_uring(7)`, `io_uring_setup(2)` (deferred work: Linux 6.1) and
//! `io_uring_register(2)` (rings of buffers).

mod pool;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use pool::Pool;

/// What is handed over at once.
const SUBMISSIONS: u32 = 256;
/// Sockets that have a place in the ring's own table.
const SOCKETS: u32 = 1024;
/// What may have happened until it is looked at; what is more waits in the kernel.
const COMPLETIONS: u32 = 4096;
/// The one pool of a ring.
const GROUP: u16 = 0;

/// The two highest bits tell what a completion is of; tokens have to leave them free.
const KIND: u64 = 3 << 62;
const OF_RECEIVE: u64 = 0;
const OF_SEND: u64 = 1 << 62;
const OF_WATCH: u64 = 2 << 62;
const OF_CANCEL: u64 = 3 << 62;
/// Of a send that it is of a message, and not of a buffer.
const OF_MESSAGE: u64 = 1 << 61;
/// No longer message is handed over at once: a send tells no more than 31 bits.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// A socket that the ring knows: by a place in its own table, which spares it to look the descriptor up
/// each time, or by the descriptor where the table is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    fd: RawFd,
    place: Option<u32>,
}

impl Socket {
    /// A socket that the ring looks up by its descriptor each time, and that is closed with it once nothing
    /// is under way.
    pub fn of(fd: RawFd) -> Self {
        Socket { fd, place: None }
    }
}

/// Bytes that arrived. It has to be given back, or sent, for others to arrive in its place.
#[derive(Debug)]
pub struct Buffer {
    place: u16,
    length: u32,
}

/// What has happened.
#[derive(Debug)]
pub enum Happened {
    /// Bytes arrived; `armed`: what follows arrives as well.
    Received {
        /// As it was asked for.
        token: u64,
        /// The bytes.
        buffer: Buffer,
        /// What follows arrives as well.
        armed: bool,
    },
    /// Nothing more arrives until it is asked for again.
    Stopped {
        /// As it was asked for.
        token: u64,
        /// Why.
        why: Stopped,
    },
    /// A buffer was sent, as far as there was room.
    Sent {
        /// As it was given.
        token: u64,
        /// What was sent.
        buffer: Buffer,
        /// So many bytes of it; `WouldBlock` where there was no room at all.
        sent: io::Result<usize>,
    },
    /// A descriptor that is watched is readable.
    Readable {
        /// As it was given.
        token: u64,
        /// It is watched on.
        armed: bool,
    },
}

/// Why nothing more arrives.
#[derive(Debug)]
pub enum Stopped {
    /// The peer sends nothing more.
    End,
    /// All buffers of the pool are taken, or it was asked to stop.
    Paused,
    /// The connection is broken.
    Broken(io::Error),
}

/// A message that was to be sent and was not, or not all of it.
#[derive(Debug)]
pub struct Unsent {
    /// As it was given.
    pub token: u64,
    /// What was not sent.
    pub rest: Vec<u8>,
    /// What the connection ended with; nothing where there was no room.
    pub broken: Option<io::Error>,
}

/// What is sent by the next call.
struct Message {
    token: u64,
    bytes: Vec<u8>,
    from: usize,
    /// What the kernel told: nothing where all was sent.
    told: Option<i32>,
}

/// A ring, and its pool of buffers. It belongs to the thread that made it.
pub struct Ring {
    ring: ManuallyDrop<IoUring>,
    pool: Pool,
    /// Of each buffer that is being sent, whose it is, how long, and what became of it.
    sending: Vec<(u64, u32, i32)>,
    /// What is sent by the next call.
    to_send: Vec<u16>,
    /// What has happened and was not looked at.
    happened: Vec<(u64, i32, u32)>,
    looked_at: usize,
    handed_over: bool,
    messages: Vec<Message>,
    unsent: VecDeque<Unsent>,
    /// Receives and sends that have not ended.
    under_way: usize,
    /// Places for sockets that are free.
    free: Vec<u32>,
    /// The kernel can be told that waiting here is for no disk.
    no_iowait: bool,
}

impl Ring {
    /// One with so many buffers (a power of two, at most 32,768) of so many bytes each.
    ///
    /// # Errors
    /// Where the system has no io_uring that can this, or does not let this process use it.
    pub fn new(buffers: u16, buffer_bytes: u32) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let mut pool = Pool::new(buffers, buffer_bytes)?;
        // SAFETY: the ring of entries is as long as is said, and is never unmapped.
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
        // The system may allow fewer files, or none here: then sockets go by their descriptors.
        let registered = ring.submitter().register_files_sparse(SOCKETS);
        let free = registered.map_or_else(|_| Vec::new(), |()| (0..SOCKETS).rev().collect());
        Ok(Ring {
            no_iowait: ring.params().is_feature_no_iowait(),
            ring: ManuallyDrop::new(ring),
            pool,
            sending: vec![(0, 0, 0); usize::from(buffers)],
            to_send: Vec::new(),
            happened: Vec::new(),
            looked_at: 0,
            handed_over: true,
            messages: Vec::new(),
            unsent: VecDeque::new(),
            under_way: 0,
            free,
        })
    }

    /// Makes a socket known to the ring. As long as it is, closing its descriptor does not close it.
    pub fn know(&mut self, fd: RawFd) -> Socket {
        let place = self.free.pop().filter(|place| {
            let update = self.ring.submitter().register_files_update(*place, &[fd]);
            update.is_ok()
        });
        Socket { fd, place }
    }

    /// Forgets a socket, of which nothing is under way but what was stopped.
    pub fn forget(&mut self, socket: Socket) {
        if let Some(place) = socket.place
            && (self.ring.submitter().register_files_update(place, &[-1])).is_ok()
        {
            self.free.push(place);
        }
    }

    /// Has whatever comes at this socket arrive, until it is stopped.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn receive(&mut self, socket: Socket, token: u64) -> io::Result<()> {
        let entry = match socket.place {
            Some(place) => opcode::RecvMulti::new(Fixed(place), GROUP).build(),
            None => opcode::RecvMulti::new(Fd(socket.fd), GROUP).build(),
        };
        self.under_way += 1;
        self.push(&entry.user_data(OF_RECEIVE | token))
    }

    /// Has nothing more arrive; what is under way still does.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn stop(&mut self, token: u64) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(OF_RECEIVE | token).build();
        self.push(&entry.user_data(OF_CANCEL))
    }

    /// Tells whenever this descriptor is readable anew.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn watch(&mut self, fd: RawFd, token: u64) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).multi(true);
        self.push(&entry.build().user_data(OF_WATCH | token))
    }

    /// Sends a buffer, as far as there is room, at the next call of the kernel. Until it is told to be
    /// sent, nothing else may be sent to that socket, which must stay open until [`Self::hand_over`].
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn send(&mut self, socket: Socket, token: u64, buffer: Buffer) -> io::Result<()> {
        // The buffer belongs to the ring until it is told to be sent.
        let (bytes, length) = (self.pool.bytes(&buffer).as_ptr(), buffer.length);
        let entry = sending(socket, bytes, length).user_data(OF_SEND | u64::from(buffer.place));
        let all = i32::try_from(buffer.length).unwrap_or(i32::MAX);
        self.sending[usize::from(buffer.place)] = (token, buffer.length, all);
        self.push(&entry)?;
        self.to_send.push(buffer.place);
        self.under_way += 1;
        Ok(())
    }

    /// Sends bytes from `from` on, as far as there is room, at the next call of the kernel. Nothing is told
    /// of them but by [`Self::next_unsent`], which is to be asked after that call and before anything else
    /// is sent to the socket.
    ///
    /// # Errors
    /// Where the system refuses.
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
            self.unsent.push_back(Unsent {
                token,
                rest,
                broken,
            });
            return Ok(());
        }
        // A full ring would be handed over in between, and the messages' numbers with it.
        if self.ring.submission().is_full() {
            self.hand_over()?;
        }
        let number = self.messages.len() as u64;
        let entry = sending(socket, message.as_ptr(), message.len() as u32);
        self.push(&entry.user_data(OF_SEND | OF_MESSAGE | number))?;
        // The bytes stay where they are until they were handed over. They are sent within that call or not
        // at all: nobody looks at them later.
        self.messages.push(Message {
            token,
            bytes,
            from,
            told: None,
        });
        Ok(())
    }

    /// The next message that was not sent, or not all of it, in the order in which they were given.
    pub fn next_unsent(&mut self) -> Option<Unsent> {
        self.unsent.pop_front()
    }

    /// Whether nothing is received nor sent: only what is watched can happen.
    pub fn is_idle(&self) -> bool {
        self.under_way == 0 && self.looked_at == self.happened.len()
    }

    /// The bytes that arrived.
    #[inline]
    pub fn bytes(&self, buffer: &Buffer) -> &[u8] {
        self.pool.bytes(buffer)
    }

    /// Others may arrive in its place.
    #[inline]
    pub fn give_back(&mut self, buffer: Buffer) {
        self.pool.give_back(buffer.place);
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: descriptors are open until they are handed over, which who closes them sees to;
            // buffers belong to the pool, which is never unmapped.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.handed_over = false;
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Hands over what was asked for, without waiting: descriptors can be closed then.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn hand_over(&mut self) -> io::Result<()> {
        while !self.handed_over {
            self.submit()?;
        }
        Ok(())
    }

    fn submit(&mut self) -> io::Result<()> {
        let submitted = self.ring.submit();
        self.returned(submitted)
    }

    /// Hands over what was asked for and lets others run that want this processor, if there are any: those that were
    /// just sent something may have answered when [`Self::wait`] looks, which is to follow at once.
    pub fn give_way(&mut self) {
        // An error is told by the wait, which hands over what is left.
        let _ = self.ring.submit();
        // SAFETY: no memory is involved.
        unsafe { libc::sched_yield() };
    }

    /// How many pieces have arrived and were not looked at, at most.
    pub fn arrived(&self) -> usize {
        let unseen = self.happened[self.looked_at..].iter();
        unseen.filter(|one| one.0 & KIND == OF_RECEIVE).count()
    }

    /// How many buffers are sent at the next call.
    pub fn to_send(&self) -> usize {
        self.to_send.len()
    }

    /// Hands over what was asked for, and waits until something else has happened than that all was sent,
    /// for at most this many nanoseconds where they are given.
    ///
    /// # Errors
    /// Where the system refuses; a signal is none.
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        let waited = match timeout_ns {
            _ if self.looked_at < self.happened.len() => self.ring.submit(),
            None => self.enter(None),
            Some(ns) => {
                let timeout = Timespec::new()
                    .sec(ns / 1_000_000_000)
                    .nsec((ns % 1_000_000_000) as u32);
                self.enter(Some(&SubmitArgs::new().timespec(&timeout)))
            }
        };
        self.returned(waited)
    }

    /// Hands over, and waits for one completion. Who waits by a ring that receives is taken for one that waits for a
    /// disk, in `/proc/stat` and `/proc/pressure/io`, unless the kernel is told otherwise (`IORING_ENTER_NO_IOWAIT` of
    /// `io_uring_enter(2)`, from 6.15 on).
    fn enter(&mut self, arguments: Option<&SubmitArgs>) -> io::Result<usize> {
        let mut flags = EnterFlags::GETEVENTS;
        flags.set(EnterFlags::EXT_ARG, arguments.is_some());
        flags.set(EnterFlags::NO_IOWAIT, self.no_iowait);
        let to_submit = self.ring.submission().len() as u32;
        // SAFETY: what the arguments point to outlives the call, and they are of the type that `EXT_ARG` asks for.
        unsafe { (self.ring.submitter()).enter(to_submit, 1, flags.bits(), arguments) }
    }

    /// Takes over what the kernel has told. Where it has more to tell than there is space for, it has
    /// taken nothing, and will when that was read.
    fn returned(&mut self, result: io::Result<usize>) -> io::Result<()> {
        if let Err(error) = result
            && !is_passing(&error)
        {
            return Err(error);
        }
        self.handed_over = self.ring.submission().is_empty();
        if self.looked_at == self.happened.len() {
            self.happened.clear();
            self.looked_at = 0;
        }
        for entry in self.ring.completion() {
            let (told, result) = (entry.user_data(), entry.result());
            match told & KIND {
                OF_SEND if told & OF_MESSAGE != 0 => {
                    let number = (told & !(KIND | OF_MESSAGE)) as usize;
                    if let Some(message) = self.messages.get_mut(number) {
                        message.told = Some(result);
                    }
                }
                OF_SEND => self.sending[usize::from(told as u16)].2 = result,
                _ => self.happened.push((told, result, entry.flags())),
            }
        }
        if self.handed_over {
            for place in self.to_send.drain(..) {
                let sent = self.sending[usize::from(place)].2;
                self.happened.push((OF_SEND | u64::from(place), sent, 0));
            }
            let not_sent = self.messages.drain(..).filter_map(not_sent);
            self.unsent.extend(not_sent);
        }
        Ok(())
    }

    /// The next of what has happened.
    pub fn next_happened(&mut self) -> Option<Happened> {
        loop {
            let &(told, result, flags) = self.happened.get(self.looked_at)?;
            self.looked_at += 1;
            let token = told & !KIND;
            let armed = cqueue::more(flags);
            return Some(match told & KIND {
                OF_SEND => {
                    self.under_way -= 1;
                    let place = told as u16;
                    let (token, length, _) = self.sending[usize::from(place)];
                    Happened::Sent {
                        token,
                        buffer: Buffer { place, length },
                        sent: of(result),
                    }
                }
                OF_WATCH => Happened::Readable { token, armed },
                OF_RECEIVE => {
                    self.under_way -= usize::from(!armed);
                    match (cqueue::buffer_select(flags), of(result)) {
                        (Some(place), Ok(received)) if received > 0 => Happened::Received {
                            token,
                            buffer: Buffer {
                                place,
                                length: received as u32,
                            },
                            armed,
                        },
                        (taken, other) => {
                            // The kernel may have taken one for nothing.
                            if let Some(place) = taken {
                                self.pool.give_back(place);
                            }
                            stopped(token, other)
                        }
                    }
                }
                // What was to be stopped tells so itself.
                _ => continue,
            });
        }
    }
}

/// A send that takes what there is room for, and tells only where that is not all.
fn sending(socket: Socket, bytes: *const u8, length: u32) -> squeue::Entry {
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

/// What of a message was not sent, if anything.
fn not_sent(message: Message) -> Option<Unsent> {
    let (sent, broken) = match of(message.told?) {
        Ok(sent) => (sent, None),
        Err(error) if is_passing(&error) || is_scarcity(&error) => (0, None),
        Err(error) => (0, Some(error)),
    };
    let rest = message.bytes[message.from + sent..].to_vec();
    let token = message.token;
    (!rest.is_empty()).then_some(Unsent {
        token,
        rest,
        broken,
    })
}

fn stopped(token: u64, result: io::Result<usize>) -> Happened {
    let why = match result {
        Ok(_) => Stopped::End,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::ECANCELED | libc::EAGAIN | libc::EINTR) => Stopped::Paused,
            _ => Stopped::Broken(error),
        },
    };
    Happened::Stopped { token, why }
}

fn of(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// A signal, the end of a wait, or more than the kernel wants to tell before it is listened to.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)
    )
}

/// The system has no memory for it now.
fn is_scarcity(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOBUFS))
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it is not used after this. The pool stays mapped: the kernel may still be writing to it.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}

#[cfg(test)]
mod tests;
