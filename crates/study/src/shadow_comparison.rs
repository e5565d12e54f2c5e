//! Compares the capture with a run that is being written, until the run is complete.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clock::monotonic_ns;
use compare::shadow::{
    Shadow, ShadowChange, ShadowCondition, ShadowConditionOutcome, ShadowOptions, ShadowReport,
};
use run::{FollowedResult, FollowedState, RunFollower, RunInfo, RunStatus, SeriesGap};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::keys::open_workload;
use crate::notes::note;
use crate::series_replay::series_id;

/// Interval between two reads of the run.
const READ_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of checks for a stop request.
const STOP_STEP: Duration = Duration::from_millis(50);

/// Run to follow.
#[derive(Debug, Clone)]
pub struct ShadowRequest {
    /// Workload or series that the run replays.
    pub workload: PathBuf,
    /// Path of the run, which may be complete.
    pub run: PathBuf,
    /// Options of the comparison.
    pub options: ShadowOptions,
    /// Conditions that are checked on the result.
    pub conditions: Vec<ShadowCondition>,
    /// Time after which it ends. Without one, it ends with the run.
    pub duration: Option<Duration>,
    /// Interval between two reports.
    pub interval: Duration,
    /// Most statements without findings of a report.
    pub statements_max: usize,
}

/// State of a shadow comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShadowState {
    /// The run is being written.
    InProgress,
    /// The run is complete.
    Complete,
    /// The replay was stopped before the end of the workload, or of the series as it was captured.
    ReplayStopped,
    /// The replay was killed, and its run was recovered.
    Recovered,
    /// The comparison was stopped before the run was complete.
    Stopped,
    /// The replay that wrote the run was killed, and the run is not recovered.
    Abandoned,
}

impl ShadowState {
    fn of_complete(status: RunStatus) -> Self {
        match status {
            RunStatus::Complete => ShadowState::Complete,
            RunStatus::Stopped => ShadowState::ReplayStopped,
            RunStatus::Recovered | RunStatus::Incomplete => ShadowState::Recovered,
        }
    }
}

/// Shadow comparison at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShadowView {
    /// State.
    pub state: ShadowState,
    /// Workload or series, as the replay's user named it.
    pub workload: String,
    /// Path of the run.
    pub run: String,
    /// Address of the candidate.
    pub target: String,
    /// Version of the candidate.
    pub server_version: String,
    /// Start of the replay, in microseconds since 1970-01-01 UTC. Other times are from there.
    pub started_wall_us: i64,
    /// Statements of the workload after the time up to which the result holds, since the replay was stopped or killed. 0 for
    /// other states. Statements of a series after the end of its replay are not known, and not counted.
    pub unreached: u64,
    /// Gaps of the series that the replay has come to: of these ranges of captured time, nothing is compared.
    pub series_gaps: Vec<SeriesGap>,
    /// Result so far.
    pub report: ShadowReport,
    /// Conditions of `--fail-on`, as they are now.
    pub conditions: Vec<ShadowConditionOutcome>,
}

/// Observer of a shadow comparison.
pub trait ShadowObserver {
    /// Takes a change of a verdict. `started_wall_us` is the start of the replay, in microseconds since 1970-01-01 UTC.
    fn on_change(&mut self, change: &ShadowChange, started_wall_us: i64);

    /// Takes a gap of the series, when the replay has come to it.
    fn on_series_gap(&mut self, gap: &SeriesGap);

    /// Takes the result so far, at each interval.
    ///
    /// # Errors
    /// If it cannot be shown. The comparison ends then.
    fn on_report(&mut self, view: &ShadowView) -> Result<(), Failure>;
}

