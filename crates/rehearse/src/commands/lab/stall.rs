//! `rehearse lab stall`.

mod proved;
mod view;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::compare::Comparison;
use lab::stall;
use lab::stall::{SendRates, Shop, TrafficPlan};
use lab::{LabError, Scale};
use replay::{Options, SendOrder};
use report::CaseReport;
use run::{RunInfo, RunReader};
use workload::WorkloadReader;

use self::proved::Proved;
use super::stage::Stage;
use crate::options::lab::CaseArgs;
use study::Failure;
use study::compare_runs::{ComparisonRequest, compare_runs};

/// How many times as long as its interval a search takes without its index.
const SLOWER: u32 = 3;
/// A point of the picture is of so long a stretch.
const WINDOW_NS: i64 = 500_000_000;
/// How long the soak of the full scale takes.
const SOAK: Duration = Duration::from_secs(3 * 3_600);

/// All that was seen.
struct Seen {
    scale: Scale,
    version: String,
    shop: Shop,
    plan: TrafficPlan,
    /// What the untouched sessions sent: with the index …
    control: SendRates,
    /// … without it, a session each …
    session: SendRates,
    /// … and in one order for all.
    global: SendRates,
    /// Of the replay without the index with the control.
    comparison: Comparison,
    proved: Proved,
    /// The replay for hours, at the full scale.
    soak: Option<RunInfo>,
    steps: Vec<String>,
}

/// Runs the case. Returns its folder, and what was seen.
pub fn run(args: &CaseArgs) -> Result<(PathBuf, CaseReport), Failure> {
    let scale = Scale::from(args.size);
    let mut stage = Stage::begin(stall::CASE, args)?;
    stage.step("A shop with its orders, and an index for those of a customer.".to_owned())?;
    let shop = stall::create(&mut stage.client()?, scale).map_err(Failure::could_not)?;
    let version = stage.version();
    stage.loaded()?;

    let duration = match scale {
        Scale::Small => Duration::from_secs(4),
        Scale::Full => Duration::from_secs(600),
    };
    let plan = TrafficPlan::for_shop(&shop, SLOWER, duration);
    stage.step(format!(
        "For {} s {} programs read single orders, every {} ms each; one searches for a customer's, every {:.1} ms. The server logs it.",
        duration.as_secs(),
        plan.readers,
        plan.read_every.as_millis(),
        plan.search_every.as_secs_f64() * 1e3,
    ))?;
    let driven =
        stall::run_programs(&stage.connecting(), &shop, &plan).map_err(Failure::could_not)?;
    stage.step(format!(
        "The log of {} reads and {} searches becomes a workload.",
        driven.reads, driven.searches
    ))?;
    let workload = stage.captured("shop.workload")?;
    let touched = searchers(&workload)?;

    let one_each = Options::default();
    let in_one_queue = Options {
        order: SendOrder::Global,
        ..Options::default()
    };
    stage.step("Replayed with the index, a session each: the control.".to_owned())?;
    let (control, _) = stage.replay(&workload, "control.run", &one_each, stall::warm)?;
    let without = |client: &mut postgres::Client| -> Result<(), LabError> {
        stall::drop_index(client)?;
        stall::warm(client)
    };
    stage.step(format!(
        "Replayed without {}, a session each.",
        stall::INDEX
    ))?;
    let (session, _) = stage.replay(&workload, "session.run", &one_each, without)?;
    stage.step(format!(
        "Replayed without {}, in one order for all sessions (--order global).",
        stall::INDEX
    ))?;
    let (global, _) = stage.replay(&workload, "global.run", &in_one_queue, without)?;
    let soak = match scale {
        Scale::Small => None,
        Scale::Full => {
            stage.step("Replayed with the index again and again, for three hours.".to_owned())?;
            let options = Options {
                repeat: (SOAK.as_secs() / duration.as_secs()) as u32,
                ..Options::default()
            };
            Some(
                stage
                    .replay(&workload, "soak.run", &options, stall::warm)?
                    .1,
            )
        }
    };
    let (seconds, blocks) = match scale {
        Scale::Small => (1, 2),
        Scale::Full => (20, 6),
    };
    stage.step(format!(
        "The replay without it, a session each, is diagnosed without being told anything; on the first {seconds} s of the traffic are proved: the change, and the change with what the diagnosis suggests."
    ))?;
    let (stage, proved) = proved::prove(stage, &session, &workload, (seconds, blocks))?;
    let (directory, steps) = stage.end()?;

    let rates = |run: &Path| rates_of(run, &touched);
    let seen = Seen {
        scale,
        version,
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
        proved,
        soak,
        steps,
    };
    Ok((directory, view::view(&seen)))
}

/// The sessions of the program that searches.
fn searchers(workload: &WorkloadReader) -> Result<HashSet<u64>, Failure> {
    let mut found = HashSet::new();
    for session in workload.sessions()? {
        let session = session?;
        if &*session.application == stall::SEARCHER {
            found.insert(session.id);
        }
    }
    Ok(found)
}

fn rates_of(run: &Path, touched: &HashSet<u64>) -> Result<SendRates, Failure> {
    let executions: Vec<_> = RunReader::open(run)?
        .executions()?
        .collect::<Result<_, _>>()?;
    Ok(SendRates::from_executions(
        executions.iter(),
        touched,
        WINDOW_NS,
    ))
}
