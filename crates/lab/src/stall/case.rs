//! Steps of the case *stall*.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use compare::Comparison;
use replay::{Options, SendOrder};
use report::CaseReport;
use run::{RunInfo, RunReader};
use study::Failure;
use study::compare_runs::{ComparisonRequest, compare_runs};
use workload::WorkloadReader;

use super::{
    INDEX, SEARCHER, SendRates, Shop, TrafficPlan, create, drop_index, run_programs, story, warm,
};
use crate::case::Scale;
use crate::error::LabError;
use crate::stage::{CaseProof, ProofRequest, Stage, diagnose_run, facts_and_plans, proposed_sql};

/// Duration of a search without its index, as a multiple of its interval.
const SLOWDOWN: u32 = 3;
/// Duration of a point of the chart.
pub(super) const WINDOW_NS: i64 = 500_000_000;
/// Duration of the repeated replay at the full scale.
const SOAK: Duration = Duration::from_secs(3 * 3_600);

/// Part of the workload that the proof replays.
pub(super) const PART: &str = "part.workload";
/// Change: the index is dropped.
pub(super) const DROPPED: &str = "dropped.sql";
/// Change: the index is dropped, and what the diagnosis proposes is added.
pub(super) const MENDED: &str = "mended.sql";

/// Measurements of the case.
pub(super) struct Measurements {
    pub(super) shop: Shop,
    pub(super) plan: TrafficPlan,
    /// Statements that unrelated sessions sent: with the index …
    pub(super) control: SendRates,
    /// … without it, with a connection per session …
    pub(super) session: SendRates,
    /// … and in one order for all sessions.
    pub(super) global: SendRates,
    /// Comparison of the replay without the index with the control.
    pub(super) comparison: Comparison,
    pub(super) proof: CaseProof,
    /// Repeated replay, at the full scale.
    pub(super) soak: Option<RunInfo>,
}

/// Runs the case.
pub(crate) fn run(mut stage: Stage, scale: Scale) -> Result<CaseReport, Failure> {
    let version = stage.version();
    stage.step("A shop with its orders, and an index for those of a customer.")?;
    let shop = create(&mut stage.client()?, scale)?;
    stage.keep_loaded()?;

    let (duration, seconds, blocks) = match scale {
        Scale::Small => (Duration::from_secs(4), 1, 2),
        Scale::Full => (Duration::from_secs(600), 20, 6),
    };
    let plan = TrafficPlan::for_shop(&shop, SLOWDOWN, duration);
    let workload = capture(&mut stage, &shop, &plan, duration)?;
    let [control, session, global] = replay_orders(&mut stage, &workload)?;
    let soak = match scale {
        Scale::Small => None,
        Scale::Full => Some(soak(&mut stage, &workload, duration)?),
    };
    stage.step(format!(
        "The replay without it, a session each, is diagnosed without being told anything; on the first {seconds} s of the traffic are proved: the change, and the change with what the diagnosis suggests."
    ))?;
    let (stage, proof) = prove(stage, &session, &workload, (seconds, blocks))?;

    let searchers = searchers(&workload)?;
    let rates = |run: &Path| rates_of(run, &searchers);
    let measurements = Measurements {
        shop,
        plan,
        control: rates(&control)?,
        session: rates(&session)?,
        global: rates(&global)?,
        comparison: compare_runs(&ComparisonRequest {
            before: vec![control],
            after: vec![session],
            ..ComparisonRequest::default()
        })?,
        proof,
        soak,
    };
    Ok(CaseReport {
        done: stage.close()?,
        ..story::report(&measurements, scale, &version)
    })
}

/// Runs the shop's programs, and captures the server's log.
fn capture(
    stage: &mut Stage,
    shop: &Shop,
    plan: &TrafficPlan,
    duration: Duration,
) -> Result<WorkloadReader, Failure> {
    stage.step(format!(
        "For {} s {} programs read single orders, every {} ms each; one searches for a customer's, every {:.1} ms. The server logs it.",
        duration.as_secs(),
        plan.readers,
        plan.read_every.as_millis(),
        plan.search_every.as_secs_f64() * 1e3,
    ))?;
    let driven = run_programs(&stage.connections(), shop, plan)?;
    stage.step(format!(
        "The log of {} reads and {} searches becomes a workload.",
        driven.reads, driven.searches
    ))?;
    stage.capture_log("shop.workload")
}

/// Replays with the index; without it, with a connection per session; and without it, in one order for all sessions.
fn replay_orders(
    stage: &mut Stage,
    workload: &WorkloadReader,
) -> Result<[std::path::PathBuf; 3], Failure> {
    let by_session = Options::default();
    let global = Options {
        order: SendOrder::Global,
        ..Options::default()
    };
    let without = |client: &mut postgres::Client| -> Result<(), LabError> {
        drop_index(client)?;
        warm(client)
    };
    stage.step("Replayed with the index, a session each: the control.")?;
    let (control, _) = stage.replay(
        workload,
        "control.run",
        &by_session,
        facts_and_plans(),
        warm,
    )?;
    stage.step(format!("Replayed without {INDEX}, a session each."))?;
    let (session, _) = stage.replay(
        workload,
        "session.run",
        &by_session,
        facts_and_plans(),
        without,
    )?;
    stage.step(format!(
        "Replayed without {INDEX}, in one order for all sessions (--order global)."
    ))?;
    let (global, _) = stage.replay(workload, "global.run", &global, facts_and_plans(), without)?;
    Ok([control, session, global])
}

/// Replays the workload again and again, for hours.
fn soak(
    stage: &mut Stage,
    workload: &WorkloadReader,
    duration: Duration,
) -> Result<RunInfo, Failure> {
    stage.step("Replayed with the index again and again, for three hours.")?;
    let options = Options {
        repeat: (SOAK.as_secs() / duration.as_secs()) as u32,
        ..Options::default()
    };
    let (_, info) = stage.replay(workload, "soak.run", &options, facts_and_plans(), warm)?;
    Ok(info)
}

/// Diagnoses the replay without the index. Proves the change, and the change with what the diagnosis proposes.
fn prove(
    stage: Stage,
    run: &Path,
    workload: &WorkloadReader,
    (seconds, blocks): (u32, u32),
) -> Result<(Stage, CaseProof), Failure> {
    let diagnosis = diagnose_run(run)?;
    let part = stage.first_seconds(workload, PART, seconds)?;
    let dropped = format!("DROP INDEX {INDEX};\n");
    let mended = format!(
        "{dropped}{}\n",
        proposed_sql(&diagnosis).unwrap_or_default()
    );
    let changes = vec![
        stage.side_of_sql(DROPPED, DROPPED, dropped)?,
        stage.side_of_sql(MENDED, MENDED, mended)?,
    ];
    let (stage, proof) = stage.prove(&part, ProofRequest::new("index.proof", changes, blocks))?;
    Ok((stage, CaseProof { diagnosis, proof }))
}

/// Returns the sessions of the program that searches.
fn searchers(workload: &WorkloadReader) -> Result<HashSet<u64>, Failure> {
    let mut found = HashSet::new();
    for session in workload.sessions()? {
        let session = session?;
        if &*session.application == SEARCHER {
            found.insert(session.id);
        }
    }
    Ok(found)
}

fn rates_of(run: &Path, searchers: &HashSet<u64>) -> Result<SendRates, Failure> {
    let executions: Vec<_> = RunReader::open(run)?
        .executions()?
        .collect::<Result<_, _>>()?;
    Ok(SendRates::from_executions(
        executions.iter(),
        searchers,
        WINDOW_NS,
    ))
}
