//! Common start of the workers among which a replay is divided.
//!
//! The workers agree through small files in the directory of the run, on a disk or in an object store. Each writes
//! `ready-I.json` again and again. When all are fresh, the worker of shard 0 creates `shards.json` with a start time on the
//! target's clock. Each worker measures that clock, since it is the one that all of them can reach.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::{create_small_file, find_small_file, is_object_url, write_small_file};
use clock::{Clock, duration_text, monotonic_ns};
use connect::login::Login;
use replay::{
    Meeting, Observer, Options, ShardSelection, ShardSize, Snapshot, Target, WorkloadPass,
};
use run::{SHARD_OPTION, SHARDS_FILE, SHARDS_FORMAT, Shard, ShardDivision, ShardPlan, WorkloadRef};
use serde::{Deserialize, Serialize};
use workload::WorkloadReader;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes::note;
use crate::pass_note::PassNote;
use crate::target_offset::TargetOffset;

/// Time from the decision of the start to the start: each worker must read the decision and measure the clock again.
const LEAD_US: i64 = 5_000_000;
/// Interval at which a worker looks for the others.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which a worker writes that it is ready.
const REFRESH_US: i64 = 2_000_000;
/// Age at which a worker no longer counts as ready. A request to an object store is repeated for some seconds.
const FRESH_US: i64 = 15_000_000;
/// Time for which the worker of shard 0 waits for the others at the end.
const END_WAIT: Duration = Duration::from_secs(60);
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

/// Facts on which all workers must agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Agreement {
    workload: String,
    shards: u64,
    options: BTreeMap<String, String>,
    division: ShardDivision,
    /// Statements of each shard.
    statements: Vec<u64>,
}

impl Agreement {
    /// Describes the first difference from another worker; `None` if there is none.
    fn difference(&self, other: &Agreement) -> Option<String> {
        let differs = |name: &str, own: &dyn std::fmt::Debug, others: &dyn std::fmt::Debug| {
            Some(format!("{name} is {others:?} there and {own:?} here"))
        };
        if self.workload != other.workload {
            return differs("the id of the workload", &self.workload, &other.workload);
        }
        if self.shards != other.shards {
            return differs("the number of shards", &self.shards, &other.shards);
        }
        let names = self.options.keys().chain(other.options.keys());
        for name in names {
            let (own, others) = (self.options.get(name), other.options.get(name));
            if own != others {
                let text =
                    |value: Option<&String>| value.map_or("not given", |value| value).to_owned();
                return differs(name, &text(own), &text(others));
            }
        }
        (self.division != other.division || self.statements != other.statements).then(|| {
            "the sessions are divided otherwise, since the schema of the target differs or changed"
                .to_owned()
        })
    }
}

/// A worker that is ready.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    /// Random name of its process.
    worker: String,
    /// Time on the target's clock, in microseconds since 1970-01-01 UTC.
    at_us: i64,
    clock_uncertainty_us: f64,
    agreement: Agreement,
}

/// Divides the sessions, and selects those of this worker.
///
/// # Errors
/// If the sessions cannot be divided, or the workload cannot be read.
pub fn select_shard(
    request: &ShardRequest,
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
) -> Result<(ShardSelection, Vec<ShardSize>), Failure> {
    let (number, count) = (request.number, request.count);
    let mut notes = DivisionNotes::default();
    let shard = replay::select_shard(number, count, reader, (target, engine), &mut notes)?;
    let sizes = replay::shard_sizes(&shard, reader, engine)?;
    let own = &sizes[usize::try_from(number).unwrap_or(usize::MAX)];
    let by = match shard.division() {
        ShardDivision::Sessions => "by a hash of their numbers".to_owned(),
        ShardDivision::Dependencies { groups, .. } => {
            format!("in {groups} groups that do not depend on each other")
        }
    };
    note(&format!(
        "Shard {number} of {count} (numbered from 0) has {} of {} sessions and {} of {} statements; sessions are divided {by}.",
        own.sessions,
        sizes.iter().map(|size| size.sessions).sum::<u64>(),
        own.statements,
        sizes.iter().map(|size| size.statements).sum::<u64>(),
    ));
    Ok((shard, sizes))
}

/// Notes the passes over the workload that a division needs.
#[derive(Default)]
struct DivisionNotes(PassNote);

impl Observer for DivisionNotes {
    fn on_workload_pass(&mut self, pass: WorkloadPass, read: u64, all: u64) {
        if let Some(text) = self.0.progress(pass, read, all, monotonic_ns()) {
            note(&text);
        }
    }

    fn on_progress(&mut self, _snapshot: &Snapshot) {}

