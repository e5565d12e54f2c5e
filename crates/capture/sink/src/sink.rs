//! Where captured events go.

use workload::{ArchiveError, Event, EventRef, ServerEvent, Session, WorkloadWriter};

/// Why a sink took no more: its own error, as the user should read it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SinkError(Box<dyn std::error::Error + Send + Sync>);

impl SinkError {
    /// Wraps the sink's own error.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        SinkError(error.into())
    }
}

/// Takes what a source finds. The source drives; times are wall time, microseconds since
/// 1970-01-01 UTC. Within a session `sequence` counts from 0 without gaps and `due_us` never goes
/// back; between sessions events come in any order. A session comes after its last event. The
/// first error ends the capture.
pub trait EventSink {
    /// Takes one event.
    ///
    /// # Errors
    /// Where it cannot be kept; the capture ends.
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError>;

    /// Takes one session that has ended, or that was still open where the source ended.
    ///
    /// # Errors
    /// Where it cannot be kept; the capture ends.
    fn session(&mut self, session: Session) -> Result<(), SinkError>;

    /// Takes one thing that the server did. They come in any order.
    ///
    /// # Errors
    /// Where it cannot be kept; the capture ends.
    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError>;

    /// It takes so little time that another thread to read for it is not worth its cost.
    fn only_counts(&self) -> bool {
        false
    }
}

impl EventSink for WorkloadWriter {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        WorkloadWriter::event(self, event).map_err(archived)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        WorkloadWriter::session(self, session).map_err(archived)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        WorkloadWriter::server_event(self, event).map_err(archived)
    }
}

fn archived(error: ArchiveError) -> SinkError {
    SinkError::new(error)
}

/// A sink that counts and keeps nothing: what a check of a source needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Events taken.
    pub events: u64,
    /// Those of them that are statements.
    pub statements: u64,
    /// Sessions taken.
    pub sessions: u64,
    /// Things that the server did.
    pub server_events: u64,
    /// The first and the last time of all these, in microseconds since 1970-01-01 UTC.
    pub times_us: Option<(i64, i64)>,
}

impl Counted {
    /// From the first time to the last, in microseconds.
    pub fn span_us(&self) -> i64 {
        self.times_us
            .map_or(0, |(first_us, last_us)| last_us - first_us)
    }

    #[inline]
    fn at(&mut self, at_us: i64) {
        let (first_us, last_us) = self.times_us.unwrap_or((at_us, at_us));
        self.times_us = Some((first_us.min(at_us), last_us.max(at_us)));
    }
}

impl EventSink for Counted {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        self.events += 1;
        self.at(event.due_us);
        self.statements += u64::from(event.kind.is_statement());
        Ok(())
    }

    fn session(&mut self, _: Session) -> Result<(), SinkError> {
        self.sessions += 1;
        Ok(())
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        self.server_events += 1;
        self.at(event.at_us);
        Ok(())
    }

    fn only_counts(&self) -> bool {
        true
    }
}

/// A sink that keeps everything in memory: for tests and small sources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collected {
    /// The events, as they came.
    pub events: Vec<Event>,
    /// The sessions, as they ended.
    pub sessions: Vec<Session>,
    /// What the server did, as it came.
    pub server_events: Vec<ServerEvent>,
}

impl EventSink for Collected {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        self.events.push(event.to_event());
        Ok(())
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        self.sessions.push(session);
        Ok(())
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        self.server_events.push(event);
        Ok(())
    }
}
