//! Runs a capture by probes: the prober's process, the thread that reads its records, and the recorder.

use std::collections::BTreeMap;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use capture_recorder::{
    CaptureStatusReader, MirrorSource, OpenRecording, Recorder, RecorderOptions, RecordingControl,
    RecordingOrigin, WallClock,
};
use capture_wire::conversation::DecoderOptions;
use crossbeam_channel::{Receiver, bounded};
use workload::CapturedServer;

use crate::attach_status::{AttachCounters, AttachEvent, AttachStatus};
use crate::reader::{Reader, ReaderInbox, ReaderMessage, ReaderParts, descriptor};
use crate::record::{RecordKind, RecordReader};
use crate::sessions::{SessionIdentities, Sessions};

/// Maximum number of unread events. Further ones are dropped; the important ones are in the status as well.
const UNREAD_MAX: usize = 1024;
/// Maximum time for the prober to write its last records.
const PROBER_END_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of looking whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Options of a capture by probes.
#[derive(Debug, Clone, Default)]
pub struct AttachOptions {
    /// Server, as the user named it.
    pub server: String,
    /// Identification of the server for the manifest.
    pub servers: Vec<CapturedServer>,
    /// Maximum size of copies that wait for the recorder, in bytes. Beyond it, the pipe is not read.
    pub buffer_bytes: usize,
    /// Details to record in addition to the statements.
    pub conversation: DecoderOptions,
    /// Leaves out the sessions that existed before the probes were attached.
    pub new_sessions_only: bool,
    /// Logins of sessions that existed before.
    pub identities: SessionIdentities,
    /// Options of the capture that recordings list in their manifest.
    pub options: BTreeMap<String, String>,
}

/// Reason why a capture by probes does not run.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The prober refuses, in its own words.
    #[error("{0}")]
    Prober(String),
    /// The prober has ended without a reason.
    #[error("the prober has ended ({0}) before it was attached; see its message above")]
    ProberEnded(String),
    /// The system refuses a resource.
    #[error("the capture cannot start: {0}")]
    System(#[from] io::Error),
}

/// The process that holds the privileges. It ends when this is dropped, since its standard input then ends.
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
}

/// A running capture by probes.
pub struct Attach {
    prober: ProberProcess,
    recorder: Recorder,
    reader: JoinHandle<Option<String>>,
    inbox: Arc<ReaderInbox>,
    status: AttachStatusReader,
    events: Receiver<AttachEvent>,
    on_event: Arc<dyn Fn(AttachEvent) + Send + Sync>,
}

/// Reads the status of a capture. Clones read the same one.
#[derive(Clone)]
pub struct AttachStatusReader {
    server: String,
    counters: Arc<Mutex<AttachCounters>>,
    failure: Arc<Mutex<Option<String>>>,
    capture: CaptureStatusReader,
}

impl AttachStatusReader {
    /// Returns the current status.
    pub fn status(&self) -> AttachStatus {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        AttachStatus {
            server: self.server.clone(),
            counters: *self.counters.lock().unwrap_or_else(PoisonError::into_inner),
            lost_bytes: self.capture.lost_bytes(),
            prober_failure: failure.clone(),
            capture: self.capture.status(),
        }
    }
}

