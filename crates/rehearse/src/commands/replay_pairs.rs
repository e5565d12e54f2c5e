//! `rehearse replay --against`: replays on two servers in pairs, and compares the runs.

use ::compare::CompareOptions;
use replay::{Options, Target};
use study::Failure;
use study::Interrupt;
use study::paired_replay::{PairedReplayRequest, PairedRuns, is_sandbox, replay_in_pairs};
use study::target_snapshot::ObservationPlan;
use workload::WorkloadReader;

use crate::commands::compare;
use crate::commands::replay::refuse_role_without_user;
use crate::display::Display;
use crate::exit_status::ExitStatus;
use crate::options;
use crate::options::comparing::{Compare, OutputArgs};
use crate::options::facts::ExplainArgs;
use crate::options::following::FollowArgs;
use crate::options::observing::{AllowHostArgs, MetricsArgs};
use crate::options::pairing::PairArgs;
use crate::terminal;

/// Replays in pairs, and shows the comparison.
pub fn run(
    options: &options::Replay,
    reader: &WorkloadReader,
    (engine, observation): (Options, ObservationPlan),
    interrupt: &Interrupt,
) -> Result<ExitStatus, Failure> {
    let pairs = &options.pairs;
    let Some(output) = options.output.clone() else {
        return Err(Failure::usage(
            "missing output: pass `-o NAME`, a directory for all runs",
        ));
    };
    let servers = servers(options)?;
    check_conditions(options)?;
    for server in servers.iter().filter(|one| !is_sandbox(one)) {
        let target = Target::parse(server, |name| std::env::var(name).ok())?;
        refuse_role_without_user(options, &target)?;
    }
    let request = PairedReplayRequest {
        servers,
        runs: pairs.runs.unwrap_or(PairArgs::RUNS),
        seed: pairs.seed,
        output,
        restore: pairs.restore.clone(),
        no_restore: pairs.no_restore,
        continues: pairs.continues,
        allow_captured_server: options.safety.allow_captured_server.clone(),
        engine,
        observation,
    };
    let continued = "the same command with --continue makes the pairs that are missing";
    let mut display = || Box::new(Display::on_terminal()) as Box<_>;
    let runs = replay_in_pairs(&request, reader, interrupt, &mut display)?;
    if runs.before.is_empty() || runs.after.is_empty() {
        terminal::note(&format!(
            "The replays were stopped before each side had a run; there is nothing to compare; {continued}."
        ));
        return Ok(ExitStatus::Findings);
    }
    if runs.is_stopped {
        terminal::note(&format!("The replays were stopped; {continued}."));
    }
    terminal::note(&format!("Compare the runs again with: {}", runs.command()));
    let shown = compare::run(&comparison(options, &runs))?;
    Ok(match runs.is_stopped {
        true => ExitStatus::Findings,
        false => shown,
    })
}

/// Refuses conditions that cannot be read, before anything is replayed.
fn check_conditions(options: &options::Replay) -> Result<(), Failure> {
    let checked = Compare {
        dry_run: true,
        ..comparison(options, &PairedRuns::default())
    };
    compare::run(&checked).map(drop)
}

/// Returns the servers before and after the change.
fn servers(options: &options::Replay) -> Result<[String; 2], Failure> {
    let given = options.target.iter().chain(&options.pairs.against);
    let servers: Vec<String> = given.cloned().collect();
    let count = servers.len();
    servers.try_into().map_err(|_| {
        Failure::usage(format!(
            "replays in pairs need two servers, and {count} are given; give --target and --against once each, or --against twice"
        ))
    })
}

fn comparison(options: &options::Replay, runs: &PairedRuns) -> Compare {
    let criteria = CompareOptions::default();
    Compare {
        runs: Vec::new(),
        before: runs.before.clone(),
        after: runs.after.clone(),
        noise: Vec::new(),
        margin: criteria.margin * 100.0,
        false_discovery_rate: criteria.false_discovery_rate * 100.0,
        ignore_rows: Vec::new(),
        ignore_columns: Vec::new(),
        by: None,
        fail_on: options.pairs.fail_on.clone(),
        dry_run: false,
        json: options.json,
        show_literals: options.show_literals,
        outputs: OutputArgs::default(),
        notifying: options.notifying.clone(),
        explain: ExplainArgs::default(),
        follow: FollowArgs::default(),
        metrics: MetricsArgs::default(),
        hosts: AllowHostArgs::default(),
    }
}
