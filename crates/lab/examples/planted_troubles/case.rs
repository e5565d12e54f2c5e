//! One case: a generated application is loaded, captured, replayed and diagnosed, and the proposed changes are
//! measured by its clients.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use sandbox::{Dirs, Sandbox};

use super::application::{Application, TARGET};
use super::client::{Times, clearly_worse, drive, mean};
use super::draw::Draw;
use super::kinds::Kind;
use super::program::{Outcome, Program, Proxy, Server};
use super::truth::{Found, Proposal, findings};

/// State of the data from which everything begins.
const LOADED: &str = "planted";
/// Number of findings whose first change is applied, to see whether it does harm.
const APPLIED_MAX: usize = 3;

/// Options of all cases.
#[derive(Debug, Clone)]
pub struct CaseOptions {
    /// The program.
    pub program: Program,
    /// Major version of PostgreSQL.
    pub major: Option<u16>,
    /// Whether the diagnosis makes experiments.
    pub experiments: bool,
    /// Duration of the captured load.
    pub load: Duration,
    /// Duration of each measurement of a change.
    pub measurement: Duration,
    /// Directory in which workloads, runs and diagnoses are left, for a closer look.
    pub keep: Option<PathBuf>,
}

/// Result of a case.
#[derive(Debug, Default)]
pub struct CaseResult {
    /// Whether a trouble was planted.
    pub is_trouble: bool,
    /// Whether the first finding names the right cause; of a healthy application, whether there is none.
    pub is_cause_first: bool,
    /// Place of the right cause among problems and warnings, from 1; 0 if it is not there.
    pub place: usize,
    /// Whether the first proposed change is right.
    pub is_change_right: bool,
    /// Numbers of changes that were applied, and of those that made an action clearly slower.
    pub applied: usize,
    /// Changes that made an action clearly slower.
    pub harmful: usize,
    /// Innocent suspects, and how many of them were cleared.
    pub innocent: usize,
    /// Cleared ones.
    pub cleared: usize,
    /// Duration of the diagnosis, in seconds.
    pub diagnosis_s: f64,
    /// Duration of the whole case, in seconds.
    pub whole_s: f64,
    /// Description of what was found and measured.
    pub notes: String,
}

/// Runs a case.
pub fn run_case(kind: &Kind, seed: u64, options: &CaseOptions) -> Outcome<CaseResult> {
    let start = Instant::now();
    let application = kind.application(&mut Draw::new(kind.name, seed));
    let temporary = tempfile::tempdir()?;
    let directory = match &options.keep {
        Some(directory) => directory.join(format!("{}-{seed}", kind.name)),
        None => temporary.path().join("case"),
    };
    std::fs::create_dir_all(&directory)?;
    let name = format!("{}-{seed}-{}", kind.name, std::process::id());
    let server = options
        .program
        .start_server(&name, options.major, &application.settings)?;
    load(&application, &server)?;
    let workload = directory.join("application.workload");
    let (captured, errors) = capture(&application, &server, seed, &workload, options)?;
    drop(restore(&server)?);

    let diagnosing = Instant::now();
    let diagnosis = if options.experiments {
        let output = directory.join("round");
        options.program.diagnose_with_experiments(
            &workload,
            &server.name,
            &output,
            &application.innocent,
        )?
    } else {
        let run = directory.join("application.run");
        options.program.replay(&workload, &server.url()?, &run)?;
        options.program.diagnose(&run, &application.innocent)?
    };
    let all = findings(&diagnosis);
    let mut result = CaseResult {
        is_trouble: application.truth.is_trouble,
        diagnosis_s: diagnosing.elapsed().as_secs_f64(),
        innocent: application.innocent.len(),
        ..CaseResult::default()
    };
    let suspects = diagnosis["suspects"].as_array().cloned();
    result.cleared = suspects
        .unwrap_or_default()
        .iter()
        .filter(|one| one["verdict"] == "cleared")
        .count();
    std::fs::write(directory.join("diagnosis.json"), format!("{diagnosis:#}"))?;
    note_load(&mut result, &captured, errors)?;
    judge(&application, &all, &mut result);
    measure(&application, &server, seed, (&all, options), &mut result)?;
    result.whole_s = start.elapsed().as_secs_f64();
    Ok(result)
}

/// Judges a case that was kept, by diagnosing its run again. Changes are not measured.
pub fn judge_again(kind: &Kind, seed: u64, options: &CaseOptions) -> Outcome<CaseResult> {
    let application = kind.application(&mut Draw::new(kind.name, seed));
    let kept = options.keep.as_ref().ok_or("no directory of kept cases")?;
    let run = kept.join(format!("{}-{seed}/application.run", kind.name));
    let start = Instant::now();
    let diagnosis = options.program.diagnose(&run, &application.innocent)?;
    let all = findings(&diagnosis);
    let mut result = CaseResult {
        is_trouble: application.truth.is_trouble,
        diagnosis_s: start.elapsed().as_secs_f64(),
        ..CaseResult::default()
    };
    judge(&application, &all, &mut result);
    let first = all.first().and_then(|one| one.proposals.first());
    result.is_change_right = first.is_some_and(|one| application.truth.is_right_in_words(one));
    Ok(result)
}

