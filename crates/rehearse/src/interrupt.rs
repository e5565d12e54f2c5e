//! Ctrl-C, SIGTERM and SIGHUP (the terminal is gone): the first asks a command to end in order, the second ends it at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Exit code of a command that was ended at once: it could not do what it was asked.
const ENDED_AT_ONCE: i32 = 3;

/// Whether the user has asked to stop.
#[derive(Debug, Clone)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens from now on.
    ///
    /// # Errors
    /// Where the system refuses the handler.
    pub fn listen() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the second signal finds the flag set by the first.
            flag::register_conditional_shutdown(signal, ENDED_AT_ONCE, asked.clone())?;
            flag::register(signal, asked.clone())?;
        }
        Ok(Interrupt { asked })
    }

    /// Whether a signal has come.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
