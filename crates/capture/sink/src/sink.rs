//! Defines the destination of captured events.

use workload::series::{HeldEvent, PossibleGap};
use workload::{ArchiveError, Event, EventRef, ServerEvent, Session, WorkloadWriter};

/// Error of a sink, in the words for the user.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SinkError(Box<dyn std::error::Error + Send + Sync>);

impl SinkError {
    /// Wraps the sink's own error.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        SinkError(error.into())
    }
}

/// Facts about a session that has no event yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionStart<'a> {
    /// As [`Session::id`].
    pub id: u64,
    /// As [`Session::client`].
    pub client: &'a str,
    /// As [`Session::start_seen`].
    pub start_seen: bool,
    /// Identity of its server process, which is the same if the source is read again; 0 if it is unknown.
    pub process: u64,
}

/// Receives the events of a source. Times are wall time, microseconds since 1970-01-01 UTC. Within
/// a session `sequence` counts from 0 without gaps and `due_us` never decreases; between sessions
/// events come in any order. A session comes after its last event. The first error ends the
/// capture.
pub trait EventSink {
    /// Handles one event.
    ///
    /// # Errors
    /// If it cannot be stored; the capture ends.
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError>;

    /// Handles what is known about a session before its first event. A filter in front of a sink does not pass it on.
    ///
    /// # Errors
    /// If it cannot be stored; the capture ends.
    fn session_begins(&mut self, start: SessionStart<'_>) -> Result<(), SinkError> {
        let _ = start;
        Ok(())
    }

    /// Handles one session that has ended, or that was still open at the source's end.
    ///
    /// # Errors
    /// If it cannot be stored; the capture ends.
    fn session(&mut self, session: Session) -> Result<(), SinkError>;

    /// Handles one server event. They come in any order.
    ///
    /// # Errors
    /// If it cannot be stored; the capture ends.
    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError>;

    /// Returns whether the sink needs [`Self::held`].
    fn needs_held(&self) -> bool {
        false
    }

    /// Handles the events that the source has read and not delivered, since later ones may change them. The source calls it after each read.
    fn held(&mut self, held: &mut dyn Iterator<Item = HeldEvent>) {
        let _ = held;
    }

    /// Notes that the source has logs of several servers, whose events are not in the order of time.
    ///
    /// # Errors
    /// If it cannot be stored; the capture ends.
    fn note_several_servers(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Notes the times for which a file of the source may be missing: all that are known so far.
    ///
    /// # Errors
    /// If they cannot be stored; the capture ends.
    fn note_possible_gaps(&mut self, gaps: &[PossibleGap]) -> Result<(), SinkError> {
        let _ = gaps;
        Ok(())
    }

    /// Returns whether the sink is so fast that reading ahead in another thread costs more than it
    /// saves.
    fn only_counts(&self) -> bool {
        false
    }
}

impl EventSink for WorkloadWriter {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        WorkloadWriter::event(self, event).map_err(from_archive_error)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        WorkloadWriter::session(self, session).map_err(from_archive_error)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        WorkloadWriter::server_event(self, event).map_err(from_archive_error)
    }
}

fn from_archive_error(error: ArchiveError) -> SinkError {
    SinkError::new(error)
}

/// A sink that only counts, for checking a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounter {
    /// Number of events.
    pub events: u64,
    /// Number of those events that are statements.
    pub statements: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of server events.
    pub server_events: u64,
    /// The first and the last time of all these, in microseconds since 1970-01-01 UTC.
    pub times_us: Option<(i64, i64)>,
}

impl EventCounter {
    /// Duration from the first to the last time, in microseconds.
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

impl EventSink for EventCounter {
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
pub struct EventCollector {
    /// Events in the order of arrival.
    pub events: Vec<Event>,
    /// Sessions in the order of arrival.
    pub sessions: Vec<Session>,
    /// Server events in the order of arrival.
    pub server_events: Vec<ServerEvent>,
}

impl EventSink for EventCollector {
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