    fn should_stop(&mut self) -> bool {
        false
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
        Ok(ShardMeeting {
            login: engine.logins.login(target, user, database, ""),
            request: request.clone(),
            target: target.clone(),
            worker: format!("{:016x}", rand::random::<u64>()),
            agreement: Agreement {
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
            sizes,
            interrupt: interrupt.clone(),
        })
    }

    fn measure(&self, clock: &dyn Clock) -> Result<TargetOffset, String> {
        let tolerance = self.request.clock_tolerance;
        TargetOffset::measure(&self.target, &self.login, clock, tolerance)
    }

    /// Returns the decision; `None` if there is none yet. The worker of shard 0 makes it when all are ready.
    fn decide(&self, now_us: i64) -> Result<Option<ShardPlan>, String> {
        if self.request.number != 0 {
            if let Some(first) = self.read_ready(0, now_us)? {
                self.refuse_difference(0, &first)?;
            }
            let plan = run::read_shard_plan(&self.request.run);
            return plan.map_err(|error| error.to_string());
        }
        let mut shards = Vec::new();
        for (number, size) in (0..self.request.count).zip(&self.sizes) {
            let Some(ready) = self.read_ready(number, now_us)? else {
                return Ok(None);
            };
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
            start_us: now_us + LEAD_US,
            shards,
        };
        let content = serde_json::to_vec_pretty(&plan).map_err(|error| error.to_string())?;
        let path = self.request.run.join(SHARDS_FILE);
        match create_small_file(&path, &content) {
            Ok(true) => Ok(Some(plan)),
            Ok(false) => Err(format!(
                "another worker of shard 0 has started the replay in {}; give another -o",
                self.request.run.display()
            )),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Checks that this worker takes part, and measures the clock again: the wait may have been long.
    fn start_of(&self, plan: &ShardPlan, clock: &dyn Clock) -> Result<i64, String> {
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
        let start_ns = self.measure(clock)?.clock_ns(plan.start_us);
        let late_ns = clock.now_ns() - start_ns;
        match late_ns > 0 {
            true => Err(format!(
                "this worker learnt of the start {} too late, and the other workers have started without shard {number}; replay it when they are done, with --resume {}",
                duration_text(late_ns),
                self.request.run.display()
            )),
            false => Ok(start_ns),
        }
    }

    fn path(&self, kind: &str, number: u64) -> PathBuf {
        self.request.run.join(format!("{kind}-{number}.json"))
    }

    fn write_ready(&self, now_us: i64, offset: &TargetOffset) -> Result<(), String> {
        let ready = Ready {
            worker: self.worker.clone(),
            at_us: now_us,
            clock_uncertainty_us: offset.uncertainty_ns as f64 / 1e3,
            agreement: self.agreement.clone(),
        };
        let content = serde_json::to_vec(&ready).map_err(|error| error.to_string())?;
        let path = self.path("ready", self.request.number);
        write_small_file(&path, &content).map_err(|error| error.to_string())
    }

    /// Reads a worker that was ready recently. One of an earlier attempt is no longer fresh.
    fn read_ready(&self, number: u64, now_us: i64) -> Result<Option<Ready>, String> {
        let path = self.path("ready", number);
        let content = find_small_file(&path, READY_BYTES_MAX).map_err(|error| error.to_string())?;
        let ready: Option<Ready> =
            match content {
                None => None,
                Some(content) => Some(serde_json::from_slice(&content).map_err(|error| {
                    format!("{} is no file of a worker: {error}", path.display())
                })?),
            };
        Ok(ready.filter(|ready| now_us - ready.at_us < FRESH_US))
    }

    fn refuse_difference(&self, number: u64, ready: &Ready) -> Result<(), String> {
        match self.agreement.difference(&ready.agreement) {
            None => Ok(()),
            Some(difference) => Err(format!(
                "the worker of shard {number} was started otherwise: {difference}; start all workers with the same workload and options"
            )),
        }
    }

    fn describe_timeout(&self, now_us: i64) -> Result<String, String> {
        let mut missing = Vec::new();
        for number in 0..self.request.count {
            if self.read_ready(number, now_us)?.is_none() {
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
        let until_ns = clock.now_ns().saturating_add(timeout_ns);
        let mut written_us = i64::MIN;
        loop {
            let now_us = offset.target_us(clock.now_ns());
            if now_us - REFRESH_US >= written_us {
                self.write_ready(now_us, &offset)?;
                written_us = now_us;
            }
            if let Some(plan) = self.decide(now_us)? {
                return self.start_of(&plan, clock);
            }
            if self.interrupt.is_requested() {
                return Err("it was interrupted while it waited for the other workers".to_owned());
            }
            if clock.now_ns() > until_ns {
                return Err(self.describe_timeout(now_us)?);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The worker of shard 0 waits for the others, so that what it then reads of the server includes their statements.
    fn end(&self) -> Result<(), archive::ArchiveError> {
        if self.request.number != 0 {
            return write_small_file(&self.path("done", self.request.number), b"{}");
        }
        let polls = END_WAIT.as_millis() / POLL_INTERVAL.as_millis();
        let mut running: Vec<u64> = (1..self.request.count).collect();
        for _ in 0..polls {
            let mut still = Vec::new();
            for number in running {
                if find_small_file(&self.path("done", number), READY_BYTES_MAX)?.is_none() {
                    still.push(number);
                }
            }
            running = still;
            if running.is_empty() || self.interrupt.is_requested() {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let numbers: Vec<String> = running.iter().map(u64::to_string).collect();
        note(&format!(
            "The workers of these shards are not done: {}. The statistics of the server lack what they send from now on.",
            numbers.join(", ")
        ));
        Ok(())
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
