//! Text on the observations of a server, in forty lines at most.

use run::ProbeState;
use time_breakdown::observed::{CounterChange, Observation, Observed, ObservedStatement, Wait};

use crate::text::line::{one_line, wrapped};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{bytes, count, counted, duration_ns, percent, rate};

const STATEMENTS_MAX: usize = 8;
const WAITS_MAX: usize = 5;
const BLOCKED_MAX: usize = 2;
const QUEUE_MAX: usize = 3;
const NOTES_MAX: usize = 3;
/// Maximum number of waits listed with a statement.
const OWN_WAITS_MAX: usize = 2;

/// Renders the observations, ending with a line feed.
pub fn render_text(view: &Observation, style: &TextStyle) -> String {
    let width = style.columns();
    let mut lines = vec![heading(view, *style)];
    let view = &view.observed;
    lines.extend(statements(view, *style));
    lines.extend(waits(view, *style));
    lines.extend(machine(view, *style));
    lines.extend(counters(view, *style));
    lines.extend(queue(view, *style));
    lines.extend(unseen(view, *style));
    lines.push(String::new());
    let lines: Vec<String> = lines
        .into_iter()
        .map(|line| crate::text::line::cut(&line, width))
        .collect();
    lines.join("\n")
}

fn title(style: TextStyle, text: &str) -> String {
    style.paint(Tone::Heading, text)
}

fn heading(view: &Observation, style: TextStyle) -> String {
    let version = match view.server_version.as_str() {
        "" => String::new(),
        version => format!(", PostgreSQL {version}"),
    };
    format!(
        "{}: watched for {}. {}{version}",
        title(style, &one_line(&view.run, 60)),
        duration_ns(view.elapsed_ns as f64),
        view.target,
    )
}

fn statements(view: &Observed, style: TextStyle) -> Vec<String> {
    let totals = &view.totals;
    let total_ns = view.total_ns() as f64;
    let what = match (totals.calls, totals.plan_ns) {
        (0, _) => "Statements, by the samples that met them".to_owned(),
        (_, Some(plan_ns)) => format!(
            "Statements by planning and execution time: {}, {} of it planning; {}",
            duration_ns(total_ns),
            percent(plan_ns as f64, total_ns),
            counted(totals.calls, "call"),
        ),
        (_, None) => format!(
            "Statements by execution time, planning not counted: {}; {}",
            duration_ns(total_ns),
            counted(totals.calls, "call"),
        ),
    };
    let mut lines = vec![title(style, &what)];
    if view.statements.is_empty() {
        lines.push("  none".to_owned());
        return lines;
    }
    let right = [Align::Right; 6];
    let mut table = Table::new(&[&right[..], &[Align::Left]].concat());
    table.line(
        [
            "  share",
            "total",
            "plan",
            "calls",
            "plans",
            "samples",
            "statement, and what it waits for",
        ]
        .map(String::from)
        .to_vec(),
    );
    for one in view.statements.iter().take(STATEMENTS_MAX) {
        table.line(statement(one, view, style.columns()));
    }
    lines.extend(table.lines());
    let rest = view.statements.len().saturating_sub(STATEMENTS_MAX);
    if rest > 0 {
        lines.push(format!("  and {} more", count(rest as u64)));
    }
    lines
}

fn statement(one: &ObservedStatement, view: &Observed, width: usize) -> Vec<String> {
    let none = || "–".to_owned();
    let numbers = one.counted.as_ref();
    let (own_ns, all_ns) = (one.total_ns() as f64, view.total_ns() as f64);
    let own: Vec<String> = one
        .waits
        .iter()
        .filter(|wait| wait.kind.is_some())
        .take(OWN_WAITS_MAX)
        .map(|wait| {
            let share = percent(wait.samples as f64, one.samples.max(1) as f64);
            format!("{} {share}", wait_name(wait))
        })
        .collect();
    let own = match own.is_empty() {
        true => String::new(),
        false => format!("  [{}]", own.join(", ")),
    };
    let room = width.saturating_sub(52 + own.chars().count()).max(20);
    let sql = one
        .sql
        .as_deref()
        .unwrap_or("(of other roles, whose texts this one may not see)");
    vec![
        match numbers {
            Some(_) if all_ns > 0.0 => format!("  {}", percent(own_ns, all_ns)),
            _ => format!("  {}", none()),
        },
        numbers.map_or_else(none, |_| duration_ns(own_ns)),
        numbers
            .and_then(|one| one.plan_ns)
            .map_or_else(none, |plan_ns| percent(plan_ns as f64, own_ns)),
        numbers.map_or_else(none, |one| count(one.calls)),
        numbers.and_then(|one| one.plans).map_or_else(none, count),
        match view.samples {
            0 => none(),
            _ => count(one.samples),
        },
        format!("{}{own}", one_line(sql, room)),
    ]
}

