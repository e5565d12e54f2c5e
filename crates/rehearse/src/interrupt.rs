//! Ctrl-C, SIGTERM and SIGHUP (the terminal is gone): the first asks a command to end in order, the second ends it at once.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use signal_hook::{flag, low_level};

use crate::terminal;

/// How often a signal is looked for while listeners linger.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Exit code of a command that was ended at once: it could not do what it was asked.
const ENDED_AT_ONCE: i32 = 3;
/// Of one whose work can be had as far as it went: it was stopped.
const STOPPED: i32 = 1;

/// Whether the user has asked to stop.
#[derive(Debug, Clone)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// What a command that is ended at once leaves behind.
    leaves: Arc<Mutex<Option<PathBuf>>>,
}

impl Interrupt {
    /// Listens from now on.
    ///
    /// # Errors
    /// Where the system refuses the handler.
    pub fn listen() -> io::Result<Self> {
        let interrupt = Interrupt {
            asked: Arc::new(AtomicBool::new(false)),
            leaves: Arc::default(),
        };
        let (mut signals, sends) = UnixStream::pair()?;
        let again = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Where the second cannot be told of, as nobody reads what we say, a third one ends it all the same.
            flag::register_conditional_shutdown(signal, ENDED_AT_ONCE, again.clone())?;
            flag::register(signal, interrupt.asked.clone())?;
            // A byte for each, so that two that come together are two.
            pipe::register(signal, sends.try_clone()?)?;
        }
        let leaves = interrupt.leaves.clone();
        let waits = move || {
            if signals.read_exact(&mut [0; 2]).is_ok() {
                again.store(true, Ordering::Relaxed);
                end_at_once(&leaves);
            }
        };
        std::thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(waits)?;
        Ok(interrupt)
    }

    /// Whether a signal has come.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Lets listeners answer for a while after a replay, or until the user has enough. A signal that already
    /// ended the replay does not end this: its last values are wanted as well.
    pub fn linger(&self, time: Duration, was_stopped: bool) {
        let until = Instant::now() + time;
        while Instant::now() < until && (was_stopped || !self.is_asked()) {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// What `rehearse recover` makes something of, once it is there, if the command is ended at once.
    pub fn leaves(&self, partial: PathBuf) {
        *self.leaves.lock().unwrap_or_else(PoisonError::into_inner) = Some(partial);
    }
}

fn end_at_once(leaves: &Mutex<Option<PathBuf>>) {
    let left = leaves.lock().unwrap_or_else(PoisonError::into_inner).take();
    let exit_code = match left.as_deref().filter(|partial| partial.exists()) {
        Some(partial) => {
            terminal::note(&what_is_left(partial));
            STOPPED
        }
        None => ENDED_AT_ONCE,
    };
    low_level::exit(exit_code);
}

fn what_is_left(partial: &Path) -> String {
    let partial = partial.display();
    format!(
        "Ended at once; {partial} has what was done until its last checkpoint: rehearse recover {partial}"
    )
}
