//! Report of the case *planning*.

use report::{CaseChart, CaseFile, CaseFlame, CaseLine, CaseNumber, CaseReport};
use study::sweep::Mode;

use super::checks::{checks, gain_text, percent};
use super::measurements::{Measurements, Stacks};
use super::{CASE, COUNTINGS, Counting, PROOF, RUN, WORKLOAD};
use crate::case::Scale;
use crate::report_parts::{file, files, new_report, number, processors, verdict_text};

/// Number of processors below which contention for the lock is not visible.
const PROCESSORS_MANY: usize = 32;
/// Protocols, as modes of the sweep.
const MODES: [Mode; 3] = [Mode::Simple, Mode::Extended, Mode::Prepared];

/// Builds the report, without the steps.
pub(super) fn report(seen: &Measurements, scale: Scale, version: &str) -> CaseReport {
    let mut unseen = Vec::new();
    let processors = processors();
    let checks = checks(seen, &mut unseen);
    if processors < PROCESSORS_MANY {
        unseen.push(format!(
            "the cliff: on {processors} processors no more than {processors} sessions run at once, and hardly one waits for another's spin lock. Throughput of the three configurations differs here by what counting itself costs, and by chance; no loss by waiting can be resolved, and none is claimed"
        ));
    }
    CaseReport {
        context: "A server's statistics say where the time of statements goes, and they say execution only: planning is not counted by default (pg_stat_statements.track_planning is off). Planning locks every table and index of a query, those too that it will not use, and can take seconds.".to_owned(),
        hypothesis: "That counting it is too expensive: a benchmark had lost much of its throughput by it.".to_owned(),
        measured: measured(seen),
        cure: format!(
            "Look how far the cliff is. The most frequent statement of the application here comes {:.0} times a second; this machine does {:.0} a second of one statement with planning counted: {:.0} times as many. So: {}. And prepare what comes often ({}): then there is hardly anything left to count.",
            seen.headroom.calls_per_s,
            seen.headroom.ceiling_per_s,
            seen.headroom.distance(),
            seen.headroom.advice().text(),
            verdict_text(seen.prepared())
        ),
        checks,
        numbers: numbers(seen, processors),
        charts: charts(seen),
        flames: flames(seen),
        unseen,
        files: case_files(seen),
        ..new_report(&CASE, scale, version)
    }
}

fn measured(seen: &Measurements) -> Vec<String> {
    let [_, prepared] = seen.counted;
    let costs = |counting: usize| {
        let cost = |mode: &Mode| {
            let cost = seen.reads.cpu_us(counting, *mode);
            let cost = cost.map_or_else(|| "not known".to_owned(), |us| format!("{us:.0} µs"));
            format!("{} {cost}", mode.name())
        };
        let all: Vec<String> = MODES.iter().map(cost).collect();
        format!("{}: {}", COUNTINGS[counting].name, all.join(", "))
    };
    let writes = |counting| seen.writes.best_per_s(counting, Mode::Prepared);
    let mut all = vec![
        format!(
            "The open question, does preparing take planning's half away: yes. {} sessions that prepare plan {} times for {} calls ({} a session: five with values, and one plan for all values); as texts it is a plan for each call.",
            prepared.sessions,
            prepared.plans,
            prepared.calls,
            prepared.plans / u64::from(prepared.sessions.max(1))
        ),
        format!(
            "CPU time of the server for a read of one account: {}; {}; {}.",
            costs(0),
            costs(1),
            costs(2)
        ),
        format!(
            "With writes: {:.0} transactions a second without, {:.0} with it, {:.0} with planning. What a commit waits for is much more than what counting costs; single short trials differ by chance.",
            writes(0),
            writes(1),
            writes(2)
        ),
    ];
    let stacks: Vec<&Stacks> = seen.stacks.iter().flatten().collect();
    if let [_, with, planning] = stacks.as_slice() {
        all.push(format!(
            "In the stacks of reads the extension itself is {} with it, and {} with planning, of which {} come after planning: the entry of the statement is locked and counted a second time. Waiting for that lock was seen in {} and {}.",
            percent(with.statistics.execution_share() + with.statistics.planning_share()),
            percent(planning.statistics.execution_share() + planning.statistics.planning_share()),
            percent(planning.statistics.planning_share()),
            percent(with.statistics.spinning_share()),
            percent(planning.statistics.spinning_share())
        ));
    }
    all.push(format!(
        "The meter: calls a second of the most frequent statement {:.0}; this machine's ceiling {:.0} (the most reads a second with planning counted, in any protocol and with any number of clients tried); the distance {:.0} times; the advice: {}. The ceiling is what the processors can do here, and the cliff cannot lie below it. On a server of yours: `rehearse sweep` measures the ceiling, and `rehearse diagnose --target URL --threshold cliff-calls-per-second=CEILING` is the meter.",
        seen.headroom.calls_per_s,
        seen.headroom.ceiling_per_s,
        seen.headroom.distance(),
        seen.headroom.advice().text()
    ));
    if let Some(first) = seen.proof.first_finding() {
        all.push(format!(
            "{} reads of accounts with their branches were captured as texts and replayed with planning counted. The diagnosis begins with: {} ({}); at most {} to win.",
            seen.captured,
            first.title,
            first.rule,
            gain_text(first)
        ));
    }
    let tracked = match seen.tracked() {
        None => String::new(),
        tracked => format!(
            " What counting planning costs (pg_stat_statements.track_planning): {}.",
            verdict_text(tracked)
        ),
    };
    all.push(format!(
        "Proved by turns with the texts: prepared, {}.{tracked}",
        verdict_text(seen.prepared())
    ));
    all
}

