//! Common start of the workers among which a replay is divided.
//!
//! The workers agree through small files in the directory of the run, on a disk or in an object store. Each writes
//! `ready-I.json` again and again. When all are fresh, the worker of shard 0 creates `shards.json` with a start time on the
//! target's clock. Each worker measures that clock, since it is the one that all of them can reach.

mod end;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::{ArchiveError, create_small_file, find_small_file, is_object_url, write_small_file};
use clock::{Clock, duration_text};
use connect::login::Login;
use replay::{Meeting, Options, ShardSelection, ShardSize, Target};
use run::{SHARD_OPTION, SHARDS_FILE, SHARDS_FORMAT, Shard, ShardDivision, ShardPlan, WorkloadRef};
use workload::WorkloadReader;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes::note;
use crate::shard_agreement::{Agreement, Ready, describe_target};
use crate::target_offset::TargetOffset;

/// Time from the decision of the start to the start: each worker must read the decision and measure the clock again.
const LEAD_US: i64 = 5_000_000;
/// Interval at which a worker looks for the others.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which a worker writes that it is ready.
const REFRESH_US: i64 = 2_000_000;
/// Age at which a worker no longer counts as ready. A request to an object store is repeated for some seconds.
const FRESH_US: i64 = 15_000_000;
/// Distance between two workers' readings of the target's clock that is no error, in microseconds.
const CLOCKS_DIFFER_US: i64 = 1_000_000;
/// Number of threads that read the files of the other workers.
const READERS_MAX: usize = 16;
/// Largest file of a worker that is read.
const READY_BYTES_MAX: u64 = 1 << 20;
/// Options that may differ between workers.
const OPTIONS_THAT_MAY_DIFFER: [&str; 4] = [SHARD_OPTION, "workers", "spin_us", "otlp"];

/// Request for one of several workers.
#[derive(Debug, Clone)]
pub struct ShardRequest {
    /// Number of the shard, from 0.
    pub number: u64,
    /// Number of shards.
    pub count: u64,
    /// Directory of the run, on a disk or in an object store.
    pub run: PathBuf,
    /// Time for which a worker waits for the others.
    pub start_timeout: Duration,
    /// Largest uncertainty of the target's clock.
    pub clock_tolerance: Duration,
}

/// Wait of a worker for the others.
struct Wait<'a> {
    clock: &'a dyn Clock,
    offset: &'a TargetOffset,
    /// Its begin on the target's clock, in microseconds since 1970-01-01 UTC.
    begun_us: i64,
}

impl<'a> Wait<'a> {
    fn new(clock: &'a dyn Clock, offset: &'a TargetOffset) -> Self {
        Wait {
            begun_us: offset.target_us(clock.now_ns()),
            clock,
            offset,
        }
    }

    /// Returns the time of the target's clock.
    fn now_us(&self) -> i64 {
        self.offset.target_us(self.clock.now_ns())
    }

    /// Returns whether a worker that was ready at `at_us` is so at `now_us`.
    fn counts(&self, at_us: i64, now_us: i64) -> bool {
        let possible_us = self.begun_us.max(now_us - FRESH_US)..=now_us + CLOCKS_DIFFER_US;
        possible_us.contains(&at_us)
    }
}

/// Reason why a worker does not start now.
#[derive(Debug)]
enum Obstacle {
    /// The replay cannot start.
    Refused(String),
    /// The place of the meeting cannot be read or written. That may pass.
    Store(ArchiveError),
}

impl From<ArchiveError> for Obstacle {
    fn from(error: ArchiveError) -> Self {
        Obstacle::Store(error)
    }
}

impl Obstacle {
    fn into_text(self) -> String {
        match self {
            Obstacle::Refused(reason) => reason,
            Obstacle::Store(error) => error.to_string(),
        }
    }
}

/// Meeting of the workers before the first statement, and after the last.
#[derive(Debug)]
pub struct ShardMeeting {
    request: ShardRequest,
    target: Target,
    login: Login,
    /// Random name of this process.
    worker: String,
    agreement: Agreement,
    workload: WorkloadRef,
    sizes: Vec<ShardSize>,
    interrupt: Interrupt,
}