fn wait_name(wait: &Wait) -> String {
    match (&wait.kind, &wait.wait) {
        (None, _) => "running or waiting for a CPU".to_owned(),
        (Some(kind), None) => kind.clone(),
        (Some(kind), Some(wait)) => format!("{kind} {wait}"),
    }
}

fn waits(view: &Observed, style: TextStyle) -> Vec<String> {
    if view.samples == 0 {
        return Vec::new();
    }
    let average = |count: u64| count as f64 / view.samples as f64;
    let missed = match view.samples_missed {
        0 => String::new(),
        missed => format!(", {} missed", count(missed)),
    };
    let what = format!(
        "Active sessions: {} on average, in {}{missed}",
        rate(average(view.active_samples)),
        counted(view.samples, "sample"),
    );
    let mut lines = vec![title(style, &what)];
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left]);
    for wait in view.waits.iter().take(WAITS_MAX) {
        table.row([
            format!(
                "  {}",
                percent(wait.samples as f64, view.active_samples.max(1) as f64)
            ),
            rate(average(wait.samples)),
            wait_name(wait),
        ]);
    }
    lines.extend(table.lines());
    let idle = average(view.idle_in_transaction);
    if idle > 0.005 {
        lines.push(format!(
            "  in addition {} held a transaction open and did nothing",
            rate(idle)
        ));
    }
    for one in view.blocking.iter().take(BLOCKED_MAX) {
        let room = style.columns().saturating_sub(52) / 2;
        let text = |sql: &Option<String>| {
            sql.as_deref().map_or_else(
                || "(not seen)".to_owned(),
                |sql| one_line(sql, room.max(16)),
            )
        };
        lines.push(format!(
            "  held up: {} by {} ({}), {}",
            text(&one.blocked),
            text(&one.blocker),
            one.blocker_state,
            counted(one.samples, "look"),
        ));
    }
    lines
}

fn machine(view: &Observed, style: TextStyle) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(machine) = &view.machine {
        let share = |part: f64| percent(part, 1.0);
        let per_s =
            |amount: f64| format!("{}/s", bytes((amount / machine.over_s.max(1e-9)) as u64));
        lines.push(format!(
            "{} {} processors in {} s, {} busy; waiting for disk {}, stolen {}",
            title(style, "Machine:"),
            machine.processors,
            rate(machine.over_s),
            share(machine.busy),
            share(machine.waiting_for_disk),
            share(machine.stolen),
        ));
        lines.push(format!(
            "  processor time: the server {} s, {} of one processor; this program {} s",
            rate(machine.server_user_s + machine.server_system_s),
            percent(
                machine.server_user_s + machine.server_system_s,
                machine.over_s
            ),
            rate(machine.own_s),
        ));
        lines.push(format!(
            "  memory {} of {} available at least; disk read {}, written {}; network in {}, out {}",
            bytes(machine.memory_available_min_bytes as u64),
            bytes(machine.memory_bytes as u64),
            per_s(machine.disk_read_bytes),
            per_s(machine.disk_written_bytes),
            per_s(machine.network_received_bytes),
            per_s(machine.network_sent_bytes),
        ));
        lines.extend(machine.pressure.map(|pressure| {
            format!(
                "  tasks waited for a processor {}, memory {}, a disk {} of the time",
                share(pressure.cpu),
                share(pressure.memory),
                share(pressure.io)
            )
        }));
    }
    if let Some(locks) = &view.locks {
        let share = match locks.fast_path + locks.past_fast_path {
            0 => String::new(),
            all => format!(
                "; on the fast path {} of those that may ({} of one session at most, {} past it)",
                percent(locks.fast_path as f64, all as f64),
                count(locks.fast_path_max),
                count(locks.past_fast_path_max),
            ),
        };
        lines.push(format!(
            "{} {} at once at most, {} waiting{share}",
            title(style, "Locks:"),
            count(locks.max),
            count(locks.max_waiting),
        ));
    }
    lines
}

