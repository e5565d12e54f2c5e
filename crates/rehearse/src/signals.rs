//! Handling of Ctrl-C, SIGTERM and SIGHUP: the first requests an orderly stop, the second ends
//! the command at once.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::low_level::pipe;
use signal_hook::{flag, low_level};

use crate::terminal;
use study::Interrupt;
use workload::series::Series;

/// Exit code of a command that a second signal ended without a result.
const ENDED_AT_ONCE: i32 = 3;
/// Exit code of a command that a second signal ended with a partial result.
const STOPPED: i32 = 1;

/// Installs the signal handlers.
///
/// # Errors
/// If the system refuses a handler.
pub fn listen() -> io::Result<Interrupt> {
    let interrupt = Interrupt::default();
    let (mut signals, sends) = UnixStream::pair()?;
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // If writing the note of the second signal blocks, since nobody reads it, a third one ends the process.
        flag::register_conditional_shutdown(signal, ENDED_AT_ONCE, again.clone())?;
        flag::register(signal, interrupt.flag())?;
        // One byte for each signal, so that two at the same moment count as two.
        pipe::register(signal, sends.try_clone()?)?;
    }
    let asked = interrupt.clone();
    let waits = move || {
        if signals.read_exact(&mut [0; 2]).is_ok() {
            // First, so that a third signal leaves none of them.
            let killed = asked.kill_commands();
            again.store(true, Ordering::Relaxed);
            end_at_once(&asked, &killed);
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(waits)?;
    Ok(interrupt)
}

/// Makes a write past the limit of file sizes (`ulimit -f`) an error with a message. Without a handler, the signal kills
/// the process and leaves a partial result.
///
/// # Errors
/// If the system refuses a handler.
pub fn survive_file_size_limit() -> io::Result<()> {
    ignore(SIGXFSZ)
}

/// Ignores Ctrl-C, SIGTERM and SIGHUP, for a process that another one of this program ends in order. A service manager sends
/// them to all processes of a service.
///
/// # Errors
/// If the system refuses a handler.
pub fn leave_to_parent() -> io::Result<()> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().try_for_each(ignore)
}

fn ignore(signal: i32) -> io::Result<()> {
    flag::register(signal, Arc::new(AtomicBool::new(false))).map(|_| ())
}

/// Ends the process. `killed`: sentences on commands of the user that were killed.
fn end_at_once(interrupt: &Interrupt, killed: &[String]) {
    killed.iter().for_each(|one| terminal::note(one));
    let partial = interrupt.take_partial();
    let partials = partial.map_or_else(Vec::new, unfinished);
    for partial in &partials {
        terminal::note(&partial_note(partial));
    }
    if let Some(note) = interrupt.take_note_at_once() {
        terminal::note(&note);
    }
    low_level::exit(match partials.is_empty() {
        true => ENDED_AT_ONCE,
        false => STOPPED,
    });
}

/// Returns the unfinished directories: the given one if it exists, or those of the parts of a series.
fn unfinished(partial: PathBuf) -> Vec<PathBuf> {
    if Series::is_series(&partial) {
        let series = Series::open(&partial);
        let parts = series.map_or_else(|_| Vec::new(), |series| series.unfinished);
        return parts.into_iter().map(|part| part.path).collect();
    }
    match partial.exists() {
        true => vec![partial],
        false => Vec::new(),
    }
}

fn partial_note(partial: &Path) -> String {
    let partial = partial.display();
    format!(
        "Ended at once; {partial} has what was done until its last checkpoint: rehearse recover {partial}"
    )
}
