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

/// One that runs. It is killed where nobody ends it.
pub(super) struct Process {
    number: usize,
    child: Child,
    last: Arc<Mutex<Report>>,
    hearing: Option<JoinHandle<()>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        let child = Command::new(&deployment.program)
            .args(deployment.arguments)
            .arg0("downloader")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Who stops the case at a terminal stops the case: its instances end when their input does.
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
        say(&task, input).map_err(failed)?;
        let output = process.child.stdout.take().expect("it is a pipe");
        let heard = process.last.clone();
        process.hearing = Some(thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Ok(Some(report)) = hear(&mut output) {
                *locked(&heard) = report;
            }
        }));
        Ok(process)
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
    /// held and had done, as far as it had said.
    ///
    /// # Errors
    /// Where it had ended before.
    pub(super) fn kill(mut self) -> Result<(i64, Counts), LabError> {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        let said = self.said();
        let reason = match (ended, said.failure) {
            (Ok(status), None) if status.code().is_none() => return Ok((said.held, said.counts)),
            (_, Some(reason)) => reason,
            (Ok(status), None) => format!("it had ended before it was killed: {status}"),
            (Err(error), None) => error.to_string(),
        };
        Err(LabError::Client {
            number: self.number,
            reason,
        })
    }

    /// It claims no more, does what it has, and ends. Returns what it did.
    ///
    /// # Errors
    /// Where a part of it broke off, or it did not say to the last what it did.
    pub(super) fn end(mut self) -> Result<Counts, LabError> {
        drop(self.child.stdin.take());
        let ended = self.child.wait();
        let said = self.said();
        let reason = match (said.failure, ended) {
            (Some(reason), _) => reason,
            (None, Ok(status)) if status.success() && said.is_last => return Ok(said.counts),
            (None, Ok(status)) => format!("it ended without its last report: {status}"),
            (None, Err(error)) => error.to_string(),
        };
        Err(LabError::Client {
            number: self.number,
            reason,
        })
    }

    /// Its last words. It has ended.
    fn said(&mut self) -> Report {
        if let Some(hearing) = self.hearing.take() {
            hearing.join().expect("hearing does not panic");
        }
        locked(&self.last).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::queue::LockClause;

    /// A process that carries out this script of a shell.
    fn started(arguments: &'static [&'static str]) -> Process {
        let deployment = Deployment {
            url: String::new(),
            program: "sh".into(),
            arguments,
        };
        let plan = Plan {
            instances: 1,
            workers: 1,
            batch: 1,
            channel: 1,
            locks: LockClause::SkipLocked,
            rate_per_s: 5.0,
            arrivals_per_s: 0,
            upkeep_every: Duration::ZERO,
            reap_after: Duration::ZERO,
            spells: false,
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

    const REPORT: &str = r#"read task; echo '{"held":7,"target_per_s":1.0,"counts":{"claims":1,"claimed":9,"put_off":0,"downloaded":2,"retried":0,"given_up":0,"arrived":0,"reaped":0,"expired":0},"failure":null,"is_last":false}'; read end"#;

    #[test]
    fn what_a_killed_instance_said_last_is_known() {
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
    fn one_that_ends_without_its_last_report_has_not_ended_well() {
        let said = |arguments| reason(started(arguments).end().unwrap_err());
        assert!(said(&["-c", REPORT]).contains("without its last report"));
        assert!(said(&["-c", "read task; echo rubbish; read end"]).contains("last report"));
        assert!(said(&["-c", "read task; exit 3"]).contains("exit status: 3"));
        let failed = r#"read task; echo '{"held":0,"target_per_s":1.0,"counts":{"claims":0,"claimed":0,"put_off":0,"downloaded":0,"retried":0,"given_up":0,"arrived":0,"reaped":0,"expired":0},"failure":"the server is gone","is_last":true}'; exit 3"#;
        let process = started(Box::leak(Box::new(["-c", failed])));
        assert_eq!(reason(process.end().unwrap_err()), "the server is gone");
    }
}
