//! The process that performs one call. Its end frees everything that the call used.
//!
//! The server writes the request to the worker's standard input, and closes the pipe to stop the call. If the server is
//! killed, the kernel closes the pipe. So one way stops a call that is cancelled, timed out or abandoned.

use std::fs;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use study::{Failure, Interrupt};

use super::answer::{Answer, Limits};
use super::call_arguments::Call;
use super::listing;
use super::reading::Reading;
use super::roots::Roots;
use super::scratch;
use crate::exit_status::ExitStatus;
use crate::terminal;

/// A call, with everything that the worker needs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// The call.
    pub call: Call,
    /// Directories with access.
    pub roots: Roots,
    /// Limits of the answer.
    pub limits: Limits,
    /// Time limit of the call.
    pub time_limit: Duration,
    /// Directory of the server, which the worker locks.
    pub server_directory: PathBuf,
    /// Directory for temporary files of the call.
    pub scratch: PathBuf,
}

/// Result of a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// It was performed.
    Answer(Answer),
    /// It failed; a sentence for the user.
    Failure(String),
}

/// Exit code of a call that was stopped.
const STOPPED: i32 = 3;

/// Performs the call on standard input.
///
/// # Errors
/// If the request cannot be read.
pub fn run() -> Result<ExitStatus, Failure> {
    let mut line = Vec::new();
    let read = io::stdin().lock().read_until(b'\n', &mut line);
    read.map_err(Failure::could_not)?;
    let request: Request = serde_json::from_slice(&line).map_err(|error| {
        Failure::usage(format!(
            "--worker is for the server itself ({error}); leave it out"
        ))
    })?;
    let _lock = scratch::lock_shared(&request.server_directory).map_err(Failure::could_not)?;
    let interrupt = Interrupt::default();
    stop_at_end_of_input(&request, &interrupt)?;
    let response = match perform(&request, &interrupt) {
        Ok(answer) => Response::Answer(answer),
        Err(failure) => Response::Failure(failure.message),
    };
    terminal::say_line(&report::to_json_line(&response));
    Ok(ExitStatus::Success)
}

/// Stops the call when the server closes the pipe or ends. A call with a private server deletes it first.
fn stop_at_end_of_input(request: &Request, interrupt: &Interrupt) -> Result<(), Failure> {
    let (flag, scratch) = (interrupt.flag(), request.scratch.clone());
    let has_server = request.call.has_server();
    let wait = move || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::Relaxed);
        if !has_server {
            let _ = fs::remove_dir_all(&scratch);
            std::process::exit(STOPPED);
        }
    };
    let thread = std::thread::Builder::new().name("stop".to_owned());
    thread.spawn(wait).map_err(Failure::could_not)?;
    Ok(())
}

fn perform(request: &Request, interrupt: &Interrupt) -> Result<Answer, Failure> {
    let (roots, limits) = (&request.roots, request.limits);
    let reading = Reading {
        roots,
        limits,
        scratch: &request.scratch,
        interrupt,
    };
    let done = match &request.call {
        Call::List(arguments) => listing::list(arguments, roots, limits),
        Call::Inspect(arguments) => reading.inspect(arguments),
        Call::Statement(arguments) => reading.statement(arguments),
        Call::Compare(arguments) => reading.compare(arguments),
        Call::Diagnose(arguments) => reading.diagnose(arguments),
        Call::Plan(arguments) => reading.plan(arguments),
        Call::Prove(arguments) => reading.prove(arguments, request.time_limit),
    };
    // Also if the server was killed, and does not remove it.
    let _ = fs::remove_dir_all(&request.scratch);
    done
}