impl ShardMeeting {
    /// Prepares the meeting of a replay with these options, whose `shard` is set.
    ///
    /// # Errors
    /// If the replay has begun already, or the directory cannot be created.
    pub fn prepare(
        request: &ShardRequest,
        reader: &WorkloadReader,
        target: &Target,
        (engine, sizes): (&Options, Vec<ShardSize>),
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let run = &request.run;
        refuse_begun(request)?;
        if !is_object_url(run) {
            let created = DirBuilder::new().recursive(true).mode(0o700).create(run);
            created.map_err(|error| {
                Failure::could_not(format!("cannot make {}: {error}", run.display()))
            })?;
        }
        let mut options = engine.to_manifest();
        options.retain(|name, _| !OPTIONS_THAT_MAY_DIFFER.contains(&name.as_str()));
        let logins = reader.logins()?;
        let names = logins.first().map(|one| (&*one.user, &*one.database));
        let (user, database) = names.unwrap_or_default();
        let provenance = &reader.info().provenance;
        let login = engine.logins.login(target, user, database, "");
        Ok(ShardMeeting {
            request: request.clone(),
            target: target.clone(),
            worker: format!("{:016x}", rand::random::<u64>()),
            agreement: Agreement {
                program: env!("CARGO_PKG_VERSION").to_owned(),
                target: describe_target(target, &login).map_err(Failure::could_not)?,
                workload: reader.id().to_owned(),
                shards: request.count,
                options,
                division: engine
                    .shard
                    .as_ref()
                    .map_or(ShardDivision::Sessions, ShardSelection::division),
                statements: sizes.iter().map(|size| size.statements).collect(),
            },
            workload: WorkloadRef {
                name: reader.path().display().to_string(),
                id: reader.id().to_owned(),
                statements: sizes.iter().map(|size| size.statements).sum(),
                sources: provenance
                    .sources
                    .iter()
                    .map(|one| one.name.clone())
                    .collect(),
                failures_named: provenance.source_kind == "log",
            },
            login,
            sizes,
            interrupt: interrupt.clone(),
        })
    }

    /// Returns the random name of this process, which its part has.
    pub fn worker(&self) -> &str {
        &self.worker
    }

    fn measure(&self, clock: &dyn Clock) -> Result<TargetOffset, String> {
        let tolerance = self.request.clock_tolerance;
        TargetOffset::measure(&self.target, &self.login, clock, tolerance)
    }

    /// Returns the decision; `None` if there is none yet. The worker of shard 0 makes it when all are ready.
    fn decide(&self, wait: &Wait<'_>) -> Result<Option<ShardPlan>, Obstacle> {
        if self.request.number != 0 {
            if let Some(first) = self.read_ready(0, wait)? {
                self.refuse_difference(0, &first)?;
            }
            return Ok(run::read_shard_plan(&self.request.run)?);
        }
        let begun_us = wait.now_us();
        let Some(workers) = self.read_all_ready(wait)? else {
            return Ok(None);
        };
        // A round of requests may take seconds, and the other workers need as long to read the decision.
        let round_us = wait.now_us() - begun_us;
        let mut shards = Vec::new();
        for ((number, size), ready) in (0..).zip(&self.sizes).zip(workers) {
            self.refuse_difference(number, &ready)?;
            shards.push(Shard {
                worker: ready.worker,
                sessions: size.sessions,
                statements: size.statements,
                first_sessions: size.first_sessions.clone(),
                clock_uncertainty_us: ready.clock_uncertainty_us,
            });
        }
        let plan = ShardPlan {
            format: SHARDS_FORMAT,
            workload: self.workload.clone(),
            division: self.agreement.division,
            start_us: wait.now_us() + LEAD_US + 2 * round_us,
            shards,
        };
        let content = serde_json::to_vec_pretty(&plan)
            .map_err(|error| Obstacle::Refused(error.to_string()))?;
        let path = self.request.run.join(SHARDS_FILE);
        match create_small_file(&path, &content)? {
            true => Ok(Some(plan)),
            false => Err(Obstacle::Refused(format!(
                "another worker of shard 0 has started the replay in {}; give another -o",
                self.request.run.display()
            ))),
        }
    }

