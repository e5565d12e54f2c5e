//! Performs calls in worker processes, within their limits.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, watch};

use super::answer::{Answer, Limits};
use super::call_arguments::Call;
use super::roots::Roots;
use super::scratch::Scratch;
use super::worker::{Request, Response};

/// Calls in progress at one time. Others wait.
pub const CALLS_MAX: usize = 4;
/// Proofs in progress at one time. Two would disturb each other's times.
const PROOFS_MAX: usize = 1;
/// Time in which a stopped worker deletes its files.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Time in which a stopped worker also deletes its server. A copy of a large one is completed first, so that the original
/// is started again.
const SERVER_STOP_LIMIT: Duration = Duration::from_secs(1_800);
/// Bytes that a response may have in addition to the limit of an answer, since it is escaped once more.
const RESPONSE_MARGIN: u64 = 1 << 20;

/// Reason why a call has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// The client cancelled it.
    Cancelled,
    /// Its time was over.
    TimedOut,
    /// The server ends.
    ServerEnds,
}

/// End of the worker of a stopped call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEnd {
    /// It removed what the call used.
    Ended,
    /// It was killed after this time, so that something may remain.
    Killed(Duration),
}

/// Failure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The call was stopped.
    Stopped(StopReason, WorkerEnd),
    /// It failed; a sentence for the user.
    Failed(String),
}

/// Performs calls.
pub struct Calls {
    /// Directories with access.
    pub roots: Roots,
    /// Limits of answers.
    pub limits: Limits,
    /// Time limit of each call.
    pub time_limit: Duration,
    program: PathBuf,
    scratch: Scratch,
    slots: Semaphore,
    proofs: Semaphore,
    ends: watch::Sender<bool>,
}

impl Calls {
    /// Prepares calls.
    ///
    /// # Errors
    /// If the directory for temporary files cannot be created.
    pub fn new(roots: Roots, limits: Limits, time_limit: Duration) -> io::Result<Self> {
        Ok(Calls {
            roots,
            limits,
            time_limit,
            program: std::env::current_exe()?,
            scratch: Scratch::create()?,
            slots: Semaphore::new(CALLS_MAX),
            proofs: Semaphore::new(PROOFS_MAX),
            ends: watch::channel(false).0,
        })
    }

    /// Performs a call. `cancelled` completes if the client cancels it. The work continues until it is stopped
    /// in an orderly way, even if the returned future is dropped.
    ///
    /// # Errors
    /// If the call fails, or is stopped.
    pub async fn perform(
        self: Arc<Self>,
        call: Call,
        cancelled: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Answer, CallError> {
        let task = tokio::spawn(async move { self.perform_in_worker(call, cancelled).await });
        task.await.unwrap_or_else(|error| Err(failed(&error)))
    }

    /// Stops all calls, and waits until they have ended.
    pub async fn finish(&self) {
        self.ends.send_replace(true);
        let _ = self.slots.acquire_many(CALLS_MAX as u32).await;
    }

    async fn perform_in_worker(
        &self,
        call: Call,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Answer, CallError> {
        let limit = tokio::time::sleep(self.time_limit);
        let mut ends = self.ends.subscribe();
        let stopped = async {
            tokio::select! {
                () = cancelled => StopReason::Cancelled,
                () = limit => StopReason::TimedOut,
                _ = ends.wait_for(|ends| *ends) => StopReason::ServerEnds,
            }
        };
        tokio::pin!(stopped);
        let slots = async {
            // First, so that proofs that wait for another one take no place of calls that read.
            let proof = match call.has_server() {
                true => Some(self.proofs.acquire().await),
                false => None,
            };
            (self.slots.acquire().await, proof)
        };
        let _slots = tokio::select! {
            biased;
            reason = &mut stopped => return Err(CallError::Stopped(reason, WorkerEnd::Ended)),
            slots = slots => slots,
        };
        let directory = self.scratch.call_directory();
        let directory = directory.map_err(|error| failed(&error))?;
        let stop_limit = match call.has_server() {
            true => SERVER_STOP_LIMIT,
            false => STOP_LIMIT,
        };
        let request = Request {
            call,
            roots: self.roots.clone(),
            limits: self.limits,
            time_limit: self.time_limit,
            server_directory: self.scratch.path().to_owned(),
            scratch: directory.path().to_owned(),
        };
        let mut worker = self.start().map_err(|error| {
            CallError::Failed(format!(
                "{} cannot be started ({error}); if it was replaced, restart this server",
                self.program.display()
            ))
        })?;
        let read = read_response(&mut worker, &request, self.limits);
        let (response, stopped) = tokio::select! {
            biased;
            reason = &mut stopped => (None, Some(reason)),
            response = read => (Some(response), None),
        };
        // Closes its standard input, which stops it.
        drop(worker.stdin.take());
        let end = match tokio::time::timeout(stop_limit, worker.wait()).await {
            Ok(_) => WorkerEnd::Ended,
            Err(_) => {
                let _ = worker.kill().await;
                WorkerEnd::Killed(stop_limit)
            }
        };
        match (response, stopped) {
            (_, Some(reason)) => Err(CallError::Stopped(reason, end)),
            (Some(Ok(Response::Answer(answer))), _) => Ok(answer),
            (Some(Ok(Response::Failure(message))), _) => Err(CallError::Failed(message)),
            (Some(Err(error)), _) => Err(CallError::Failed(format!(
                "the call ended without an answer ({error}); its messages are on the standard error of this server"
            ))),
            (None, None) => unreachable!("one of both futures completed"),
        }
    }

    fn start(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(["mcp", "--worker"]);
        if let Some(key) = study::keys::key_file() {
            command.arg("--key").arg(key);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Signals of the terminal are for the server, which stops its workers.
            .process_group(0)
            .spawn()
    }
}

async fn read_response(
    worker: &mut Child,
    request: &Request,
    limits: Limits,
) -> io::Result<Response> {
    let (input, output) = (worker.stdin.as_mut(), worker.stdout.as_mut());
    let (Some(input), Some(output)) = (input, output) else {
        return Err(io::Error::other("the worker has no pipes"));
    };
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    input.write_all(&line).await?;
    let bytes_max = 2 * limits.bytes as u64 + RESPONSE_MARGIN;
    let mut response = Vec::new();
    output.take(bytes_max).read_to_end(&mut response).await?;
    Ok(serde_json::from_slice(&response)?)
}

fn failed(error: &dyn std::error::Error) -> CallError {
    CallError::Failed(format!("the call could not be performed: {error}"))
}
