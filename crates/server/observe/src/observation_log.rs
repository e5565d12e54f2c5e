//! Writes the rows of all probes through one writer, which is locked for each row. Converts the times of rows
//! to the time of the run.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use clock::Clock;
use run::{
    Activity, ArchiveError, Blocking, Counter, LockCount, ObservedWriter, ProbeNote, ProbeState,
    SampleWindow, SampledStatement, StatementStatistics,
};
use sql::{Fingerprint, Fingerprinter, classify};

/// Returns the time since a replay's start, in nanoseconds; negative before it.
pub type RunTime = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Most recent activity, for a live view.
#[derive(Debug, Clone, Default)]
pub struct LatestActivity {
    /// Last complete window, if any.
    pub window: Option<SampleWindow>,
    /// Activities in its samples.
    pub activity: Arc<[Activity]>,
}

/// Accepts rows from any thread.
pub(crate) struct ObservationLog {
    inner: Mutex<Inner>,
    clock: Arc<dyn Clock>,
    time: OnceLock<RunTime>,
}

struct Inner {
    writer: Option<ObservedWriter>,
    /// First write error. Nothing is written after it.
    error: Option<ArchiveError>,
    fingerprinter: Fingerprinter,
    /// Rows from before the replay's start, with times of the clock.
    pending: Vec<PendingRow>,
    latest: LatestActivity,
}

enum PendingRow {
    Note(ProbeNote),
    Counter(Counter),
}

impl ObservationLog {
    pub(crate) fn new(writer: ObservedWriter, clock: Arc<dyn Clock>) -> Self {
        ObservationLog {
            inner: Mutex::new(Inner {
                writer: Some(writer),
                error: None,
                fingerprinter: Fingerprinter::new(),
                pending: Vec::new(),
                latest: LatestActivity::default(),
            }),
            clock,
            time: OnceLock::new(),
        }
    }

    /// Sets the run's time for all rows, including those that came before.
    pub(crate) fn start(&self, time: RunTime) {
        let mut inner = self.lock();
        let behind_ns = self.clock.now_ns() - time();
        if self.time.set(time).is_err() {
            return;
        }
        for pending in std::mem::take(&mut inner.pending) {
            match pending {
                PendingRow::Note(mut note) => {
                    note.at_ns -= behind_ns;
                    inner.write(|writer| writer.note(&note));
                }
                PendingRow::Counter(mut counter) => {
                    counter.at_ns -= behind_ns;
                    inner.write(|writer| writer.counter(&counter));
                }
            }
        }
    }

    /// Returns the current time as stored in rows.
    pub(crate) fn now_ns(&self) -> i64 {
        self.time
            .get()
            .map_or_else(|| self.clock.now_ns(), |time| time())
    }

    /// Converts a time of the clock to that of rows.
    pub(crate) fn run_time_of(&self, clock_ns: i64) -> i64 {
        self.now_ns() - (self.clock.now_ns() - clock_ns)
    }

    /// Returns the clock's time, by which probes are scheduled.
    pub(crate) fn clock_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    /// Whether a write error has stopped all writing.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock().error.is_some()
    }

    pub(crate) fn note(&self, probe: &str, state: ProbeState, text: impl Into<String>) {
        self.add_note(ProbeNote {
            probe: probe.to_owned(),
            state,
            text: text.into(),
            ..ProbeNote::default()
        });
    }

    /// Adds a note with the current time.
    pub(crate) fn add_note(&self, note: ProbeNote) {
        let note = ProbeNote {
            at_ns: self.now_ns(),
            ..note
        };
        let mut inner = self.lock();
        match self.time.get() {
            Some(_) => inner.write(|writer| writer.note(&note)),
            None => inner.pending.push(PendingRow::Note(note)),
        }
    }

    pub(crate) fn add_counter(&self, counter: Counter) {
        let mut inner = self.lock();
        match self.time.get() {
            Some(_) => inner.write(|writer| writer.counter(&counter)),
            None => inner.pending.push(PendingRow::Counter(counter)),
        }
    }

    pub(crate) fn add_statistics(&self, rows: &[StatementStatistics]) {
        let mut inner = self.lock();
        inner.write(|writer| rows.iter().try_for_each(|row| writer.statistics(row)));
    }

    pub(crate) fn add_locks(&self, rows: &[LockCount]) {
        let mut inner = self.lock();
        inner.write(|writer| rows.iter().try_for_each(|row| writer.locks(row)));
    }

    pub(crate) fn add_blocking(&self, rows: &[Blocking]) {
        let mut inner = self.lock();
        inner.write(|writer| rows.iter().try_for_each(|row| writer.blocking(row)));
    }

    pub(crate) fn add_window(&self, window: SampleWindow, activity: Vec<Activity>) {
        let mut inner = self.lock();
        inner.write(|writer| writer.window(&window, &activity));
        inner.latest = LatestActivity {
            window: Some(window),
            activity: activity.into(),
        };
    }

    pub(crate) fn latest(&self) -> LatestActivity {
        self.lock().latest.clone()
    }

    /// Returns the fingerprint of a statement's text, and records the text at its first appearance.
    pub(crate) fn fingerprint(&self, sql: &str, cut: bool) -> Fingerprint {
        let mut inner = self.lock();
        let fingerprint = inner.fingerprinter.fingerprint(sql);
        let known = inner
            .writer
            .as_ref()
            .is_some_and(|one| one.has_statement(fingerprint));
        if !known {
            let statement = SampledStatement {
                fingerprint,
                class: classify(sql),
                sql: inner.fingerprinter.normalise(sql).to_owned(),
                is_truncated: cut,
            };
            inner.write(|writer| writer.seen(&statement));
        }
        fingerprint
    }

    /// Writes the rows so far, so that they survive a kill.
    pub(crate) fn flush(&self) {
        // Rows from before the start are lost with a kill before the start, as is the replay.
        self.lock().write(ObservedWriter::flush);
    }

    /// Returns the writer.
    ///
    /// # Errors
    /// If an earlier write failed.
    pub(crate) fn finish(&self) -> Result<Option<ObservedWriter>, ArchiveError> {
        if self.time.get().is_none() {
            // The replay never started, so times count from now.
            let end_ns = self.clock.now_ns();
            let clock = self.clock.clone();
            self.start(Arc::new(move || clock.now_ns() - end_ns));
        }
        let mut inner = self.lock();
        let left_out = inner.writer.as_ref().map_or(0, ObservedWriter::left_out);
        if left_out > 0 {
            let note = ProbeNote {
                probe: "activity".to_owned(),
                state: ProbeState::Remark,
                text: "texts of statements left out, as there were too many different ones"
                    .to_owned(),
                count: Some(left_out),
                ..ProbeNote::default()
            };
            inner.write(|writer| writer.note(&note));
        }
        match inner.error.take() {
            Some(error) => Err(error),
            None => Ok(inner.writer.take()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A probe that panics has written complete rows only.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, write: impl FnOnce(&mut ObservedWriter) -> Result<(), ArchiveError>) {
        if self.error.is_some() {
            return;
        }
        if let Some(writer) = &mut self.writer {
            self.error = write(writer).err();
        }
    }
}
