//! An instance, from without: a process that is started, heard, ended in order, or killed.

use std::io::BufReader;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::claim::claim_sql;
use super::downloader::Plan;
use super::messages::{Report, Task, hear, say};
use super::tally::Counts;
use crate::LabError;

/// Where the system works, and what its instances are.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// Where the queue is.
    pub url: String,
    /// The program of an instance, which calls [`instance`](super::instance()).
    pub program: PathBuf,
    /// What it is called with.
    pub arguments: &'static [&'static str],
}

/// One that runs.
pub(super) struct Process {
    number: usize,
    child: Child,
    last: Arc<Mutex<Report>>,
    hearing: JoinHandle<()>,
}

fn locked(last: &Mutex<Report>) -> MutexGuard<'_, Report> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Starts one.
    ///
    /// # Errors
    /// Where the system does not.
    pub(super) fn start(
        deployment: &Deployment,
        number: usize,
        plan: &Plan,
        links: SocketAddr,
    ) -> Result<Self, LabError> {
        let task = Task {
            url: deployment.url.clone(),
            number,
            claim: claim_sql(plan.batch, plan.locks),
            channel: plan.channel,
            workers: plan.workers,
            rate_per_s: plan.rate_per_s,
            links,
        };
        let failed = |error: std::io::Error| LabError::Client {
            number,
            reason: format!("cannot be started: {error}"),
        };
        let mut child = Command::new(&deployment.program)
            .args(deployment.arguments)
            .arg0("downloader")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Who stops the case at a terminal stops the case: its instances end when their input does.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let output = child.stdout.take().expect("it is a pipe");
        say(&task, child.stdin.as_mut().expect("it is a pipe")).map_err(failed)?;
        let last = Arc::new(Mutex::new(Report::default()));
        let heard = last.clone();
        let hearing = thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Ok(Some(report)) = hear(&mut output) {
                *locked(&heard) = report;
            }
        });
        Ok(Process {
            number,
            child,
            last,
            hearing,
        })
    }

    /// Links that it has claimed and not done, as far as it said.
    pub(super) fn held(&self) -> i64 {
        locked(&self.last).held
    }

    /// How many a second its limiter lets through now.
    pub(super) fn target_per_s(&self) -> f64 {
        locked(&self.last).target_per_s
    }

    /// It is killed (SIGKILL): it writes nothing any more, and the server finds its connections broken. Returns what it
    /// said last.
    ///
    /// # Errors
    /// Where it had ended before.
    pub(super) fn kill(mut self) -> Result<(i64, Counts), LabError> {
        let number = self.number;
        let failed = |reason: String| LabError::Client { number, reason };
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .map_err(|error| failed(error.to_string()))
            .and_then(|status| match status.code() {
                None => Ok(()),
                Some(code) => Err(failed(format!(
                    "it had ended before it was killed, with exit code {code}"
                ))),
            })?;
        let said = self.said();
        Ok((said.held, said.counts))
    }

    /// It claims no more, does what it has, and ends. Returns what it did.
    ///
    /// # Errors
    /// Where a part of it broke off.
    pub(super) fn end(mut self) -> Result<Counts, LabError> {
        drop(self.child.stdin.take());
        let number = self.number;
        let ended = self.child.wait();
        let said = self.said();
        let reason = match (said.failure, ended) {
            (Some(reason), _) => reason,
            (None, Ok(status)) if status.success() => return Ok(said.counts),
            (None, Ok(status)) => status.to_string(),
            (None, Err(error)) => error.to_string(),
        };
        Err(LabError::Client { number, reason })
    }

    /// Its last words. It has ended.
    fn said(self) -> Report {
        self.hearing.join().expect("hearing does not panic");
        locked(&self.last).clone()
    }
}
