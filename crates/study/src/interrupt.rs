//! Requests to stop.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which a request to stop is looked for while listeners linger.
const LINGER_STEP: Duration = Duration::from_millis(20);

/// A request to stop, which whoever asks for an operation sets and the operation reads. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// The partial result that is left if the process ends at once.
    leaves: Arc<Mutex<Option<PathBuf>>>,
}

impl Interrupt {
    /// Returns the flag that asks to stop.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.asked.clone()
    }

    /// Returns whether a stop was asked for.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits for a time, so that listeners can answer after a replay, or until a stop is asked for. A stop that
    /// already ended the replay (`was_stopped`) does not end the wait: the last values are wanted as well.
    pub fn linger(&self, time: Duration, was_stopped: bool) {
        let until = Instant::now() + time;
        while Instant::now() < until && (was_stopped || !self.is_asked()) {
            std::thread::sleep(LINGER_STEP);
        }
    }

    /// Names the partial result, which `rehearse recover` can complete if the process ends at once.
    pub fn leaves(&self, partial: PathBuf) {
        *self.leaves.lock().unwrap_or_else(PoisonError::into_inner) = Some(partial);
    }

    /// Takes the name of the partial result, if there is one.
    pub fn take_partial(&self) -> Option<PathBuf> {
        self.leaves
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
