//! What is told of the case *planning*.

use lab::planning;
use lab::planning::COUNTINGS;
use report::{CaseChart, CaseFile, CaseFlame, CaseLine, CaseNumber, CaseReport};
use study::sweep::{Mode, Record};

use super::super::proving::verdict;
use super::super::{file, new_report, number};
use super::checks::{checks, max_gain, of, percent};
use super::proved::{REPORT, RUN, WORKLOAD};
use super::{Seen, Stacks};

/// On fewer processors nobody waits for the lock so much that it could be seen.
const PROCESSORS_MANY: usize = 32;

/// Puts it together.
pub fn view(seen: &Seen) -> CaseReport {
    let mut unseen = Vec::new();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let checks = checks(seen, &mut unseen);
    if processors < PROCESSORS_MANY {
        unseen.push(format!(
            "the cliff: on {processors} processors no more than {processors} sessions run at once, and hardly one waits for another's spin lock. Throughput of the three configurations differs here by what counting itself costs, and by chance; no loss by waiting can be resolved, and none is claimed"
        ));
    }
    CaseReport {
        context: "A server's statistics say where the time of statements goes, and they say execution only: planning is not counted by default (pg_stat_statements.track_planning is off). Planning locks every table and index of a query, those too that it will not use, and can take seconds.".to_owned(),
        hypothesis: "That counting it is too dear: a benchmark had lost much of its throughput by it.".to_owned(),
        measured: measured(seen),
        cure: format!(
            "Look how far the cliff is. The most frequent statement of the application here comes {:.0} times a second; this machine does {:.0} a second of one statement with planning counted: {:.0} times as many. So: {}. And prepare what comes often ({}): then there is hardly anything left to count.",
            seen.headroom.calls_per_s,
            seen.headroom.ceiling_per_s,
            seen.headroom.distance(),
            seen.headroom.advice().text(),
            verdict(seen.proved.prepared())
        ),
        checks,
        numbers: numbers(seen, processors),
        charts: charts(seen),
        flames: flames(seen),
        unseen,
        done: seen.steps.clone(),
        files: files(seen),
        ..new_report(&planning::CASE, seen.scale, &seen.version)
    }
}

/// CPU time of the server for each statement, over all trials of a way and a mode.
fn cpu_us(records: &[Record], variant: usize, mode: Mode) -> Option<f64> {
    let (mut us, mut statements) = (0.0, 0);
    for (_, numbers) in of(records, variant, mode) {
        us += numbers.server_cpu_us? * numbers.statements as f64;
        statements += numbers.statements;
    }
    (statements > 0).then(|| us / statements as f64)
}

fn cpu_text(records: &[Record], variant: usize, mode: Mode) -> String {
    cpu_us(records, variant, mode)
        .map_or_else(|| "not known".to_owned(), |us| format!("{us:.0} µs"))
}

