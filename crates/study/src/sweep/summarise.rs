//! Computes the report of a sweep from its journal.

use std::collections::BTreeMap;

use compare::sweep::{GROWTH_MIN, KneeEstimate, estimate_knee, estimates};

use super::report::{Axis, LoadUnit, SweepCurve, SweepPoint, SweepReport};
use super::{Cell, Numbers, Pace, Record, SweepJournal};
use crate::runner::EndReason;
use crate::stalled_share::{TrialStalls, stall_note};

/// Share of busy clients below which a note is added.
const BUSY_MIN: f64 = 0.8;
/// Share of the machine's CPU time used by this program above which a note is added.
const OWN_CPU_NOTABLE: f64 = 0.2;

/// Share of the machine's CPU time used by other processes above which a note is added. The
/// kernel's own work for server and clients is below it.
const OTHERS_NOTABLE: f64 = 0.25;

/// Share of the requested rate below which a note about the growing backlog is added.
const KEEPS_UP: f64 = 0.9;

/// Computes the report of a journal. `ended` tells why trials are missing, if the sweep was just performed.
pub fn summarise(journal: &SweepJournal, ended: Option<EndReason>) -> SweepReport {
    let why = ended.and_then(|ended| match ended {
        EndReason::Complete => None,
        EndReason::Interrupted => Some("it was stopped"),
        EndReason::Failing => Some("three trials in a row failed"),
        EndReason::TimeOver => Some("the time that it was given (--time-budget) was over"),
    });
    let manifest = journal.manifest();
    let design = &manifest.plan.design;
    let records: Vec<&Record> = journal.records().collect();
    let trials = design.trials();
    let trials_planned = trials.len() as u64;
    let not_done: Vec<_> = trials
        .into_iter()
        .filter(|trial| journal.record(trial.number).is_none())
        .collect();
    let axis = match (design.clients.len(), design.paces.as_slice()) {
        (2.., _) => Some(Axis::Clients),
        (_, [Pace::Rate(_), _, ..]) => Some(Axis::Rate),
        (_, [_, _, ..]) => Some(Axis::Speed),
        _ => None,
    };
    let option = |name: &str| manifest.options.get(name).cloned().unwrap_or_default();
    let statements_of_one = option("statements-of-one").parse().unwrap_or(1);
    let shown = |name: &str| !["load-name", "place-name", "statements-of-one"].contains(&name);
    let mut report = SweepReport {
        schema: "rehearse/sweep/1",
        name: journal.path().display().to_string(),
        load: option("load-name"),
        place: option("place-name"),
        started_wall_us: manifest.started_wall_us,
        seed: design.seed,
        repeat: design.repeat,
        unit: if manifest.options.contains_key("script") {
            LoadUnit::Transactions
        } else {
            LoadUnit::Statements
        },
        statements_of_one,
        options: manifest
            .options
            .iter()
            .filter(|(name, _)| shown(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        variants: design.variants.clone(),
        trials_planned,
        trials_done: records
            .iter()
            .filter(|record| record.numbers.is_some())
            .count() as u64,
        trials_failed: records
            .iter()
            .filter(|record| record.failed.is_some())
            .count() as u64,
        why_not_done: (!not_done.is_empty()).then(|| why.unwrap_or("it was not ended").to_owned()),
        not_done,
        axis,
        growth_min: GROWTH_MIN,
        curves: curves(journal, &records, axis),
        trials: records.iter().map(|record| (*record).clone()).collect(),
        notes: Vec::new(),
    };
    report.notes = notes(&report, &records);
    report
}

/// Returns the level of a cell on the x axis.
fn level(cell: &Cell, axis: Option<Axis>) -> f64 {
    match (axis, cell.pace) {
        (Some(Axis::Clients), _) => cell.clients.unwrap_or(0).into(),
        (Some(_), Pace::Rate(rate)) => rate,
        (Some(_), Pace::Speed(speed)) => speed.to_string().parse().unwrap_or(0.0),
        _ => 0.0,
    }
}

/// Returns the levels that all points of a curve share: a cell without the factor of the x axis.
fn common(cell: &Cell, axis: Option<Axis>) -> Cell {
    let mut common = cell.clone();
    match axis {
        Some(Axis::Clients) => common.clients = None,
        Some(Axis::Rate | Axis::Speed) => common.pace = Pace::Closed,
        None => {}
    }
    common
}

fn curves(journal: &SweepJournal, records: &[&Record], axis: Option<Axis>) -> Vec<SweepCurve> {
    let design = &journal.plan().design;
    let is_of_clients = axis == Some(Axis::Clients);
    let is_of_paces = matches!(axis, Some(Axis::Rate | Axis::Speed));
    let several = (
        design.variants.len() > 1,
        design.modes.len() > 1,
        design.paces.len() > 1 && !is_of_paces,
        design.clients.len() > 1 && !is_of_clients,
    );
    let mut curves: Vec<(Cell, SweepCurve)> = Vec::new();
    for cell in design.cells() {
        let shared = common(&cell, axis);
        if curves.iter().any(|(other, _)| *other == shared) {
            continue;
        }
        let mut parts = Vec::new();
        if several.0 {
            parts.push(design.variants[cell.variant].name.clone());
        }
        if several.1 {
            parts.push(cell.mode.name().to_owned());
        }
        if several.2 {
            parts.push(cell.pace.to_string());
        }
        if let (true, Some(clients)) = (several.3, cell.clients) {
            parts.push(format!("{clients} clients"));
        }
        let mut levels: BTreeMap<u64, Vec<&Numbers>> = BTreeMap::new();
        for record in records {
            if let (true, Some(numbers)) =
                (common(&record.trial.cell, axis) == shared, &record.numbers)
                && !numbers.stalls.is_disturbed()
            {
                // Positive numbers have the order of their bits.
                let level = level(&record.trial.cell, axis).to_bits();
                levels.entry(level).or_default().push(numbers);
            }
        }
        let levels: Vec<(f64, Vec<&Numbers>)> = levels
            .into_iter()
            .map(|(bits, all)| (f64::from_bits(bits), all))
            .collect();
        let curve = SweepCurve {
            name: parts.join(", "),
            mode: cell.mode,
            variant: cell.variant,
            clients: cell.clients.filter(|_| !is_of_clients),
            pace: (!is_of_paces).then_some(cell.pace),
            points: points(&levels),
            bend: axis.map(|_| bend_of(&levels)),
        };
        curves.push((shared, curve));
    }
    curves.into_iter().map(|(_, curve)| curve).collect()
}

fn bend_of(levels: &[(f64, Vec<&Numbers>)]) -> KneeEstimate {
    let given: Vec<(f64, Vec<f64>, Vec<f64>)> = levels
        .iter()
        .map(|(level, all)| {
            let per_s = all.iter().map(|numbers| numbers.per_s).collect();
            let means = all.iter().filter_map(|numbers| numbers.response);
            (*level, per_s, means.map(|times| times.mean_us).collect())
        })
        .collect();
    estimate_knee(&given)
}

fn points(levels: &[(f64, Vec<&Numbers>)]) -> Vec<SweepPoint> {
    let estimated = |get: &dyn Fn(&Numbers) -> Option<f64>| {
        let values: Vec<Vec<f64>> = levels
            .iter()
            .map(|(_, all)| all.iter().filter_map(|numbers| get(numbers)).collect())
            .collect();
        estimates(&values)
    };
    let per_s = estimated(&|numbers| Some(numbers.per_s));
    let mean_us = estimated(&|numbers| Some(numbers.response?.mean_us));
    let p50_us = estimated(&|numbers| Some(numbers.response?.p50_us));
    let p99_us = estimated(&|numbers| Some(numbers.response?.p99_us));
    let server_cpu_us = estimated(&|numbers| numbers.server_cpu_us);
    let client_cpu_us = estimated(&|numbers| numbers.client_cpu_us);
    let point = |(place, (level, all)): (usize, &(f64, Vec<&Numbers>))| {
        let mean = |values: Vec<f64>| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let counted: Vec<_> = all.iter().filter_map(|numbers| numbers.counted).collect();
        let tracked = counted.iter().filter(|one| one.plans.is_some());
        let plan_ms: f64 = tracked.clone().filter_map(|one| one.plan_ms).sum();
        let exec_ms: f64 = tracked.clone().map(|one| one.exec_ms).sum();
        let plans: Vec<u64> = tracked.filter_map(|one| one.plans).collect();
        SweepPoint {
            level: *level,
            trials: all.len() as u64,
            per_s: per_s[place],
            mean_us: mean_us[place],
            p50_us: p50_us[place],
            p99_us: p99_us[place],
            server_cpu_us: server_cpu_us[place],
            client_cpu_us: client_cpu_us[place],
            machine_busy: mean(
                all.iter()
                    .filter_map(|numbers| numbers.machine_busy)
                    .collect(),
            ),
            busy: mean(all.iter().map(|numbers| numbers.busy).collect()).unwrap_or(0.0),
            failed: all.iter().flat_map(|numbers| numbers.failed.values()).sum(),
            calls: (!counted.is_empty()).then(|| counted.iter().map(|one| one.calls).sum()),
            plans: (!plans.is_empty()).then(|| plans.iter().sum()),
            plan_share: (!plans.is_empty() && plan_ms + exec_ms > 0.0)
                .then(|| plan_ms / (plan_ms + exec_ms)),
        }
    };
    levels.iter().enumerate().map(point).collect()
}

/// Returns notes that are needed to read the curves.
fn notes(view: &SweepReport, records: &[&Record]) -> Vec<String> {
    let all = || measured(records);
    let mut notes = cpu_notes(view, records);
    let idle = all().filter(|(cell, numbers)| {
        cell.pace == Pace::Closed
            && cell
                .clients
                .is_some_and(|clients| numbers.busy < BUSY_MIN * f64::from(clients))
    });
    let idle = idle.count();
    if idle > 0 {
        notes.push(format!(
            "In {idle} of {} trials less than {:.0} % of the clients were waiting for the server at a time (`busy`): what kept them is this program, or opening connections.",
            all().count(),
            BUSY_MIN * 100.0
        ));
    }
    let stalls: Vec<TrialStalls> = all().map(|(_, numbers)| numbers.stalls).collect();
    let note = stall_note(&stalls, "the curves leave them out");
    notes.extend(note.map(|note| format!("{}.", note.replacen("this", "This", 1))));
    notes.extend(backlog_notes(view));
    let failed: u64 = all().flat_map(|(_, numbers)| numbers.failed.values()).sum();
    if failed > 0 {
        let statements: u64 = all().map(|(_, numbers)| numbers.statements).sum();
        notes.push(format!(
            "{failed} statements failed, and {statements} were done: throughput is of the latter."
        ));
    }
    let mut missing: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (what, why) in all().flat_map(|(_, numbers)| &numbers.missing) {
        *missing.entry((what, why)).or_default() += 1;
    }
    for ((what, why), count) in missing {
        let what = match what {
            "plans" => "Plans and calls are",
            "server_cpu" => "The server's CPU time is",
            "client_cpu" => "Our own CPU time is",
            other => other,
        };
        notes.push(format!("{what} not known of {count} trials: {why}."));
    }
    notes
}

fn measured<'r>(records: &'r [&Record]) -> impl Iterator<Item = (&'r Cell, &'r Numbers)> {
    records
        .iter()
        .filter_map(|record| Some((&record.trial.cell, record.numbers.as_ref()?)))
}

/// Returns notes on CPU time that this program, or other processes, took from the server.
fn cpu_notes(view: &SweepReport, records: &[&Record]) -> Vec<String> {
    let mut notes = Vec::new();
    let cores = view
        .options
        .get("cores")
        .and_then(|text| text.parse::<f64>().ok());
    let own = |numbers: &Numbers| {
        let statements = numbers.statements + numbers.failed.values().sum::<u64>();
        let used_s = numbers.client_cpu_us? * statements as f64 / 1e6;
        Some(used_s / numbers.window_s / cores?)
    };
    let most = measured(records)
        .filter_map(|(_, numbers)| own(numbers))
        .fold(0.0, f64::max);
    let is_here = measured(records).any(|(_, numbers)| numbers.server_cpu_us.is_some());
    if most > OWN_CPU_NOTABLE {
        let remedy = match is_here {
            true => {
                "the server has the rest, so the knee is that of both together; a machine of its own for this program moves it"
            }
            false => "give it more cores, or a larger machine, where that is much",
        };
        notes.push(format!(
            "Up to {:.0} % of this machine's CPU time was our own: {remedy}.",
            most * 100.0
        ));
    }
    let others = |numbers: &Numbers| {
        let statements = numbers.statements + numbers.failed.values().sum::<u64>();
        let ours_us = numbers.client_cpu_us? + numbers.server_cpu_us?;
        let ours = ours_us * statements as f64 / 1e6 / numbers.window_s / cores?;
        Some(numbers.machine_busy? - ours)
    };
    let most = measured(records)
        .filter_map(|(_, numbers)| others(numbers))
        .fold(0.0, f64::max);
    if most > OTHERS_NOTABLE {
        notes.push(format!(
            "Up to {:.0} % of this machine's CPU time was neither the server's nor ours: others worked on it, and in a noisy hour curves are noise. Repeat it when it is quiet.",
            most * 100.0
        ));
    }
    notes
}

/// Returns notes on rates that the server does not sustain.
fn backlog_notes(view: &SweepReport) -> Vec<String> {
    let mut notes = Vec::new();
    if view.axis == Some(Axis::Rate) {
        for curve in &view.curves {
            let overload = curve.points.iter().find_map(|point| {
                let done = point.per_s?.centre;
                (done < KEEPS_UP * point.level).then_some((point.level, done))
            });
            if let Some((requested, done)) = overload {
                let name = if curve.name.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", curve.name)
                };
                notes.push(format!(
                    "{name}From {requested} transactions a second on, less than {:.0} % of what is requested is done ({done:.0} there): the backlog grows, and so do response times for as long as a trial lasts.",
                    KEEPS_UP * 100.0
                ));
            }
        }
    }
    notes
}
