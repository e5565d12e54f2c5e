//! Runs a capture by probes: the prober's process, the thread that reads its records, and the recorder.

use std::collections::BTreeMap;
use std::io;
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
use crate::prober_process::{AttachedProber, ProberProcess};
use crate::reader::{Reader, ReaderEnd, ReaderInbox, ReaderMessage, ReaderParts};
use crate::sessions::{SessionIdentities, Sessions};

/// Maximum number of unread events. Further ones are dropped; the important ones are in the status as well.
const UNREAD_MAX: usize = 1024;
/// Maximum time at the end in which no record arrives.
const PROBER_END_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of polling for the prober's end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

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
    /// `application_name` of this program's own sessions, which are left out.
    pub own_application: String,
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
    #[error("the prober has ended without a reason ({0}) before it was attached; was it killed?")]
    ProberEnded(String),
    /// The prober does not attach in time.
    #[error(
        "the prober (process {process}) has not attached within 60 s; end it with kill -9, and look for what stopped it"
    )]
    Silent {
        /// Process number of the prober.
        process: u32,
    },
    /// The user has interrupted the wait for the prober.
    #[error("interrupted before the probes were attached; nothing is recorded")]
    Interrupted,
    /// The system refuses a resource.
    #[error("the capture cannot start: {0}")]
    System(#[from] io::Error),
}

/// A running capture by probes.
pub struct Attach {
    prober: ProberProcess,
    recorder: Recorder,
    reader: JoinHandle<ReaderEnd>,
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
            probe_warning: None,
            capture: self.capture.status(),
        }
    }
}

impl Attach {
    /// Starts to read the prober's records into memory. None is handled until [`Self::begin_reading`], and a recording that
    /// is started before has everything since the attach.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(
        prober: AttachedProber,
        options: AttachOptions,
        open: OpenRecording,
    ) -> Result<Self, AttachError> {
        let clock = Arc::new(WallClock::start());
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
        let (new_only, own) = (options.new_sessions_only, options.own_application);
        let mut sessions = Sessions::new(clock.clone(), queue, new_only, own);
        sessions.note_attached(prober.server().postmaster);
        let counters = Arc::new(Mutex::new(sessions.counters));
        let reader = Reader::new(ReaderParts {
            attached_us: clock.at_monotonic_ns(prober.attached_ns as i64),
            clock,
            records: prober.records,
            inbox: inbox.clone(),
            messages,
            sessions,
            counters: counters.clone(),
            on_event: on_event.clone(),
            held_bytes_max: options.buffer_bytes,
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
            prober: prober.process,
            recorder,
            reader,
            inbox,
            events,
            on_event,
        })
    }

    /// Starts to handle the prober's records, with the logins of sessions that existed before.
    pub fn begin_reading(&self, identities: SessionIdentities) {
        self.inbox.send(ReaderMessage::Read(identities));
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
        drop(self.prober.request_end());
        self.inbox
            .send(ReaderMessage::Read(SessionIdentities::default()));
        let is_late = !self.wait_for_reader();
        self.inbox.send(ReaderMessage::Abandon);
        let failure = match self.reader.join() {
            Ok(ReaderEnd::Failed(reason)) => Some(reason),
            Ok(ReaderEnd::Complete) if !was_broken => None,
            Ok(ReaderEnd::Abandoned) => None,
            Ok(ReaderEnd::Complete | ReaderEnd::Truncated) => Some(match self.prober.wait() {
                Ok(status) => format!("it ended early ({status}), so its last records are missing"),
                Err(error) => format!("it ended early ({error}), so its last records are missing"),
            }),
            Err(_) => Some("the thread that reads it has broken down".to_owned()),
        };
        let failure = failure.or_else(|| {
            is_late.then(|| {
                format!(
                    "it wrote nothing for {} s at the end, so its last records are missing; end its process {} to remove the probes",
                    PROBER_END_TIMEOUT.as_secs(),
                    self.prober.id()
                )
            })
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
        // A prober that has not ended is another user's, and cannot be killed.
        self.prober.reap();
        (self.status.status(), self.events.try_iter().collect())
    }

    /// Waits until the reader has ended. Returns whether it has; if not, nothing arrived for the permitted time.
    fn wait_for_reader(&self) -> bool {
        let attempts = PROBER_END_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
        let (mut handled, mut left) = (self.inbox.handled_records(), attempts);
        while left > 0 && !self.reader.is_finished() {
            std::thread::sleep(POLL_INTERVAL);
            left -= 1;
            let now_handled = self.inbox.handled_records();
            if now_handled != handled {
                (handled, left) = (now_handled, attempts);
            }
        }
        self.reader.is_finished()
    }
}

#[cfg(test)]
mod tests;
