//! The process that holds the privileges, as its parent sees it.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use clock::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::attached_server::AttachedServer;
use crate::capture::AttachError;
use crate::record::{PipeState, RecordKind, RecordReader};

/// Maximum time until the probes are attached, in nanoseconds.
const ATTACH_TIMEOUT_NS: i64 = 60_000_000_000;

/// A prober. It ends when this is dropped, since its standard input then ends.
#[derive(Debug)]
pub struct ProberProcess(Child);

impl ProberProcess {
    /// Starts a prober by a command that calls [`crate::prober::run`] with its standard input and output. Its messages go to
    /// the standard error.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        use std::os::unix::process::CommandExt;
        // Ctrl-C is for the parent, which then ends the prober.
        let command = command.process_group(0);
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(ProberProcess(child))
    }

    /// Waits until the probes are attached. From then on, its records must be read: call [`crate::Attach::start`] at once.
    ///
    /// # Errors
    /// If the prober cannot attach, does not attach within a minute, or `is_interrupted` returns true.
    pub fn wait_until_attached(
        mut self,
        is_interrupted: impl Fn() -> bool,
    ) -> Result<AttachedProber, AttachError> {
        let output = self.0.stdout.take();
        let output = output.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        // A prober that stops within a record must not block its reader.
        rustix::io::ioctl_fionbio(&output, true).map_err(io::Error::from)?;
        let mut records = RecordReader::new(output);
        let until_ns = monotonic_ns() + ATTACH_TIMEOUT_NS;
        loop {
            let first = records.next_buffered()?;
            let first = first.map(|it| (it.kind, it.pid, it.time_ns, it.data.to_vec()));
            match first {
                Some((RecordKind::Attached, pid, attached_ns, data)) => {
                    return Ok(AttachedProber {
                        process: self,
                        records,
                        server: AttachedServer::decode(pid, &data),
                        attached_ns,
                    });
                }
                Some((_, _, _, reason)) => {
                    let reason = String::from_utf8_lossy(&reason).into_owned();
                    return Err(AttachError::Prober(reason));
                }
                None => (),
            }
            if is_interrupted() {
                return Err(AttachError::Interrupted);
            }
            if monotonic_ns() > until_ns {
                return Err(AttachError::Silent { process: self.id() });
            }
            wait_for_input(records.input())?;
            if records.fill(0)? == PipeState::Ended {
                records.check_end()?;
                return Err(AttachError::ProberEnded(self.wait()?.to_string()));
            }
        }
    }

    /// Returns the process number.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Asks the prober to end.
    pub(crate) fn request_end(&mut self) -> Option<ChildStdin> {
        self.0.stdin.take()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }

    /// Reaps the process if it has ended, so that it does not stay as a zombie.
    pub(crate) fn reap(&mut self) {
        let _ = self.0.try_wait();
    }
}

/// A prober whose probes are attached.
pub struct AttachedProber {
    pub(crate) process: ProberProcess,
    pub(crate) records: RecordReader<ChildStdout>,
    /// Time of the attach in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) attached_ns: u64,
    server: AttachedServer,
}

impl AttachedProber {
    /// Returns the attached server.
    pub fn server(&self) -> &AttachedServer {
        &self.server
    }
}

/// Waits until a pipe has something, and for at most 100 ms.
fn wait_for_input(pipe: &ChildStdout) -> io::Result<()> {
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