fn note_load(result: &mut CaseResult, captured: &Times, errors: usize) -> Outcome<()> {
    let total: f64 = captured.values().flatten().sum();
    let target = captured.get(TARGET).map(Vec::as_slice).unwrap_or_default();
    write!(
        result.notes,
        "  load: target {} × {:.2} ms, {:.0} % of the time, {errors} errors",
        target.len(),
        mean(target),
        target.iter().sum::<f64>() / total * 100.0,
    )?;
    Ok(())
}

fn judge(application: &Application, all: &[Found], result: &mut CaseResult) {
    let truth = &application.truth;
    for (place, one) in all.iter().enumerate().take(4) {
        let change = one.proposals.first();
        let _ = write!(
            result.notes,
            "\n  {}. [{}] {}\n     try: {change:?}",
            place + 1,
            one.rule,
            one.title
        );
    }
    if !truth.is_trouble {
        result.is_cause_first = all.is_empty();
        result.is_change_right = all.is_empty();
        return;
    }
    let place = all.iter().position(|one| truth.is_right_cause(one));
    result.place = place.map_or(0, |place| place + 1);
    result.is_cause_first = place == Some(0);
}

/// Applies the first change of the first findings, each to the restored data, and measures the actions.
fn measure(
    application: &Application,
    server: &Server,
    seed: u64,
    (all, options): (&[Found], &CaseOptions),
    result: &mut CaseResult,
) -> Outcome<()> {
    let truth = &application.truth;
    let first = all.first().and_then(|one| one.proposals.first());
    if let Some(first) = first.filter(|_| truth.is_trouble) {
        result.is_change_right = truth.is_right_in_words(first);
    }
    let mut proposals: Vec<&Proposal> = Vec::new();
    for one in all.iter().take(APPLIED_MAX) {
        let applicable = one
            .proposals
            .first()
            .filter(|change| matches!(change, Proposal::Sql(_) | Proposal::Setting(..)));
        if let Some(change) = applicable.filter(|change| !proposals.contains(change)) {
            proposals.push(change);
        }
    }
    if proposals.is_empty() {
        return Ok(());
    }
    let drive_from_loaded = |change: Option<&Proposal>| -> Outcome<Times> {
        let mut sandbox = restore(server)?;
        if let Some(change) = change {
            apply(change, &server.url()?)?;
            if matches!(change, Proposal::Setting(..)) {
                sandbox.restart()?;
            }
        }
        let url = server.url()?;
        Ok(drive(application, &url, seed, options.measurement)?.0)
    };
    let before = drive_from_loaded(None)?;
    for change in proposals {
        let after = match drive_from_loaded(Some(change)) {
            Ok(after) => after,
            Err(error) => {
                write!(result.notes, "\n  refused: {change:?}: {error:?}")?;
                continue;
            }
        };
        result.applied += 1;
        let mut worse = clearly_worse(&before, &after);
        if !worse.is_empty() {
            // A busy machine makes something slower in every other measurement, but rarely the same action twice.
            let again = clearly_worse(&drive_from_loaded(None)?, &drive_from_loaded(Some(change))?);
            worse.retain(|(label, ..)| again.iter().any(|(other, ..)| other == label));
        }
        result.harmful += usize::from(!worse.is_empty());
        for (label, before, after) in worse {
            write!(
                result.notes,
                "\n  worse: {label} {before:.2} ms -> {after:.2} ms by {change:?}"
            )?;
        }
        if truth.is_trouble {
            let of = |times: &Times| times.get(TARGET).map_or(f64::MAX, |times| mean(times));
            let left = of(&after) / of(&before);
            write!(
                result.notes,
                "\n  measured: {:.2} ms -> {:.2} ms ({left:.2}) by {change:?}",
                of(&before),
                of(&after)
            )?;
            if Some(change) == first {
                result.is_change_right |= left <= truth.share;
            }
        }
    }
    Ok(())
}

fn load(application: &Application, server: &Server) -> Outcome<()> {
    for sql in &application.schema {
        // Each in its own session, so that the counters of changes are written before the next statement.
        Client::connect(&server.url()?, NoTls)?
            .batch_execute(sql)
            .map_err(|error| format!("{sql}: {error:?}"))?;
    }
    let mut sandbox = ::sandbox::open(&server.name, &Dirs::from_environment()?)?;
    sandbox.snapshot(LOADED)?;
    Ok(())
}

fn capture(
    application: &Application,
    server: &Server,
    seed: u64,
    workload: &Path,
    options: &CaseOptions,
) -> Outcome<(Times, usize)> {
    let proxy = Proxy::start(&options.program, &server.url()?, workload)?;
    let done = drive(application, &proxy.url(), seed, options.load)?;
    proxy.stop()?;
    Ok(done)
}

fn restore(server: &Server) -> Outcome<Sandbox> {
    let mut sandbox = ::sandbox::open(&server.name, &Dirs::from_environment()?)?;
    sandbox.restore(LOADED)?;
    Ok(sandbox)
}

fn apply(change: &Proposal, url: &str) -> Outcome<()> {
    let mut client = Client::connect(url, NoTls)?;
    match change {
        Proposal::Sql(sql) if sql.contains("$$") => client.batch_execute(sql)?,
        // One at a time, since VACUUM cannot run with others.
        Proposal::Sql(sql) => {
            for one in sql.split(';').filter(|one| !one.trim().is_empty()) {
                client.batch_execute(one)?;
            }
        }
        Proposal::Setting(name, value) => {
            client.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'"))?;
        }
        Proposal::Rewrite(_) | Proposal::ByHand(_) => {}
    }
    Ok(())
}
