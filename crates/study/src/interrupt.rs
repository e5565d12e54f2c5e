//! Requests to stop.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::monotonic_ns;

/// Interval of checks for a stop request while listeners linger.
const LINGER_STEP: Duration = Duration::from_millis(20);

/// A stop request, set by the caller of an operation and read by the operation. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    requested: Arc<AtomicBool>,
    /// Path of the partial result that is left if the process ends at once.
    partial: Arc<Mutex<Option<PathBuf>>>,
    /// Sentences on what is left if the process ends at once.
    note_at_once: Arc<Mutex<Option<String>>>,
}

impl Interrupt {
    /// Returns the shared flag that requests a stop.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.requested.clone()
    }

    /// Reports whether a stop was requested.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Waits so that listeners can still be queried after a replay, until the time is over or a stop is requested. A
    /// stop request that already ended the replay (`was_stopped`) is ignored, since the last values are wanted as
    /// well.
    pub fn linger(&self, time: Duration, was_stopped: bool) {
        let until_ns =
            monotonic_ns().saturating_add(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
        while monotonic_ns() < until_ns && (was_stopped || !self.is_requested()) {
            std::thread::sleep(LINGER_STEP);
        }
    }

    /// Sets the path of the partial result, which `rehearse recover` can complete if the process ends at once.
    pub fn set_partial(&self, partial: PathBuf) {
        *self.partial.lock().unwrap_or_else(PoisonError::into_inner) = Some(partial);
    }

    /// Takes the path of the partial result, if there is one.
    pub fn take_partial(&self) -> Option<PathBuf> {
        self.partial
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Sets the sentences on what is left if the process ends at once.
    pub fn set_note_at_once(&self, note: String) {
        *self
            .note_at_once
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(note);
    }

    /// Takes the sentences on what is left, if there are any.
    pub fn take_note_at_once(&self) -> Option<String> {
        self.note_at_once
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
