//! Records copies of live traffic: those that a proxy forwards, or that probes copy on the server's host.
//!
//! ```text
//! sources (forwarders, probes) ─► MirrorQueue ─► recorder thread ─► ProtocolDecoder ─► Recording
//!                                  (dropped if there is no room, and counted)          (a workload)
//! ```
//!
//! [`Recorder::start`] creates a [`MirrorQueue`] for each source and starts the thread. It starts and stops recordings on
//! request ([`RecordingControl`]). A capture that is slow, fails or panics never makes a source wait.

mod capture_event;
mod capture_status;
mod mirror;
mod recorder_thread;
mod recording;
mod wall_clock;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use capture_wire::conversation::DecoderOptions;
use crossbeam_channel::{Sender, bounded, unbounded};
use workload::CapturedServer;

pub use capture_event::CaptureEvent;
pub use capture_status::{CaptureStatus, FinishedRecording, RecordingState, RecordingStatus};
use mirror::{CHUNK_BYTES, MirrorState};
pub use mirror::{MirrorQueue, MirroredConnection, Totals};
use recorder_thread::{Action, Command, RecorderParts};
pub use recording::{
    IncompleteRange, OpenRecording, Recording, RecordingAccount, SessionGap, SessionGaps,
};
pub use wall_clock::WallClock;

/// Receives the events of a capture. It must not block.
pub type OnCaptureEvent = Arc<dyn Fn(CaptureEvent) + Send + Sync>;

/// A source of copies. It owns a [`MirrorQueue`], usually on a thread of its own. After the end of the source, requests are
/// ignored.
pub trait MirrorSource: Send + Sync {
    /// Requests a call of [`MirrorQueue::flush`].
    fn request_flush(&self);

    /// Requests a call of [`MirrorQueue::add_mark`] for a command, after all traffic before the request.
    fn request_mark(&self, command: u64);
}

/// Origin that recordings state in their manifest.
#[derive(Debug, Clone, Default)]
pub struct RecordingOrigin {
    /// Kind of the source, such as `proxy`.
    pub kind: &'static str,
    /// Name of the source, such as the server's address.
    pub name: String,
    /// Identification of the captured servers.
    pub servers: Vec<CapturedServer>,
    /// Options of the capture.
    pub options: BTreeMap<String, String>,
}

/// Options of a recorder.
pub struct RecorderOptions {
    /// Clock of the times in the queues.
    pub clock: Arc<WallClock>,
    /// Sources of copies.
    pub sources: Vec<Arc<dyn MirrorSource>>,
    /// Maximum size of copies that wait, in bytes; further ones are dropped.
    pub buffer_bytes: usize,
    /// Details to record in addition to the statements.
    pub conversation: DecoderOptions,
    /// Opens recordings.
    pub open: OpenRecording,
    /// Origin of the recordings.
    pub origin: RecordingOrigin,
    /// Receives the events.
    pub on_event: OnCaptureEvent,
}

/// A running recorder. It ends when the queues of all sources are dropped.
pub struct Recorder {
    thread: JoinHandle<()>,
    control: RecordingControl,
    status: CaptureStatusReader,
}

/// Reads the status of a capture. Clones read the same one.
#[derive(Clone)]
pub struct CaptureStatusReader {
    mirrors: Vec<Arc<MirrorState>>,
    status: Arc<Mutex<CaptureStatus>>,
}

impl CaptureStatusReader {
    /// Returns the current status.
    pub fn status(&self) -> CaptureStatus {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.clone()
    }

    /// Returns the number of bytes whose copies were dropped, recorded or not.
    pub fn lost_bytes(&self) -> u64 {
        let lost = |mirror: &Arc<MirrorState>| mirror.lost_bytes.load(Ordering::Relaxed);
        self.mirrors.iter().map(lost).sum()
    }
}

/// Starts and stops recordings. Clones control the same recorder.
#[derive(Clone)]
pub struct RecordingControl {
    sources: Vec<Arc<dyn MirrorSource>>,
    commands: Sender<Command>,
    next: Arc<AtomicU64>,
}

/// Maximum duration of a command: a disk may be slow.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of chunks kept for reuse.
const POOLED_CHUNKS: usize = 8;

impl Recorder {
    /// Starts the recorder. Returns the queues of the sources, in their order.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn start(options: RecorderOptions) -> io::Result<(Self, Vec<MirrorQueue>)> {
        let chunk_limit = (options.buffer_bytes / CHUNK_BYTES).max(2);
        let (chunks, received) = bounded(chunk_limit);
        let (commands, commanded) = unbounded();
        let (mut queues, mut free, mut mirrors) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..options.sources.len() {
            let state = Arc::new(MirrorState::default());
            let (returned, spare) = bounded(POOLED_CHUNKS);
            queues.push(MirrorQueue::new(
                index,
                chunks.clone(),
                spare,
                state.clone(),
            ));
            free.push(returned);
            mirrors.push(state);
        }
        let status = CaptureStatusReader {
            mirrors: mirrors.clone(),
            status: Arc::default(),
        };
        let control = RecordingControl {
            sources: options.sources.clone(),
            commands,
            next: Arc::new(AtomicU64::new(1)),
        };
        let parts = RecorderParts {
            clock: options.clock,
            chunks: received,
            free,
            mirrors,
            sources: options.sources,
            commands: commanded,
            status: status.status.clone(),
            on_event: options.on_event,
            open: options.open,
            conversation: options.conversation,
            origin: options.origin,
        };
        let thread = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || recorder_thread::run(parts))?;
        let recorder = Recorder {
            thread,
            control,
            status,
        };
        Ok((recorder, queues))
    }

    /// Returns a handle for starting and stopping recordings.
    pub fn control(&self) -> RecordingControl {
        self.control.clone()
    }

    /// Returns a handle for reading the status.
    pub fn status_reader(&self) -> CaptureStatusReader {
        self.status.clone()
    }

    /// Waits until the sources have ended, and the recording is complete.
    pub fn join(self) {
        // A panic is in the status.
        let _ = self.thread.join();
    }
}

impl RecordingControl {
    /// Starts a recording at this point of the traffic. Returns its path.
    ///
    /// # Errors
    /// If a recording exists already, it cannot be created, or the capture does not answer.
    pub fn start_recording(&self) -> Result<String, String> {
        self.command(Action::Start)
    }

    /// Stops the recording at this point of the traffic, and completes it. Returns its path.
    ///
    /// # Errors
    /// If there is no recording, it cannot be completed, or the capture does not answer.
    pub fn stop_recording(&self) -> Result<String, String> {
        self.command(Action::Stop)
    }

    fn command(&self, action: Action) -> Result<String, String> {
        let (reply, replied) = bounded(1);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let broken = || "the capture has broken down".to_owned();
        let command = Command {
            number,
            action,
            reply,
        };
        self.commands.send(command).map_err(|_| broken())?;
        for source in &self.sources {
            source.request_mark(number);
        }
        match replied.recv_timeout(COMMAND_TIMEOUT) {
            Ok(reply) => reply,
            Err(error) if error.is_timeout() => Err(format!(
                "the capture has not answered for {} s; is its disk slow?",
                COMMAND_TIMEOUT.as_secs()
            )),
            Err(_) => Err(broken()),
        }
    }
}
