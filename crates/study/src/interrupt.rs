//! Requests to stop.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::monotonic_ns;

use crate::running_commands::RunningCommands;

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
    /// Commands that are killed if the process ends at once.
    commands: RunningCommands,
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

    /// Returns an interrupt for steps that follow a stop request, such as the removal of a clone. No stop is requested of them.
    /// Their commands are killed if the process ends at once, too.
    pub(crate) fn without_request(&self) -> Self {
        Interrupt {
            requested: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns an interrupt for a step that is also performed after a stop request, which then does not end it. A request during
    /// the step ends it.
    pub(crate) fn for_last_step(&self) -> Self {
        match self.is_requested() {
            true => self.without_request(),
            false => self.clone(),
        }
    }

    /// Returns the running commands.
    pub(crate) fn commands(&self) -> &RunningCommands {
        &self.commands
    }

    /// Kills the running commands of the user with their process groups, since the process ends at once. Returns a
    /// sentence on each. No command starts afterwards.
    pub fn kill_commands(&self) -> Vec<String> {
        self.commands.kill_all()
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