fn numbers(seen: &Measurements, processors: usize) -> Vec<CaseNumber> {
    let at_peak = |counting: usize| {
        let all = seen.reads.numbers(counting, Mode::Simple);
        let all = all.map(|(clients, numbers)| (clients, numbers.per_s));
        match all.max_by(|a, b| a.1.total_cmp(&b.1)) {
            None => "not measured".to_owned(),
            Some((1, per_s)) => format!("1 client, {per_s:.0} a second"),
            Some((clients, per_s)) => format!("{clients} clients, {per_s:.0} a second"),
        }
    };
    let writes = |counting| seen.writes.best_per_s(counting, Mode::Prepared);
    let few = format!(
        "{processors} processors are busy with as many clients, whatever is counted: what limits here is not the lock."
    );
    let [_, prepared] = seen.counted;
    vec![
        number(
            "reads: the most throughput with track_planning",
            Some("at 30 to 40 clients, on some 192 processors"),
            at_peak(2),
            &few,
        ),
        number(
            "reads: with pg_stat_statements",
            Some("at 70 to 80 clients"),
            at_peak(1),
            &few,
        ),
        number(
            "reads: without it",
            Some("near the number of processors"),
            at_peak(0),
            &few,
        ),
        number(
            "calls a second of one statement at which it hurts",
            Some("200,000 with track_planning, 400,000 without"),
            format!(
                "not below {:.0} with track_planning",
                seen.headroom.ceiling_per_s
            ),
            "More cannot be asked of this machine.",
        ),
        number(
            "read-write",
            Some("no difference"),
            format!(
                "{:.0}, {:.0} and {:.0} transactions a second",
                writes(0),
                writes(1),
                writes(2)
            ),
            "Single short trials: they differ by chance.",
        ),
        number(
            "plans of a statement that is prepared",
            None,
            format!("{} of {} calls", prepared.plans, prepared.calls),
            "The question was left open.",
        ),
        number(
            "does preparing take planning's half away",
            None,
            verdict_text(seen.prepared()),
            "The same reads, captured as texts and replayed by turns as they were and prepared.",
        ),
    ]
}

fn charts(seen: &Measurements) -> Vec<CaseChart> {
    MODES.into_iter().map(|mode| chart(seen, mode)).collect()
}

fn chart(seen: &Measurements, mode: Mode) -> CaseChart {
    let line = |(counting, named): (usize, &Counting)| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (clients, numbers) in seen.reads.numbers(counting, mode) {
            let level = f64::from(clients);
            match points.iter_mut().find(|(other, _)| *other == level) {
                // The best of several trials.
                Some(point) => point.1 = point.1.max(numbers.per_s),
                None => points.push((level, numbers.per_s)),
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        CaseLine {
            name: named.name.to_owned(),
            points,
        }
    };
    let most = |(counting, named): (usize, &Counting)| {
        format!(
            "{} {:.0}",
            named.name,
            seen.reads.best_per_s(counting, mode)
        )
    };
    let most: Vec<String> = COUNTINGS.iter().enumerate().map(most).collect();
    CaseChart {
        title: format!("Reads of single accounts, {}", mode.name()),
        unit: "a second".to_owned(),
        alt_text: format!("the most: {}", most.join(", ")),
        x_categories: Some("clients".to_owned()),
        lines: COUNTINGS.iter().enumerate().map(line).collect(),
        ..CaseChart::default()
    }
}

fn flames(seen: &Measurements) -> Vec<CaseFlame> {
    let flame = |(counting, stacks): (&Counting, &Result<Stacks, String>)| {
        let stacks = stacks.as_ref().ok()?;
        Some(CaseFlame {
            title: format!("Processor time while sessions read, {}", counting.name),
            file: format!("flame-{}.svg", counting.file_name()),
            alt_text: format!(
                "{} reads. pg_stat_statements itself: {} after execution, {} after planning.",
                stacks.calls,
                percent(stacks.statistics.execution_share()),
                percent(stacks.statistics.planning_share())
            ),
        })
    };
    COUNTINGS
        .iter()
        .zip(&seen.stacks)
        .filter_map(flame)
        .collect()
}

fn case_files(seen: &Measurements) -> Vec<CaseFile> {
    let proof = format!("{PROOF}/report.html");
    let mut all = files([
        (
            "reads.sweep/report.html",
            "the sweep of reads: curves, every trial",
        ),
        ("writes.sweep/report.html", "the sweep with writes"),
        (
            "application.run",
            "the application as it was watched; `rehearse diagnose` reads it",
        ),
        ("postgresql.csv", "the server's log of reads as texts"),
        (WORKLOAD, "what was captured of it"),
        (
            RUN,
            "its replay with planning counted; `rehearse diagnose` reads it",
        ),
        (&proof, "the proof: every run, and what came of it"),
    ]);
    for (counting, stacks) in COUNTINGS.iter().zip(&seen.stacks) {
        if stacks.is_ok() {
            let name = counting.file_name();
            all.push(file(
                format!("flame-{name}.svg"),
                format!("the flame graph of reads, {}: click to zoom", counting.name),
            ));
            all.push(file(format!("{name}.run"), "what it was drawn of"));
        }
    }
    all
}
