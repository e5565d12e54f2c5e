//! Where the probes of all threads put what they see: one writer behind a lock that is held for a
//! row, and the time that rows carry.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use clock::Clock;
use run::{
    Activity, ArchiveError, Blocking, Counter, LockCount, ObservedWriter, ProbeNote, ProbeState,
    SampleWindow, SeenStatement, StatementStatistics,
};
use sql::{Fingerprint, Fingerprinter, classify};

/// The time since a replay's start, in nanoseconds; negative before it.
pub type RunTime = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What was seen last, for whoever looks on.
#[derive(Debug, Clone, Default)]
pub struct Latest {
    /// The last window that is over, if there was one.
    pub window: Option<SampleWindow>,
    /// What was met in its samples.
    pub activity: Arc<[Activity]>,
}

/// Takes rows from any thread.
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
    clock: Arc<dyn Clock>,
    time: OnceLock<RunTime>,
}

struct Inner {
    writer: Option<ObservedWriter>,
    /// The first refusal of the disk; nothing is written any more.
    error: Option<ArchiveError>,
    fingerprinter: Fingerprinter,
    /// What came before it was known when the replay starts, by the clock's time.
    early: Vec<Early>,
    latest: Latest,
}

enum Early {
    Note(ProbeNote),
    Counter(Counter),
}

impl Ledger {
    pub(crate) fn new(writer: ObservedWriter, clock: Arc<dyn Clock>) -> Self {
        Ledger {
            inner: Mutex::new(Inner {
                writer: Some(writer),
                error: None,
                fingerprinter: Fingerprinter::new(),
                early: Vec::new(),
                latest: Latest::default(),
            }),
            clock,
            time: OnceLock::new(),
        }
    }

    /// From now on rows have the replay's time; what came before gets it as well.
    pub(crate) fn start(&self, time: RunTime) {
        let mut inner = self.lock();
        let behind_ns = self.clock.now_ns() - time();
        if self.time.set(time).is_err() {
            return;
        }
        for early in std::mem::take(&mut inner.early) {
            match early {
                Early::Note(mut note) => {
                    note.at_ns -= behind_ns;
                    inner.write(|writer| writer.note(&note));
                }
                Early::Counter(mut counter) => {
                    counter.at_ns -= behind_ns;
                    inner.write(|writer| writer.counter(&counter));
                }
            }
        }
    }

    /// Now, as rows have it.
    pub(crate) fn now_ns(&self) -> i64 {
        self.time
            .get()
            .map_or_else(|| self.clock.now_ns(), |time| time())
    }

    /// What rows have for a moment of the clock's.
    pub(crate) fn moment_of(&self, clock_ns: i64) -> i64 {
        self.now_ns() - (self.clock.now_ns() - clock_ns)
    }

    /// The clock's time, by which probes keep their turns.
    pub(crate) fn clock_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    /// Whether nothing can be written any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock().error.is_some()
    }

    pub(crate) fn note(&self, probe: &str, state: ProbeState, text: impl Into<String>) {
        self.full_note(ProbeNote {
            probe: probe.to_owned(),
            state,
            text: text.into(),
            ..ProbeNote::default()
        });
    }

    /// Takes a note; its time is now.
    pub(crate) fn full_note(&self, note: ProbeNote) {
        let note = ProbeNote {
            at_ns: self.now_ns(),
            ..note
        };
        let mut inner = self.lock();
        match self.time.get() {
            Some(_) => inner.write(|writer| writer.note(&note)),
            None => inner.early.push(Early::Note(note)),
        }
    }

    pub(crate) fn counter(&self, counter: Counter) {
        let mut inner = self.lock();
        match self.time.get() {
            Some(_) => inner.write(|writer| writer.counter(&counter)),
            None => inner.early.push(Early::Counter(counter)),
        }
    }

    pub(crate) fn statistics(&self, rows: &[StatementStatistics]) {
        let mut inner = self.lock();
        inner.write(|writer| rows.iter().try_for_each(|row| writer.statistics(row)));
    }

    pub(crate) fn locks(&self, rows: &[LockCount]) {
        let mut inner = self.lock();
        inner.write(|writer| rows.iter().try_for_each(|row| writer.locks(row)));
    }

    pub(crate) fn blocking(&self, rows: &[Blocking]) {
        let mut inner = self.lock();
        inner.write(|writer| rows.iter().try_for_each(|row| writer.blocking(row)));
    }

    pub(crate) fn window(&self, window: SampleWindow, activity: Vec<Activity>) {
        let mut inner = self.lock();
        inner.write(|writer| writer.window(&window, &activity));
        inner.latest = Latest {
            window: Some(window),
            activity: activity.into(),
        };
    }

    pub(crate) fn latest(&self) -> Latest {
        self.lock().latest.clone()
    }

    /// The fingerprint of a statement's text, which is kept at its first time.
    pub(crate) fn fingerprint(&self, sql: &str, cut: bool) -> Fingerprint {
        let mut inner = self.lock();
        let fingerprint = inner.fingerprinter.fingerprint(sql);
        let known = inner
            .writer
            .as_ref()
            .is_some_and(|one| one.knows(fingerprint));
        if !known {
            let statement = SeenStatement {
                fingerprint,
                class: classify(sql),
                sql: inner.fingerprinter.normalise(sql).to_owned(),
                cut,
            };
            inner.write(|writer| writer.seen(&statement));
        }
        fingerprint
    }

    /// Makes what was seen so far safe from a kill.
    pub(crate) fn flush(&self) {
        // What is early is lost with a kill before the start, as is the replay.
        self.lock().write(ObservedWriter::flush);
    }

    /// Gives the writer back.
    ///
    /// # Errors
    /// Where the disk refused something meanwhile.
    pub(crate) fn finish(&self) -> Result<Option<ObservedWriter>, ArchiveError> {
        if self.time.get().is_none() {
            // It never started: times from now.
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
        // A probe that panics leaves whole rows behind.
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