/// Follows a run until it is complete, the duration is over, or a stop is requested. Returns the last result, which the
/// observer has not got.
///
/// # Errors
/// If the run cannot be read, is of another workload, or the observer fails.
pub fn follow_run(
    request: &ShadowRequest,
    interrupt: &Interrupt,
    observer: &mut dyn ShadowObserver,
) -> Result<ShadowView, Failure> {
    let started_ns = monotonic_ns();
    let id = workload_id(&request.workload)?;
    let mut follower = wait_for_run(request, interrupt)?;
    refuse_parts(&request.run)?;
    let mut info = follower.info().clone();
    let mut statements = 0;
    info.series_gaps.clear();
    refuse_other_workload(request, &id, &info)?;
    let mut shadow = Shadow::of_replay(request.options.clone(), &info.options);
    let mut reported_ns: Option<i64> = None;
    loop {
        // The state is read first, so that no row is missed if it is complete.
        let state = follower.state();
        let current = follower.current_info()?;
        for gap in current.series_gaps.iter().skip(info.series_gaps.len()) {
            observer.on_series_gap(gap);
        }
        info = current;
        follower.new_results(|result| match result {
            FollowedResult::Execution(execution) => {
                statements += u64::from(execution.is_statement());
                shadow.add(execution);
            }
            FollowedResult::Lost(lost) => shadow.add_lost(lost),
            FollowedResult::Statement(text) => shadow.set_text(text.fingerprint, &text.sql),
        })?;
        let end = match state {
            FollowedState::Complete => {
                info = follower.complete_info()?;
                Some(ShadowState::of_complete(info.status))
            }
            FollowedState::Abandoned => Some(ShadowState::Abandoned),
            FollowedState::InProgress => {
                let is_over = request
                    .duration
                    .is_some_and(|most| since(started_ns) >= most);
                (is_over || interrupt.is_requested()).then_some(ShadowState::Stopped)
            }
        };
        if end.is_some() {
            shadow.finish();
        }
        for change in shadow.take_changes() {
            observer.on_change(&change, info.started_wall_us);
        }
        if let Some(state) = end {
            let mut view = view(request, &info, state, &shadow);
            view.unreached = unreached(&info, state, statements);
            return Ok(view);
        }
        if reported_ns.is_none_or(|at_ns| since(at_ns) >= request.interval) {
            reported_ns = Some(monotonic_ns());
            let state = ShadowState::InProgress;
            observer.on_report(&view(request, &info, state, &shadow))?;
        }
        let waits_ns = monotonic_ns();
        while since(waits_ns) < READ_INTERVAL && !interrupt.is_requested() {
            thread::sleep(STOP_STEP);
        }
    }
}

/// Returns the time since an earlier reading of the monotonic clock.
fn since(earlier_ns: i64) -> Duration {
    Duration::from_nanos((monotonic_ns() - earlier_ns).unsigned_abs())
}

/// Returns the number of statements that a replay did not reach, of which the run has `statements`.
fn unreached(info: &RunInfo, state: ShadowState, statements: u64) -> u64 {
    match state {
        // The manifest counts those that were never dispatched.
        ShadowState::ReplayStopped => info.statements.saturating_sub(statements),
        ShadowState::Recovered | ShadowState::Abandoned => {
            info.workload.statements.saturating_sub(statements)
        }
        ShadowState::InProgress | ShadowState::Complete | ShadowState::Stopped => 0,
    }
}

fn view(
    request: &ShadowRequest,
    info: &RunInfo,
    state: ShadowState,
    shadow: &Shadow,
) -> ShadowView {
    let report = shadow.report(request.statements_max);
    let conditions = request.conditions.iter();
    ShadowView {
        state,
        workload: info.workload.name.clone(),
        run: request.run.display().to_string(),
        target: info.target.address.clone(),
        server_version: info.target.server_version.clone(),
        started_wall_us: info.started_wall_us,
        unreached: 0,
        series_gaps: info.series_gaps.clone(),
        conditions: conditions
            .map(|condition| condition.check(&report))
            .collect(),
        report,
    }
}

/// Refuses a run of several workers, whose executions are in the tables of their parts.
fn refuse_parts(run: &Path) -> Result<(), Failure> {
    match run::read_shard_plan(run)? {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!(
            "{0} is a run of several workers, which --follow does not read; compare it when it is complete, without --follow, or follow one part: {0}/part-0",
            run.display()
        ))),
    }
}

/// Opens the run, as soon as its replay has begun: `replay --follow` waits for a complete part first.
fn wait_for_run(request: &ShadowRequest, interrupt: &Interrupt) -> Result<RunFollower, Failure> {
    let (path, started_ns) = (&request.run, monotonic_ns());
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let may_be_written = !archive::is_object_url(path) && parent.is_none_or(Path::is_dir);
    if !may_be_written {
        return Ok(RunFollower::open(path)?);
    }
    let mut is_noted = false;
    loop {
        if let Some(follower) = RunFollower::open_begun(path)? {
            return Ok(follower);
        }
        if !is_noted {
            note(&format!(
                "Waiting for {}: no replay has begun to write it. A replay of a series begins when its first part is complete.",
                path.display()
            ));
            is_noted = true;
        }
        let is_over = (request.duration).is_some_and(|most| since(started_ns) >= most);
        if is_over || interrupt.is_requested() {
            return Err(Failure::could_not(format!(
                "nothing was compared: no replay has begun to write {}; start `rehearse replay {} --follow -o {}`, or give the name of its run",
                path.display(),
                request.workload.display(),
                path.display()
            )));
        }
        thread::sleep(STOP_STEP);
    }
}

/// Returns the id of a workload or of a series.
fn workload_id(workload: &Path) -> Result<String, Failure> {
    Ok(match series_id(workload)? {
        Some(id) => id,
        None => open_workload(workload)?.id().to_owned(),
    })
}

/// Refuses a run of another workload than the one with this id.
fn refuse_other_workload(request: &ShadowRequest, id: &str, info: &RunInfo) -> Result<(), Failure> {
    match id == info.workload.id {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} is a run of {}, not of {}; give the workload or the series that it replays",
            request.run.display(),
            info.workload.name,
            request.workload.display()
        ))),
    }
}