/// Lists the most informative counters; the JSON has all.
fn counters(view: &Observed, style: TextStyle) -> Vec<String> {
    let gained = |source: &str, name: &str| -> f64 {
        let all = view.counters.iter();
        all.filter(|one| one.source == source && one.name == name)
            .map(|one| one.delta)
            .sum()
    };
    let database = |name: &str| gained("pg_stat_database", name);
    let (hit, read) = (database("blks_hit"), database("blks_read"));
    let number = |value: f64| count(value.max(0.0) as u64);
    let mut lines = Vec::new();
    if database("xact_commit") > 0.0 {
        lines.push(format!(
            "{} {} commits, {} rollbacks, {} deadlocks; {} of blocks in shared buffers; temporary files {}",
            title(style, "Counters:"),
            number(database("xact_commit")),
            number(database("xact_rollback")),
            number(database("deadlocks")),
            percent(hit, hit + read),
            bytes(database("temp_bytes").max(0.0) as u64),
        ));
    }
    // Before version 17, checkpoints were counted in the background writer's view.
    let checkpoints = [
        ("pg_stat_bgwriter", "checkpoints_timed"),
        ("pg_stat_bgwriter", "checkpoints_req"),
        ("pg_stat_checkpointer", "num_timed"),
        ("pg_stat_checkpointer", "num_requested"),
    ];
    let checkpoints: f64 = checkpoints
        .into_iter()
        .map(|(source, name)| gained(source, name))
        .sum();
    let wal = gained("pg_stat_wal", "wal_bytes");
    if wal > 0.0 || checkpoints > 0.0 {
        lines.push(format!(
            "  WAL {} with {} full pages; {} checkpoints",
            bytes(wal.max(0.0) as u64),
            number(gained("pg_stat_wal", "wal_fpi")),
            number(checkpoints)
        ));
    }
    for (name, what) in [
        ("seq_tup_read", "rows read by sequential scans"),
        ("n_dead_tup", "dead rows"),
    ] {
        let mut all: Vec<&CounterChange> = view
            .counters
            .iter()
            .filter(|one| one.source == "pg_stat_user_tables" && one.name == name)
            .filter(|one| one.delta >= 1.0)
            .collect();
        all.sort_by(|a, b| b.delta.total_cmp(&a.delta));
        let first: Vec<String> = all
            .iter()
            .take(3)
            .map(|one| format!("{} {}", one.object, number(one.delta)))
            .collect();
        if !first.is_empty() {
            lines.push(format!("  {what}: {}", first.join(", ")));
        }
    }
    lines
}

fn queue(view: &Observed, style: TextStyle) -> Vec<String> {
    let mut lines = Vec::new();
    for one in view.queue.iter().take(QUEUE_MAX) {
        let name = match one.object.as_str() {
            "" => one.name.clone(),
            object => format!("{object} {}", one.name),
        };
        lines.push(format!(
            "{} {}: {} at first, {} at last, {} to {}, {} on average",
            title(style, "Queue,"),
            one_line(&name, 60),
            rate(one.first),
            rate(one.last),
            rate(one.min),
            rate(one.max),
            rate(one.mean),
        ));
    }
    lines
}

fn unseen(view: &Observed, style: TextStyle) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for probe in &view.probes {
        if let Some(why) = &probe.disabled_reason {
            all.push(with_remedy(
                &format!("{}: {why}", probe.probe),
                &probe.remedy,
            ));
        }
    }
    for note in &view.notes {
        let text = match note.state {
            ProbeState::Back => continue,
            ProbeState::Lost => {
                let after = duration_ns(note.at_ns as f64);
                format!("the connection was lost after {after}")
            }
            _ => note.text.clone(),
        };
        let many = match note.count {
            Some(many) => format!(" ({})", count(many)),
            None => String::new(),
        };
        all.push(with_remedy(
            &format!("{}: {text}{many}", note.probe),
            &note.remedy,
        ));
    }
    let off: Vec<&str> = view
        .host
        .iter()
        .filter(|one| one.state == ProbeState::Changeable)
        .map(|one| one.probe.as_str())
        .collect();
    let mut lines = Vec::new();
    if !all.is_empty() {
        lines.push(title(style, "Not observed, and limits of these numbers"));
        // Remedies are listed at the end.
        let notes = all.iter().take(NOTES_MAX);
        lines.extend(notes.flat_map(|note| wrapped(note, "  ", "      ", style.columns())));
        let rest = all.len().saturating_sub(NOTES_MAX);
        if rest > 0 {
            lines.push(format!("  and {rest} more"));
        }
    }
    if !off.is_empty() {
        lines.push(format!("  off, and can be turned on: {}", off.join(", ")));
    }
    let queries: u64 = view.probes.iter().map(|probe| probe.queries).sum();
    let asked_ns: u64 = view.probes.iter().map(|probe| probe.query_ns).sum();
    lines.push(format!(
        "  Rehearse sent {} and waited {} for the answers.",
        match queries {
            1 => "1 query".to_owned(),
            number => format!("{} queries", count(number)),
        },
        duration_ns(asked_ns as f64)
    ));
    lines
}

fn with_remedy(text: &str, remedy: &Option<String>) -> String {
    match remedy {
        None => text.to_owned(),
        Some(remedy) => format!("{text}; to change that: {remedy}"),
    }
}