    /// Checks that this worker takes part, and measures the clock again: the wait may have been long. The earlier offset is
    /// used if that fails, since the other workers start in any case.
    fn start_of(&self, plan: &ShardPlan, wait: &Wait<'_>) -> Result<i64, String> {
        let clock = wait.clock;
        let number = self.request.number;
        let shard = usize::try_from(number)
            .ok()
            .and_then(|at| plan.shards.get(at));
        if shard.is_none_or(|shard| shard.worker != self.worker) {
            return Err(format!(
                "the replay of {} has started with another worker for shard {number}; give each worker its own number",
                self.request.run.display()
            ));
        }
        let measured = self.measure(clock).unwrap_or_else(|reason| {
            note(&format!(
                "The clock of the target is used as it was measured before the wait, since measuring it again failed: {reason}."
            ));
            *wait.offset
        });
        let start_ns = measured.clock_ns(plan.start_us);
        let late_ns = clock.now_ns() - start_ns;
        match late_ns > 0 {
            true => Err(format!(
                "this worker read the start time {} too late, and the other workers have started without shard {number}; replay it when they are done, with --resume {}",
                duration_text(late_ns),
                self.request.run.display()
            )),
            false => Ok(start_ns),
        }
    }

    fn path(&self, kind: &str, number: u64) -> PathBuf {
        self.request.run.join(format!("{kind}-{number}.json"))
    }

    /// Declares that this worker is no longer ready. Otherwise its file stays fresh for some seconds. A worker that refuses
    /// the settings of another one leaves its file, so that the other one refuses, too.
    fn withdraw(&self, offset: &TargetOffset) {
        let _ = self.write_ready_at(i64::MIN / 2, offset);
    }

    fn write_ready_at(&self, at_us: i64, offset: &TargetOffset) -> Result<(), ArchiveError> {
        let ready = Ready {
            worker: self.worker.clone(),
            at_us,
            clock_uncertainty_us: offset.uncertainty_ns as f64 / 1e3,
            agreement: self.agreement.clone(),
        };
        let content = serde_json::to_vec(&ready).expect("plain data");
        let path = self.path("ready", self.request.number);
        write_small_file(&path, &content)
    }

    /// Reads a worker that declared that it is ready since this one began to wait, and recently. One of an earlier attempt
    /// did so before.
    fn read_ready(&self, number: u64, wait: &Wait<'_>) -> Result<Option<Ready>, Obstacle> {
        let path = self.path("ready", number);
        let Some(content) = find_small_file(&path, READY_BYTES_MAX)? else {
            return Ok(None);
        };
        let ready: Ready = serde_json::from_slice(&content).map_err(|error| {
            Obstacle::Refused(format!(
                "{} is no file of a worker: {error}",
                path.display()
            ))
        })?;
        let is_ready = wait.counts(ready.at_us, wait.now_us());
        Ok(is_ready.then_some(ready))
    }

    /// Reads all workers at the same time, a group in each thread; `None` if one is not ready.
    fn read_all_ready(&self, wait: &Wait<'_>) -> Result<Option<Vec<Ready>>, Obstacle> {
        let numbers: Vec<u64> = (0..self.request.count).collect();
        let group = numbers.len().div_ceil(READERS_MAX).max(1);
        std::thread::scope(|scope| {
            let readers: Vec<_> = numbers
                .chunks(group)
                .map(|numbers| {
                    scope.spawn(move || {
                        let each = numbers.iter().map(|number| self.read_ready(*number, wait));
                        each.collect::<Result<Option<Vec<Ready>>, Obstacle>>()
                    })
                })
                .collect();
            let mut all = Vec::new();
            for reader in readers {
                let group = match reader.join() {
                    Ok(group) => group?,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                match group {
                    Some(workers) => all.extend(workers),
                    None => return Ok(None),
                }
            }
            Ok(Some(all))
        })
    }

    fn refuse_difference(&self, number: u64, ready: &Ready) -> Result<(), Obstacle> {
        match self.agreement.difference(&ready.agreement) {
            None => Ok(()),
            Some(difference) => Err(Obstacle::Refused(format!(
                "the worker of shard {number} has other settings: {difference}; start all workers with the same program, target, workload and options"
            ))),
        }
    }

    fn describe_timeout(&self, wait: &Wait<'_>) -> Result<String, String> {
        let mut missing = Vec::new();
        for number in 0..self.request.count {
            let ready = self.read_ready(number, wait);
            if ready.map_err(Obstacle::into_text)?.is_none() {
                missing.push(number.to_string());
            }
        }
        let waited = i64::try_from(self.request.start_timeout.as_nanos()).unwrap_or(i64::MAX);
        Ok(match missing.is_empty() {
            true => format!(
                "all workers were ready after {}, and that of shard 0 did not start the replay; see its output",
                duration_text(waited)
            ),
            false => format!(
                "the workers of these shards were not ready after {}: {}; see their output, and start all workers again",
                duration_text(waited),
                missing.join(", ")
            ),
        })
    }
}

impl Meeting for ShardMeeting {
    fn await_start(&self, clock: &dyn Clock) -> Result<i64, String> {
        let offset = self.measure(clock)?;
        let (number, count) = (self.request.number, self.request.count);
        let timeout = self.request.start_timeout;
        let timeout_ns = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        note(&format!(
            "Shard {number} of {count} is ready, and knows the clock of the target to ± {}. It waits for the other workers for {} (--start-timeout).",
            duration_text(offset.uncertainty_ns),
            duration_text(timeout_ns)
        ));
        let wait = Wait::new(clock, &offset);
        let until_ns = clock.now_ns().saturating_add(timeout_ns);
        self.await_decision(&wait, until_ns)
    }