impl Attach {
    /// Waits until the prober is attached. Nothing is read until [`Self::begin_reading`], and a recording that is started before
    /// has everything since the attach.
    ///
    /// # Errors
    /// If the prober cannot attach, or the system has no thread.
    pub fn start(
        mut prober: ProberProcess,
        options: AttachOptions,
        open: OpenRecording,
    ) -> Result<Self, AttachError> {
        let clock = Arc::new(WallClock::start());
        let output = prober.0.stdout.take();
        let output = output.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let pipe = descriptor(&output);
        let mut records = RecordReader::new(output);
        let (inbox, messages) = ReaderInbox::new()?;
        let (event_sender, events) = bounded(UNREAD_MAX);
        let on_event: Arc<dyn Fn(AttachEvent) + Send + Sync> = Arc::new(move |event| {
            let _ = event_sender.try_send(event);
        });
        let on_capture_event = on_event.clone();
        let (recorder, mut queues) = Recorder::start(RecorderOptions {
            clock: clock.clone(),
            sources: vec![inbox.clone() as Arc<dyn MirrorSource>],
            buffer_bytes: options.buffer_bytes,
            conversation: DecoderOptions {
                decrypted: true,
                ..options.conversation
            },
            open,
            origin: RecordingOrigin {
                kind: "attach",
                name: options.server.clone(),
                servers: options.servers,
                options: options.options,
            },
            on_event: Arc::new(move |event| on_capture_event(AttachEvent::Capture(event))),
        })?;
        let queue = queues.remove(0);
        let identities = options.identities;
        let mut sessions =
            Sessions::new(clock.clone(), queue, identities, options.new_sessions_only);
        let attached_ns = match records.next()? {
            Some(record) if record.kind == RecordKind::Failed => {
                let reason = String::from_utf8_lossy(record.data).into_owned();
                return Err(AttachError::Prober(reason));
            }
            Some(record) => {
                sessions.handle(&record);
                record.time_ns
            }
            None => {
                let status = prober.0.wait()?;
                return Err(AttachError::ProberEnded(status.to_string()));
            }
        };
        let counters = Arc::new(Mutex::new(sessions.counters));
        let reader = Reader::new(ReaderParts {
            attached_us: clock.at_monotonic_ns(attached_ns as i64),
            clock,
            pipe,
            records,
            inbox: inbox.clone(),
            messages,
            sessions,
            counters: counters.clone(),
            on_event: on_event.clone(),
        })?;
        let reader = std::thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || reader.run())?;
        Ok(Attach {
            status: AttachStatusReader {
                server: options.server,
                counters,
                failure: Arc::default(),
                capture: recorder.status_reader(),
            },
            prober,
            recorder,
            reader,
            inbox,
            events,
            on_event,
        })
    }

    /// Starts to read the prober's records.
    pub fn begin_reading(&self) {
        self.inbox.send(ReaderMessage::Read);
    }

    /// Returns a handle for starting and stopping recordings.
    pub fn control(&self) -> RecordingControl {
        self.recorder.control()
    }

    /// Returns a handle for reading the status.
    pub fn status_reader(&self) -> AttachStatusReader {
        self.status.clone()
    }

    /// Returns the events since the last call.
    pub fn take_events(&self) -> Vec<AttachEvent> {
        self.events.try_iter().collect()
    }

    /// Returns whether the prober has ended, and with it the capture.
    pub fn is_broken(&self) -> bool {
        self.reader.is_finished()
    }

    /// Ends the prober, reads its last records, and completes the recording. Returns the final status and the last events.
    pub fn end(mut self) -> (AttachStatus, Vec<AttachEvent>) {
        let was_broken = self.is_broken();
        drop(self.prober.0.stdin.take());
        self.inbox.send(ReaderMessage::Read);
        let attempts = PROBER_END_TIMEOUT.as_millis() / LOOK_EVERY.as_millis();
        for _ in 0..attempts {
            if self.reader.is_finished() {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let is_late = !self.reader.is_finished();
        self.inbox.send(ReaderMessage::Abandon);
        let failure = match self.reader.join() {
            Ok(failure) => failure,
            Err(_) => Some("the thread that reads it has broken down".to_owned()),
        };
        let failure = failure.or_else(|| {
            was_broken.then(|| match self.prober.0.wait() {
                Ok(status) => format!("it ended early ({status})"),
                Err(error) => format!("it ended early: {error}"),
            })
        });
        let failure = failure.or_else(|| {
            let limit = PROBER_END_TIMEOUT.as_secs();
            is_late.then(|| format!("it did not end within {limit} s"))
        });
        if let Some(reason) = failure {
            *self
                .status
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(reason.clone());
            (self.on_event)(AttachEvent::ProberEnded { reason });
        }
        self.recorder.join();
        // A prober that has ended must not stay as a zombie; one that has not is another user's.
        let _ = self.prober.0.try_wait();
        (self.status.status(), self.events.try_iter().collect())
    }
}

#[cfg(test)]
mod tests;