fn measured(seen: &Seen) -> Vec<String> {
    let [simple, prepared] = seen.counted;
    let modes = [Mode::Simple, Mode::Extended, Mode::Prepared];
    let costs = |way: usize| {
        let all: Vec<String> = modes
            .iter()
            .map(|mode| format!("{} {}", mode.name(), cpu_text(&seen.reads, way, *mode)))
            .collect();
        format!("{}: {}", COUNTINGS[way].name, all.join(", "))
    };
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
    ];
    let writes = |way: usize| {
        let found = of(&seen.writes, way, Mode::Prepared).map(|(_, numbers)| numbers.per_s);
        found.fold(0.0, f64::max)
    };
    all.push(format!(
        "With writes: {:.0} transactions a second without, {:.0} with it, {:.0} with planning. What a commit waits for is much more than what counting costs; single short trials differ by chance.",
        writes(0),
        writes(1),
        writes(2)
    ));
    let stacks: Vec<&Stacks> = seen.stacks.iter().flatten().collect();
    if let [_, with, planning] = stacks.as_slice() {
        all.push(format!(
            "In the stacks of reads the extension itself is {} with it, and {} with planning, of which {} lie behind planning: the entry of the statement is locked and counted a second time. Waiting for that lock was met in {} and {}.",
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
    debug_assert_eq!(simple.sessions, prepared.sessions);
    let proved = &seen.proved;
    if let Some(first) = proved.first() {
        all.push(format!(
            "{} reads of accounts with their branches were captured as texts and replayed with planning counted. The diagnosis begins with: {} ({}); at most {} to win.",
            proved.captured,
            first.title,
            first.rule,
            max_gain(first)
        ));
    }
    let counting = match proved.counting() {
        None => String::new(),
        counting => format!(
            " What counting planning costs (pg_stat_statements.track_planning): {}.",
            verdict(counting)
        ),
    };
    all.push(format!(
        "Proved by turns with the texts: prepared, {}.{counting}",
        verdict(proved.prepared())
    ));
    all
}

/// The clients with the most throughput, in the simple protocol.
fn peak(seen: &Seen, way: usize) -> Option<(u32, f64)> {
    let all = of(&seen.reads, way, Mode::Simple).map(|(clients, numbers)| (clients, numbers.per_s));
    all.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn numbers(seen: &Seen, processors: usize) -> Vec<CaseNumber> {
    let at_peak = |way: usize| {
        peak(seen, way).map_or_else(
            || "not measured".to_owned(),
            |(clients, per_s)| match clients {
                1 => format!("1 client, {per_s:.0} a second"),
                _ => format!("{clients} clients, {per_s:.0} a second"),
            },
        )
    };
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
            {
                let of = |way| {
                    let all = of(&seen.writes, way, Mode::Prepared);
                    all.map(|(_, numbers)| numbers.per_s).fold(0.0, f64::max)
                };
                format!(
                    "{:.0}, {:.0} and {:.0} transactions a second",
                    of(0),
                    of(1),
                    of(2)
                )
            },
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
            verdict(seen.proved.prepared()),
            "The same reads, captured as texts and replayed by turns as they were and prepared.",
        ),
    ]
}

fn charts(seen: &Seen) -> Vec<CaseChart> {
    let chart = |mode: Mode| {
        let line = |way: usize| {
            let mut points: Vec<(f64, f64)> = Vec::new();
            for (clients, numbers) in of(&seen.reads, way, mode) {
                let at = f64::from(clients);
                match points.iter_mut().find(|(other, _)| *other == at) {
                    // Of several trials the best.
                    Some(point) => point.1 = point.1.max(numbers.per_s),
                    None => points.push((at, numbers.per_s)),
                }
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            CaseLine {
                name: COUNTINGS[way].name.to_owned(),
                points,
            }
        };
        CaseChart {
            title: format!("Reads of single accounts, {}", mode.name()),
            unit: "a second".to_owned(),
            alt_text: format!(
                "the most: {}",
                (0..COUNTINGS.len())
                    .map(|way| {
                        let most = line(way)
                            .points
                            .iter()
                            .map(|point| point.1)
                            .fold(0.0, f64::max);
                        format!("{} {most:.0}", COUNTINGS[way].name)
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            x_categories: Some("clients".to_owned()),
            durations: false,
            lines: (0..COUNTINGS.len()).map(line).collect(),
        }
    };
    [Mode::Simple, Mode::Extended, Mode::Prepared]
        .into_iter()
        .map(chart)
        .collect()
}

fn flames(seen: &Seen) -> Vec<CaseFlame> {
    COUNTINGS
        .iter()
        .zip(&seen.stacks)
        .filter_map(|(counting, stacks)| {
            let stacks = stacks.as_ref().ok()?;
            Some(CaseFlame {
                title: format!("Processor time while sessions read, {}", counting.name),
                file: format!("flame-{}.svg", counting.name.replace(' ', "-")),
                alt_text: format!(
                    "{} reads. pg_stat_statements itself: {} behind execution, {} behind planning.",
                    stacks.calls,
                    percent(stacks.statistics.execution_share()),
                    percent(stacks.statistics.planning_share())
                ),
            })
        })
        .collect()
}

fn files(seen: &Seen) -> Vec<CaseFile> {
    let mut all = vec![
        file(
            "reads.sweep/report.html",
            "the sweep of reads: curves, every trial",
        ),
        file("writes.sweep/report.html", "the sweep with writes"),
        file(
            "application.run",
            "the application as it was watched; `rehearse diagnose` reads it",
        ),
        file("postgresql.csv", "the server's log of reads as texts"),
        file(WORKLOAD, "what was captured of it"),
        file(
            RUN,
            "its replay with planning counted; `rehearse diagnose` reads it",
        ),
        file(REPORT, "the proof: every run, and what came of it"),
    ];
    for (counting, stacks) in COUNTINGS.iter().zip(&seen.stacks) {
        if stacks.is_ok() {
            let name = counting.name.replace(' ', "-");
            all.push(file(
                format!("flame-{name}.svg"),
                format!("the flame graph of reads, {}: click to zoom", counting.name),
            ));
            all.push(file(format!("{name}.run"), "what it was drawn of"));
        }
    }
    all
}
