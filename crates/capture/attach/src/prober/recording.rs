//! The loop of the prober: reads the ring buffer, writes records, and follows restarts of the server.

use super::attachment::{Attachment, Counters, RecordedProcess};
use super::error::ProbeError;
use super::ring_buffer::Drained;
use super::{ProberOptions, host};
use crate::attached_server::AttachedServer;
use crate::record::{DATA_BYTES_MAX, FLAG_EXISTING, HEADER_BYTES, Record, RecordKind};
use crate::server_process::{
    self, ServerProcess, ServerSelection, read_foreign, working_directory,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pause after which the ring buffer is read again, in nanoseconds.
const PAUSE_NS: i64 = 10_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Interval of the records that report progress, in nanoseconds.
const PROGRESS_NS: u64 = SECOND_NS / 10;
/// Time between the clock's value of a record and its end, in nanoseconds, with a large reserve.
const RECORDING_NS: u64 = 1_000_000;
/// Maximum number of pauses at the end, while a record is not complete.
const END_ROUNDS: u32 = 300;
/// Bytes of records that are written at once.
const WRITE_BYTES: usize = 256 * 1024;

/// Writes records to the pipe.
struct RecordWriter {
    pipe: File,
    buffer: Vec<u8>,
}

impl RecordWriter {
    fn new(pipe: BorrowedFd<'_>) -> Result<Self, ProbeError> {
        let pipe = pipe.try_clone_to_owned().map_err(ProbeError::Output)?;
        Ok(RecordWriter {
            pipe: File::from(pipe),
            buffer: Vec::with_capacity(2 * WRITE_BYTES),
        })
    }

    fn write(&mut self, record: &Record<'_>) {
        record.encode(&mut self.buffer);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes why the recording ends, as far as the pipe takes it.
    fn write_failure(&mut self, error: &ProbeError) {
        let mut message = error.to_string();
        message.truncate(message.floor_char_boundary(DATA_BYTES_MAX));
        self.write(&Record {
            kind: RecordKind::Failed,
            pid: 0,
            backend_started: 0,
            time_ns: now_ns(ClockId::Monotonic),
            offset: 0,
            existing: false,
            data: message.as_bytes(),
        });
        // The reader may be the reason of the failure.
        let _ = self.flush();
    }

    /// Writes a sample of the ring buffer, whose layout is that of a record with unused space at its end.
    fn write_sample(&mut self, sample: &[u8], attached: u64) -> io::Result<()> {
        let at = self.buffer.len();
        let length = u32::from_le_bytes([32, 33, 34, 35].map(|at: usize| sample[at]));
        self.buffer
            .extend_from_slice(&sample[..HEADER_BYTES + length as usize]);
        let started = sample[8..].first_chunk().expect("samples have a header");
        if u64::from_le_bytes(*started) < attached {
            self.buffer[at + 36] |= FLAG_EXISTING as u8;
        }
        if self.buffer.len() > WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }
}

/// State of the recorded server.
enum ServerState {
    Running {
        process: ServerProcess,
        /// Readable when the postmaster ends.
        end: OwnedFd,
    },
    Stopped {
        /// Text of its `postmaster.pid` at the last search.
        lock_file: Option<String>,
        next_search_ns: u64,
    },
}

/// Facts by which a restarted server is recognised, if its data directory was mounted anew.
#[derive(Debug, PartialEq, Eq)]
struct ServerIdentity {
    /// User of the process. Another user's process could pretend to be the server.
    user: u32,
    /// Path of the data directory, as the server sees it.
    data_directory: PathBuf,
    /// System identifier of the cluster.
    system_identifier: Option<u64>,
}

impl ServerIdentity {
    fn of(process: &ServerProcess) -> Self {
        ServerIdentity {
            user: process.user,
            data_directory: process.data_directory.clone(),
            system_identifier: server_process::system_identifier(process.pid),
        }
    }
}

/// Recording in progress.
struct Recording {
    kernel: Attachment,
    output: RecordWriter,
    ring_bytes: u64,
    server: ServerState,
    /// Identity of the server, by which it is found after a restart.
    identity: ServerIdentity,
    /// Data directory of the server, which stays open when the server ends.
    data_directory: File,
    /// Time of `CLOCK_BOOTTIME` at which the probes recorded this server, in nanoseconds.
    attached: u64,
    /// Counters when the positions of processes were written last.
    placed: Counters,
    next_progress_ns: u64,
    next_positions_ns: u64,
}

/// Records until `input` is readable, and reports a failure as a record, too.
pub(super) fn run(
    options: &ProberOptions,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
) -> Result<(), ProbeError> {
    let mut recording = match Recording::start(options, output) {
        Ok(recording) => recording,
        Err(error) => {
            RecordWriter::new(output)?.write_failure(&error);
            return Err(error);
        }
    };
    let result = recording.run(input);
    if let Err(error) = &result
        && !matches!(error, ProbeError::Output(_))
    {
        recording.kernel.detach();
        // The reason of the end is the first error.
        let _ = recording.drain();
        recording.output.write_failure(error);
    }
    result
}

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64
}

impl Recording {
    fn start(options: &ProberOptions, output: BorrowedFd<'_>) -> Result<Self, ProbeError> {
        host::check()?;
        let process = server_process::find(&options.server)?;
        let mut kernel = Attachment::load(options.ring_bytes)?;
        let data_directory = File::open(working_directory(process.pid))
            .map_err(|error| host::refusal("open the server's data directory", error))?;
        let end = watch(&process)?;
        // Another process can have got its number before it was watched.
        if !server_process::is_unchanged(&process) {
            return Err(ProbeError::Restarted);
        }
        kernel.attach(process.pid)?;
        let mut recording = Recording {
            kernel,
            output: RecordWriter::new(output)?,
            ring_bytes: u64::from(options.ring_bytes),
            identity: ServerIdentity::of(&process),
            server: ServerState::Running { process, end },
            data_directory,
            attached: now_ns(ClockId::Boottime),
            placed: Counters::default(),
            next_progress_ns: 0,
            next_positions_ns: 0,
        };
        recording.write_server(RecordKind::Attached);
        Ok(recording)
    }

    fn run(&mut self, input: BorrowedFd<'_>) -> Result<(), ProbeError> {
        loop {
            let now = now_ns(ClockId::Monotonic);
            let drained = self.drain()?;
            if drained.is_complete && now >= self.next_progress_ns {
                self.write_progress(now - RECORDING_NS)?;
                self.next_progress_ns = now + PROGRESS_NS;
            }
            if now >= self.next_positions_ns {
                self.next_positions_ns = now + SECOND_NS;
                self.place_losses()?;
            }
            self.follow_server(now)?;
            self.output.flush().map_err(ProbeError::Output)?;
            let is_busy = drained.bytes > self.ring_bytes / 4;
            if self.wait(input, if is_busy { 0 } else { PAUSE_NS })? {
                return self.finish();
            }
        }
    }

    /// Waits for the next round. Returns whether the recording is to end.
    fn wait(&mut self, input: BorrowedFd<'_>, pause_ns: i64) -> Result<bool, ProbeError> {
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: pause_ns,
        };
        let mut descriptors = vec![PollFd::from_borrowed_fd(input, PollFlags::IN)];
        if let ServerState::Running { end, .. } = &self.server {
            descriptors.push(PollFd::new(end, PollFlags::IN));
        }
        match poll(&mut descriptors, Some(&pause)) {
            Ok(_) => Ok(!descriptors[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(host::refusal("wait for the server", error.into())),
        }
    }

    fn drain(&mut self) -> Result<Drained, ProbeError> {
        let (output, attached) = (&mut self.output, self.attached);
        let drained = self
            .kernel
            .ring
            .drain(|sample| output.write_sample(sample, attached));
        drained.map_err(ProbeError::Output)
    }

    /// Writes the loss so far, and that all records before a time are written.
    fn write_progress(&mut self, time_ns: u64) -> Result<(), ProbeError> {
        let counters = self.kernel.counters()?;
        let counted_ns = now_ns(ClockId::Monotonic);
        let data = [counters.untracked_calls, counted_ns].map(u64::to_le_bytes);
        self.output.write(&Record {
            kind: RecordKind::Progress,
            pid: 0,
            backend_started: 0,
            time_ns,
            offset: counters.lost_bytes,
            existing: false,
            data: data.as_flattened(),
        });
        Ok(())
    }

    /// Writes the positions of the processes that lost bytes, if there is a new loss.
    fn place_losses(&mut self) -> Result<(), ProbeError> {
        let counters = self.kernel.counters()?;
        if counters != self.placed && self.write_positions(|process| process.lost > 0)? {
            self.placed = counters;
        }
        Ok(())
    }

    /// Writes the byte counts of processes, and the ends that had no record. Returns false, and writes nothing, if the
    /// records that the counts include are not all complete.
    fn write_positions(
        &mut self,
        selects: impl Fn(&RecordedProcess) -> bool,
    ) -> Result<bool, ProbeError> {
        // In this order: what the counts include is in the ring buffer or lost. A record of another process that is not
        // complete can be before it.
        let Some(processes) = self.kernel.processes()? else {
            return Ok(false);
        };
        if !self.drain()?.is_complete {
            return Ok(false);
        }
        for process in processes {
            let kind = match process.ended {
                Some(_) => RecordKind::Closed,
                None if selects(&process) => RecordKind::Position,
                None => continue,
            };
            // The record of its end may precede this one.
            if !self.kernel.is_recorded(&process)? {
                continue;
            }
            let counts = [process.read.to_le_bytes(), process.written.to_le_bytes()].concat();
            self.output.write(&Record {
                kind,
                pid: process.pid,
                backend_started: process.started,
                time_ns: process.ended.unwrap_or_else(|| now_ns(ClockId::Monotonic)),
                offset: process.read,
                existing: process.started < self.attached,
                data: &counts,
            });
            if process.ended.is_some() {
                self.kernel.forget(&process)?;
            }
        }
        Ok(true)
    }

    fn write_server(&mut self, kind: RecordKind) {
        let ServerState::Running { process, .. } = &self.server else {
            return;
        };
        let description = match kind {
            RecordKind::Attached => describe(process).encode(),
            _ => Vec::new(),
        };
        self.output.write(&Record {
            kind,
            pid: process.pid,
            backend_started: self.attached,
            time_ns: now_ns(ClockId::Monotonic),
            offset: 0,
            existing: false,
            data: &description,
        });
    }

    /// Notices the end of the server and its next start.
    fn follow_server(&mut self, now: u64) -> Result<(), ProbeError> {
        match &mut self.server {
            ServerState::Running { end, .. } => {
                if is_ended(end)? {
                    self.kernel.forget_postmaster()?;
                    self.write_server(RecordKind::Detached);
                    // It may have been started again already.
                    self.server = ServerState::Stopped {
                        lock_file: None,
                        next_search_ns: now,
                    };
                }
            }
            ServerState::Stopped { .. } => {
                if self.is_search_due(now)
                    && let Some(process) = self.find_again()
                {
                    self.attach_again(process)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the server's `postmaster.pid` without its last lines, which change while the server runs.
    fn lock_file(&self) -> Option<String> {
        let directory = self.data_directory.as_raw_fd();
        let path = format!("/proc/self/fd/{directory}/postmaster.pid");
        let text = read_foreign(Path::new(&path)).ok()?;
        Some(text.lines().take(3).collect::<Vec<_>>().join("\n"))
    }

    /// Whether the processes of this host are to be searched: if `postmaster.pid` is a new one, and each second.
    fn is_search_due(&mut self, now: u64) -> bool {
        let current = self.lock_file();
        let ServerState::Stopped {
            lock_file,
            next_search_ns,
        } = &mut self.server
        else {
            return false;
        };
        let is_new = current.is_some() && current != *lock_file;
        if !is_new && now < *next_search_ns {
            return false;
        }
        *lock_file = current;
        *next_search_ns = now + SECOND_NS;
        true
    }

    /// Searches the server in the same directory, and if that fails, in the same path. The number or the port that the user named
    /// is not used: another server can have it now.
    fn find_again(&self) -> Option<ServerProcess> {
        let directory = format!("/proc/self/fd/{}", self.data_directory.as_raw_fd());
        let in_directory = |path| server_process::find(&ServerSelection::DataDirectory(path)).ok();
        let same = in_directory(directory.into());
        same.filter(|process| process.user == self.identity.user)
            .or_else(|| {
                let found = in_directory(self.identity.data_directory.clone());
                found.filter(|process| ServerIdentity::of(process) == self.identity)
            })
    }

    fn attach_again(&mut self, process: ServerProcess) -> Result<(), ProbeError> {
        // A server that ended since is searched again.
        let Ok(end) = watch(&process) else {
            return Ok(());
        };
        if !server_process::is_unchanged(&process) {
            return Ok(());
        }
        if let Ok(directory) = File::open(working_directory(process.pid)) {
            self.data_directory = directory;
        }
        if let Err(error) = self.kernel.attach(process.pid) {
            // It may have ended meanwhile, as in a failed start.
            return if is_ended(&end)? { Ok(()) } else { Err(error) };
        }
        // Also without new probes, the earlier sessions of this server are not recorded from their first byte.
        self.attached = now_ns(ClockId::Boottime);
        self.server = ServerState::Running { process, end };
        self.write_server(RecordKind::Attached);
        Ok(())
    }

    /// Ends the recording: removes the probes, and writes what the ring buffer still has.
    fn finish(&mut self) -> Result<(), ProbeError> {
        self.kernel.detach();
        let mut rounds = 0;
        while !self.write_positions(|_| true)? {
            rounds += 1;
            if rounds == END_ROUNDS {
                return Err(ProbeError::Incomplete {
                    bytes: self.kernel.ring.unread_bytes(),
                });
            }
            std::thread::sleep(Duration::from_nanos(PAUSE_NS as u64));
        }
        self.write_progress(now_ns(ClockId::Monotonic))?;
        self.output.write(&Record {
            kind: RecordKind::Ended,
            pid: 0,
            backend_started: 0,
            time_ns: now_ns(ClockId::Monotonic),
            offset: 0,
            existing: false,
            data: &[],
        });
        self.output.flush().map_err(ProbeError::Output)
    }
}

/// Describes a server to the process that decodes.
fn describe(process: &ServerProcess) -> AttachedServer {
    let mount_namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    AttachedServer {
        postmaster: process.pid,
        port: process.port,
        is_of_this_host: mount_namespace("self") == mount_namespace(&process.pid.to_string()),
        data_directory: process.data_directory.clone(),
    }
}

/// Returns a descriptor that is readable when the postmaster ends.
fn watch(process: &ServerProcess) -> Result<OwnedFd, ProbeError> {
    let pid = Pid::from_raw(process.pid as i32).expect("a process has a number");
    pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| host::refusal("watch the server's process", error.into()))
}

fn is_ended(end: &OwnedFd) -> Result<bool, ProbeError> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut descriptors = [PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN)];
    poll(&mut descriptors, Some(&now))
        .map_err(|error| host::refusal("watch the server's process", error.into()))?;
    Ok(!descriptors[0].revents().is_empty())
}
