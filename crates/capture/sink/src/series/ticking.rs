//! Records a series from a source that reports events only: parts are completed by the clock if nothing happens.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::{Clock, SystemClock};
use workload::series::{HeldEvent, PossibleGap};
use workload::{EventRef, Provenance, ServerEvent, Session};

use super::start::{SeriesError, SeriesOptions};
use super::status::{SeriesStatus, SeriesWatch};
use super::{LATE_US, SeriesRecorder};
use crate::sink::{EventSink, SessionStart, SinkError};

/// Interval of checkpoints.
const TICK: Duration = Duration::from_millis(500);
/// Time without an event after which the source is idle, in microseconds. A log that is read from its beginning reports
/// events all the time, so the clock does not end its parts.
const IDLE_US: i64 = 5_000_000;

/// A series that is recorded from a log or from packets.
pub struct SeriesSink {
    shared: Arc<Mutex<SharedRecorder>>,
    watch: SeriesWatch,
    /// Stops the ticking thread when it is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct SharedRecorder {
    /// `None` once it is finished.
    recorder: Option<SeriesRecorder>,
    clock: SystemClock,
    is_pipe: bool,
    /// Wall time of the last event's arrival.
    arrived_us: i64,
    has_news: bool,
    failure: Option<SinkError>,
}

fn lock(shared: &Mutex<SharedRecorder>) -> MutexGuard<'_, SharedRecorder> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SeriesSink {
    /// Creates a series, or continues one.
    ///
    /// # Errors
    /// As [`SeriesRecorder::create`].
    pub fn create(options: SeriesOptions) -> Result<Self, SeriesError> {
        let (is_live, is_pipe) = (options.is_live, options.is_pipe);
        let recorder = SeriesRecorder::create(options)?;
        let watch = recorder.watch();
        let clock = SystemClock::start();
        let shared = Arc::new(Mutex::new(SharedRecorder {
            recorder: Some(recorder),
            arrived_us: clock.wall_us(),
            clock,
            is_pipe,
            has_news: false,
            failure: None,
        }));
        let mut sink = SeriesSink {
            shared,
            watch,
            stop: None,
            thread: None,
        };
        if is_live {
            sink.tick_regularly();
        }
        Ok(sink)
    }

    /// Returns a handle for reading the status.
    pub fn watch(&self) -> SeriesWatch {
        self.watch.clone()
    }

    /// Returns a handle that updates the provenance, for the source.
    pub fn provenance_updater(&self) -> impl Fn(&dyn Fn(&mut Provenance)) + use<> {
        let shared = self.shared.clone();
        move |change| {
            if let Some(recorder) = &mut lock(&shared).recorder {
                change(&mut recorder.provenance);
            }
        }
    }

    fn tick_regularly(&mut self) {
        let (stop, stopped) = channel();
        let shared = self.shared.clone();
        let ticking = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let mut shared = lock(&shared);
                if let Err(error) = shared.tick() {
                    shared.failure = Some(error);
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("series-clock".to_owned());
        // Without the thread, parts are completed by later events.
        self.thread = thread.spawn(ticking).ok();
        self.stop = Some(stop);
    }

    fn stop_ticking(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Completes all parts and the series. The provenance is that of the whole capture.
    ///
    /// # Errors
    /// If a part cannot be written.
    pub fn finish(mut self, provenance: Provenance) -> Result<SeriesStatus, SinkError> {
        self.stop_ticking();
        let mut shared = lock(&self.shared);
        if let Some(failure) = shared.failure.take() {
            return Err(failure);
        }
        match shared.recorder.take() {
            Some(recorder) => recorder.finish(provenance),
            None => Ok(self.watch.status()),
        }
    }

    fn with_recorder(
        &mut self,
        action: impl FnOnce(&mut SeriesRecorder) -> Result<(), SinkError>,
    ) -> Result<(), SinkError> {
        let mut shared = lock(&self.shared);
        if let Some(failure) = shared.failure.take() {
            return Err(failure);
        }
        shared.has_news = true;
        shared.recorder.as_mut().map_or(Ok(()), action)
    }
}

impl Drop for SeriesSink {
    fn drop(&mut self) {
        self.stop_ticking();
    }
}

impl SharedRecorder {
    fn tick(&mut self) -> Result<(), SinkError> {
        let now_us = self.clock.wall_us();
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        if std::mem::take(&mut self.has_news) {
            self.arrived_us = now_us;
            return recorder.checkpoint(recorder.delivered_to_us.saturating_sub(LATE_US));
        }
        let idle_us = now_us - self.arrived_us;
        if idle_us < IDLE_US || self.is_pipe {
            return recorder.checkpoint(recorder.delivered_to_us);
        }
        recorder.advance(idle_to_us(now_us, idle_us, recorder.reported_to_us))
    }
}

/// Returns the time up to which an idle source has delivered everything. If its events are older than their arrival, the
/// next ones are, too.
fn idle_to_us(now_us: i64, idle_us: i64, reported_to_us: Option<i64>) -> i64 {
    let to_us = reported_to_us.map_or(now_us, |to_us| now_us.min(to_us.saturating_add(idle_us)));
    to_us.saturating_sub(IDLE_US)
}

impl EventSink for SeriesSink {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        self.with_recorder(|recorder| recorder.event(event))
    }

    fn session_begins(&mut self, start: SessionStart<'_>) -> Result<(), SinkError> {
        self.with_recorder(|recorder| recorder.session_begins(start))
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        self.with_recorder(|recorder| recorder.session(session))
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        self.with_recorder(|recorder| recorder.server_event(event))
    }

    fn note_several_servers(&mut self) -> Result<(), SinkError> {
        self.with_recorder(SeriesRecorder::note_several_servers)
    }

    fn note_possible_gaps(&mut self, gaps: &[PossibleGap]) -> Result<(), SinkError> {
        self.with_recorder(|recorder| recorder.note_possible_gaps(gaps))
    }

    fn needs_held(&self) -> bool {
        true
    }

    fn held(&mut self, held: &mut dyn Iterator<Item = HeldEvent>) {
        if let Some(recorder) = &mut lock(&self.shared).recorder {
            recorder.held(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_to_us_of_a_delayed_source_keeps_its_delay() {
        let (now_us, idle_us) = (900_000_000, 8_000_000);
        assert_eq!(idle_to_us(now_us, idle_us, None), 895_000_000);
        let reported = |to_us| idle_to_us(now_us, idle_us, Some(to_us));
        assert_eq!(reported(892_000_000), 895_000_000);
        assert_eq!(reported(100_000_000), 103_000_000);
        assert_eq!(reported(2_000_000_000), 895_000_000);
    }
}
