//! The parent's side of an instance: a process that is started, read, ended in order, or killed.

use std::io::BufReader;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::claim::claim_sql;
use super::downloader::SystemPlan;
use super::messages::{InstanceParameters, Report, read_message, write_message};
use super::tally::Counts;
use crate::LabError;

/// The server and the program of the system's instances.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// URL of the queue's server.
    pub url: String,
    /// Path of an instance's program, which calls [`instance`](super::run_instance()).
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: &'static [&'static str],
}

/// A running instance. It is killed on drop.
pub(super) struct Process {
    number: usize,
    child: Child,
    last: Arc<Mutex<Report>>,
    hearing: Option<JoinHandle<()>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock_report(last: &Mutex<Report>) -> MutexGuard<'_, Report> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Starts an instance.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(
        deployment: &Deployment,
        number: usize,
        plan: &SystemPlan,
        links: SocketAddr,
    ) -> Result<Self, LabError> {
        let task = InstanceParameters {
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
        let child = Command::new(&deployment.program)
            .args(deployment.arguments)
            .arg0("downloader")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not in the terminal's process group: an interrupt ends the parent, and instances end when their input
            // does.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let last = Report {
            target_per_s: plan.rate_per_s,
            ..Report::default()
        };
        let mut process = Process {
            number,
            child,
            last: Arc::new(Mutex::new(last)),
            hearing: None,
        };
        let input = process.child.stdin.as_mut().expect("it is a pipe");
        write_message(&task, input).map_err(failed)?;
        let output = process.child.stdout.take().expect("it is a pipe");
        let heard = process.last.clone();
        process.hearing = Some(thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Ok(Some(report)) = read_message(&mut output) {
                *lock_report(&heard) = report;
            }
        }));
        Ok(process)
    }

    /// Returns the number of links that it has claimed and not finished, by its last report.
    pub(super) fn held(&self) -> i64 {
        lock_report(&self.last).held
    }

    /// Returns the present rate of its limiter, in links a second.
    pub(super) fn target_per_s(&self) -> f64 {
        lock_report(&self.last).target_per_s
    }

    /// Kills it (SIGKILL). It writes nothing more, and the server finds its connections broken. Returns the links
    /// that it held and its counts, by its last report.
    ///
    /// # Errors
    /// If it had already ended.
    pub(super) fn kill(mut self) -> Result<(i64, Counts), LabError> {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        let last_report = self.last_report();
        let reason = match (ended, last_report.failure) {
            (Ok(status), None) if status.code().is_none() => {
                return Ok((last_report.held, last_report.counts));
            }
            (_, Some(reason)) => reason,
            (Ok(status), None) => format!("it had ended before it was killed: {status}"),
            (Err(error), None) => error.to_string(),
        };
        Err(LabError::Client {
            number: self.number,
            reason,
        })
    }

    /// Ends it in order: it claims no more, finishes its links, and ends. Returns its counts.
    ///
    /// # Errors
    /// If one of its threads failed, or it sent no last report.
    pub(super) fn end(mut self) -> Result<Counts, LabError> {
        drop(self.child.stdin.take());
        let ended = self.child.wait();
        let last_report = self.last_report();
        let reason = match (last_report.failure, ended) {
            (Some(reason), _) => reason,
            (None, Ok(status)) if status.success() && last_report.is_last => {
                return Ok(last_report.counts);
            }
            (None, Ok(status)) => format!("it ended without its last report: {status}"),
            (None, Err(error)) => error.to_string(),
        };
        Err(LabError::Client {
            number: self.number,
            reason,
        })
    }

    /// Returns its last report after it has ended.
    fn last_report(&mut self) -> Report {
        if let Some(hearing) = self.hearing.take() {
            hearing.join().expect("hearing does not panic");
        }
        lock_report(&self.last).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::queue::LockClause;

    /// Starts a process that executes a shell script.
    fn started(arguments: &'static [&'static str]) -> Process {
        let deployment = Deployment {
            url: String::new(),
            program: "sh".into(),
            arguments,
        };
        let plan = SystemPlan {
            instances: 1,
            workers: 1,
            batch: 1,
            channel: 1,
            locks: LockClause::SkipLocked,
            rate_per_s: 5.0,
            arrivals_per_s: 0,
            upkeep_every: Duration::ZERO,
            reap_after: Duration::ZERO,
            has_error_periods: false,
        };
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        Process::start(&deployment, 3, &plan, nowhere).unwrap()
    }

    fn reason(error: LabError) -> String {
        match error {
            LabError::Client { number: 3, reason } => reason,
            other => panic!("{other}"),
        }
    }

    const REPORT: &str = r#"read task; echo '{"held":7,"target_per_s":1.0,"counts":{"claims":1,"claimed":9,"postponed":0,"downloaded":2,"retried":0,"given_up":0,"arrived":0,"reaped":0,"expired":0},"failure":null,"is_last":false}'; read end"#;

    #[test]
    fn kill_returns_the_last_report() {
        let silent = started(&["-c", "read task; read end"]);
        assert_eq!((silent.held(), silent.target_per_s()), (0, 5.0));
        assert_eq!(silent.kill().unwrap(), (0, Counts::default()));
        let process = started(&["-c", REPORT]);
        let begun = Instant::now();
        while process.held() != 7 {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
        let (held, counts) = process.kill().unwrap();
        assert_eq!((held, counts.claimed, counts.downloaded), (7, 9, 2));
    }

    #[test]
    fn end_without_last_report_fails() {
        let last_report = |arguments| reason(started(arguments).end().unwrap_err());
        assert!(last_report(&["-c", REPORT]).contains("without its last report"));
        assert!(last_report(&["-c", "read task; echo rubbish; read end"]).contains("last report"));
        assert!(last_report(&["-c", "read task; exit 3"]).contains("exit status: 3"));
        let failed = r#"read task; echo '{"held":0,"target_per_s":1.0,"counts":{"claims":0,"claimed":0,"postponed":0,"downloaded":0,"retried":0,"given_up":0,"arrived":0,"reaped":0,"expired":0},"failure":"the server is gone","is_last":true}'; exit 3"#;
        let process = started(Box::leak(Box::new(["-c", failed])));
        assert_eq!(reason(process.end().unwrap_err()), "the server is gone");
    }
}
