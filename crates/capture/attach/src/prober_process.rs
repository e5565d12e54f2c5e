//! The process that holds the privileges, as its parent sees it.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use crate::attached_server::AttachedServer;
use crate::capture::AttachError;
use crate::record::{RecordKind, RecordReader};

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
    /// If the prober cannot attach.
    pub fn wait_until_attached(mut self) -> Result<AttachedProber, AttachError> {
        let output = self.0.stdout.take();
        let output = output.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let mut records = RecordReader::new(output);
        let (server, attached_ns) = match records.next()? {
            Some(record) if record.kind == RecordKind::Attached => {
                let server = AttachedServer::decode(record.pid, record.data);
                (server, record.time_ns)
            }
            Some(record) => {
                let reason = String::from_utf8_lossy(record.data).into_owned();
                return Err(AttachError::Prober(reason));
            }
            None => return Err(AttachError::ProberEnded(self.wait()?.to_string())),
        };
        // From now on, a prober that stops within a record must not block the reader.
        rustix::io::ioctl_fionbio(records.input(), true).map_err(io::Error::from)?;
        Ok(AttachedProber {
            process: self,
            records,
            server,
            attached_ns,
        })
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