    fn end(&self) -> Vec<u64> {
        self.await_end()
    }
}

impl ShardMeeting {
    /// Waits until the start is decided. A store that does not answer is asked again.
    fn await_decision(&self, wait: &Wait<'_>, until_ns: i64) -> Result<i64, String> {
        let mut written_us = i64::MIN;
        loop {
            let mut fault = None;
            let now_us = wait.now_us();
            if now_us - REFRESH_US >= written_us {
                match self.write_ready_at(now_us, wait.offset) {
                    Ok(()) => written_us = now_us,
                    Err(error) => fault = Some(error.to_string()),
                }
            }
            match self.decide(wait) {
                Ok(Some(plan)) => return self.start_of(&plan, wait),
                Ok(None) => {}
                Err(Obstacle::Refused(reason)) => {
                    // The other worker may have begun to wait since the last time, and refuses, too.
                    let _ = self.write_ready_at(wait.now_us(), wait.offset);
                    return Err(reason);
                }
                Err(Obstacle::Store(error)) => fault = Some(error.to_string()),
            }
            if self.interrupt.is_requested() {
                self.withdraw(wait.offset);
                return Err("it was interrupted while it waited for the other workers".to_owned());
            }
            if wait.clock.now_ns() > until_ns {
                let reason = match fault {
                    Some(fault) => Ok(fault),
                    None => self.describe_timeout(wait),
                };
                self.withdraw(wait.offset);
                return Err(reason?);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Refuses a run whose replay has begun.
fn refuse_begun(request: &ShardRequest) -> Result<(), Failure> {
    let run = &request.run;
    if run::read_shard_plan(run)?.is_some() {
        return Err(Failure::usage(format!(
            "the replay of {} has begun already; to complete shard {} give --resume {}, for a new replay another -o",
            run.display(),
            request.number,
            run.display()
        )));
    }
    match archive::archive_exists(run)? && is_run(run)? {
        true => Err(Failure::usage(format!(
            "{} is there already; give another name, or remove it first",
            run.display()
        ))),
        false => Ok(()),
    }
}

/// Whether an archive has this name, and not only a directory in which workers meet.
fn is_run(run: &Path) -> Result<bool, Failure> {
    let manifest = find_small_file(&run.join("manifest.json"), u64::MAX >> 1)?;
    Ok(manifest.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::ManualClock;

    #[test]
    fn worker_counts_as_ready_only_if_it_was_so_during_the_wait() {
        let clock = ManualClock::default();
        let offset = TargetOffset {
            offset_ns: 1_000_000_000_000,
            uncertainty_ns: 0,
        };
        let wait = Wait::new(&clock, &offset);
        let begun_us = wait.begun_us;
        let now_us = begun_us + 20_000_000;
        // Of an earlier attempt, a moment before this one.
        assert!(!wait.counts(begun_us - 1, begun_us));
        assert!(wait.counts(begun_us, begun_us));
        // It wrote nothing more for longer than a request takes.
        assert!(!wait.counts(begun_us, now_us));
        assert!(wait.counts(now_us - FRESH_US, now_us));
        // A clock that was set back since.
        assert!(!wait.counts(now_us + 60_000_000, now_us));
    }
}
