//! `--roll`: captures that write a series of workloads.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use capture_recorder::{FinishedRecording, Recording};
use capture_sink::series::{SeriesError, SeriesOptions, SeriesRecorder, SeriesWatch};
use capture_sink::{EventSink, SessionStart, SinkError};
use transform::mask::Mask;
use workload::series::Series;
use workload::{
    CapturedServer, EventRef, Provenance, Recipient, ServerEvent, Session, StartingPoint,
    WorkloadInfo,
};

use crate::options::roll::RollArgs;
use crate::terminal;

/// Source of a series, and protection of what it holds.
pub(super) struct SeriesSource {
    pub(super) kind: &'static str,
    pub(super) is_live: bool,
    pub(super) is_pipe: bool,
    pub(super) recipients: Vec<Recipient>,
    pub(super) mask: Option<Mask>,
    pub(super) starting_point: Option<StartingPoint>,
    pub(super) servers: Vec<CapturedServer>,
}

/// Converts the options of the command line.
pub(super) fn series_options(
    roll: &RollArgs,
    output: &Path,
    source: SeriesSource,
) -> SeriesOptions {
    SeriesOptions {
        path: output.to_owned(),
        roll: roll.roll.unwrap_or(Duration::ZERO),
        retention: roll.retention(),
        append: roll.append,
        is_live: source.is_live,
        is_pipe: source.is_pipe,
        recipients: source.recipients,
        mask: source.mask,
        provenance: Provenance {
            source_kind: source.kind.to_owned(),
            servers: source.servers,
            ..Provenance::default()
        },
        starting_point: source.starting_point,
        watch: SeriesWatch::default(),
        on_note: Arc::new(terminal::note),
    }
}

/// Recording of live traffic that is written to a series.
pub(super) struct SeriesRecording {
    recorder: SeriesRecorder,
}

impl SeriesRecording {
    /// Creates the series, or continues it.
    ///
    /// # Errors
    /// As [`SeriesRecorder::create`].
    pub(super) fn create(options: SeriesOptions) -> Result<Self, SeriesError> {
        let recorder = SeriesRecorder::create(options)?;
        Ok(SeriesRecording { recorder })
    }
}

impl EventSink for SeriesRecording {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        self.recorder.event(event)
    }

    fn session_begins(&mut self, start: SessionStart<'_>) -> Result<(), SinkError> {
        self.recorder.session_begins(start)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        self.recorder.session(session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        self.recorder.server_event(event)
    }
}

impl Recording for SeriesRecording {
    fn name(&self) -> String {
        self.recorder.path().display().to_string()
    }

    fn checkpoint(&mut self, up_to_us: i64) -> Result<(), SinkError> {
        self.recorder.checkpoint(up_to_us)?;
        self.recorder.advance(up_to_us)
    }

    fn note_provenance(&mut self, provenance: Provenance) {
        self.recorder.note_provenance(provenance);
    }

    fn series(&self) -> Option<SeriesWatch> {
        Some(self.recorder.watch())
    }

    fn finish(self: Box<Self>, provenance: Provenance) -> Result<WorkloadInfo, SinkError> {
        let status = self.recorder.finish(provenance)?;
        Ok(WorkloadInfo {
            sessions: status.sessions,
            events: status.events,
            statements: status.statements,
            ..WorkloadInfo::default()
        })
    }
}

/// Completes the parts of a recording that ended early, if the disk now allows that.
pub(super) fn recover_series(finished: &mut FinishedRecording) {
    let series = match Series::open(Path::new(&finished.name)) {
        Ok(series) => series,
        Err(error) => {
            terminal::note(&format!(
                "the parts in progress were not recovered: {error}; use `rehearse recover` for each .partial in {}",
                finished.name
            ));
            return;
        }
    };
    // The parts before it have their share of the account.
    let provenance = Provenance {
        reconciliation: Default::default(),
        ..finished.provenance.clone()
    };
    let mut parts = series.unfinished.iter();
    if parts.all(|part| workload::recover_as(&part.path, provenance.clone()).is_ok()) {
        finished.mark_recovered(&WorkloadInfo {
            sessions: finished.sessions,
            events: finished.events,
            statements: finished.statements,
            ..WorkloadInfo::default()
        });
    }
}
