//! What was seen of a server while it was watched, for people: forty lines at most.

use crate::text::amount::{bytes, count, counted, duration, percent, rate};
use crate::text::line::{one_line, wrapped};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::observed::{MovedView, ObservedStatementView, WaitView, WatchedView};

const STATEMENTS_MAX: usize = 8;
const WAITS_MAX: usize = 5;
const BLOCKED_MAX: usize = 2;
const QUEUE_MAX: usize = 3;
const NOTES_MAX: usize = 3;
/// A statement's own waits, beside it.
const OWN_WAITS_MAX: usize = 2;

/// What was seen as text, ending with a line feed.
pub fn render_text(view: &WatchedView, style: &TextStyle) -> String {
    let width = style.columns();
    let mut lines = vec![heading(view, *style)];
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

fn heading(view: &WatchedView, style: TextStyle) -> String {
    let version = match view.server_version.as_str() {
        "" => String::new(),
        version => format!(", PostgreSQL {version}"),
    };
    format!(
        "{}: watched for {}. {}{version}",
        title(style, &one_line(&view.run, 60)),
        duration(view.elapsed_us),
        view.target,
    )
}

fn statements(view: &WatchedView, style: TextStyle) -> Vec<String> {
    let totals = &view.totals;
    let what = match (totals.calls, totals.plan_us) {
        (0, _) => "Statements, by the samples that met them".to_owned(),
        (_, Some(plan_us)) => format!(
            "Statements by planning and execution time: {}, {} of it planning; {}",
            duration(totals.total_us),
            percent(plan_us, totals.total_us),
            counted(totals.calls, "call"),
        ),
        (_, None) => format!(
            "Statements by execution time, planning not counted: {}; {}",
            duration(totals.total_us),
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
    let rest =
        view.statements.len().saturating_sub(STATEMENTS_MAX) as u64 + view.statements_left_out;
    if rest > 0 {
        lines.push(format!("  and {} more", count(rest)));
    }
    lines
}

fn statement(one: &ObservedStatementView, view: &WatchedView, width: usize) -> Vec<String> {
    let none = || "–".to_owned();
    let numbers = one.counted.as_ref();
    let total_us = numbers.map_or(0.0, |one| one.total_us);
    let own: Vec<String> = one
        .waits
        .iter()
        .filter(|wait| wait.kind.is_some())
        .take(OWN_WAITS_MAX)
        .map(|wait| format!("{} {}", wait_name(wait), percent(wait.share, 1.0)))
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
        one.share.map_or_else(
            || format!("  {}", none()),
            |share| format!("  {}", percent(share, 1.0)),
        ),
        numbers.map_or_else(none, |_| duration(total_us)),
        numbers
            .and_then(|one| one.plan_us)
            .map_or_else(none, |plan_us| percent(plan_us, total_us)),
        numbers.map_or_else(none, |one| count(one.calls)),
        numbers.and_then(|one| one.plans).map_or_else(none, count),
        match view.samples {
            0 => none(),
            _ => count(one.samples),
        },
        format!("{}{own}", one_line(sql, room)),
    ]
}

fn wait_name(wait: &WaitView) -> String {
    match (&wait.kind, &wait.wait) {
        (None, _) => "on a processor, or in want of one".to_owned(),
        (Some(kind), None) => kind.clone(),
        (Some(kind), Some(wait)) => format!("{kind} {wait}"),
    }
}

fn waits(view: &WatchedView, style: TextStyle) -> Vec<String> {
    let Some(active) = view.active else {
        return Vec::new();
    };
    let missed = match view.samples_missed {
        0 => String::new(),
        missed => format!(", {} missed", count(missed)),
    };
    let what = format!(
        "Active sessions: {} on average, in {}{missed}",
        rate(active),
        counted(view.samples, "sample"),
    );
    let mut lines = vec![title(style, &what)];
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left]);
    for wait in view.waits.iter().take(WAITS_MAX) {
        table.row([
            format!("  {}", percent(wait.share, 1.0)),
            rate(wait.average),
            wait_name(wait),
        ]);
    }
    lines.extend(table.lines());
    let idle = view.idle_in_transaction.unwrap_or(0.0);
    if idle > 0.005 {
        lines.push(format!(
            "  beside them {} held a transaction open and did nothing",
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
            counted(one.looks, "look"),
        ));
    }
    lines
}

fn machine(view: &WatchedView, style: TextStyle) -> Vec<String> {
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
        let pressure = match (
            machine.pressure_cpu,
            machine.pressure_memory,
            machine.pressure_io,
        ) {
            (Some(cpu), Some(memory), Some(io)) => format!(
                "  something stood still for want of a processor {}, memory {}, a disk {} of the time",
                share(cpu),
                share(memory),
                share(io)
            ),
            _ => String::new(),
        };
        lines.push(format!(
            "  memory {} of {} available at least; disk read {}, written {}; network in {}, out {}",
            bytes(machine.memory_available_least_bytes as u64),
            bytes(machine.memory_bytes as u64),
            per_s(machine.disk_read_bytes),
            per_s(machine.disk_written_bytes),
            per_s(machine.network_received_bytes),
            per_s(machine.network_sent_bytes),
        ));
        if !pressure.is_empty() {
            lines.push(pressure);
        }
    }
    if let Some(locks) = &view.locks {
        let share = match locks.fast_path_share {
            None => String::new(),
            Some(share) => format!(
                "; on the fast path {} of those that may ({} of one session at most, {} past it)",
                percent(share, 1.0),
                count(locks.fast_path_most),
                count(locks.past_fast_path_most),
            ),
        };
        lines.push(format!(
            "{} {} at once at most, {} waiting{share}",
            title(style, "Locks:"),
            count(locks.most),
            count(locks.most_waiting),
        ));
    }
    lines
}

/// Of all counters those that tell most; the rest is in the JSON.
fn counters(view: &WatchedView, style: TextStyle) -> Vec<String> {
    let gained = |source: &str, name: &str| -> f64 {
        let all = view.counters.iter();
        all.filter(|one| one.source == source && one.name == name)
            .map(|one| one.gained)
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
    // Before 17 checkpoints were the background writer's.
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
        let mut all: Vec<&MovedView> = view
            .counters
            .iter()
            .filter(|one| one.source == "pg_stat_user_tables" && one.name == name)
            .filter(|one| one.gained >= 1.0)
            .collect();
        all.sort_by(|a, b| b.gained.total_cmp(&a.gained));
        let first: Vec<String> = all
            .iter()
            .take(3)
            .map(|one| format!("{} {}", one.object, number(one.gained)))
            .collect();
        if !first.is_empty() {
            lines.push(format!("  {what}: {}", first.join(", ")));
        }
    }
    lines
}

fn queue(view: &WatchedView, style: TextStyle) -> Vec<String> {
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
            rate(one.least),
            rate(one.most),
            rate(one.mean),
        ));
    }
    lines
}

fn unseen(view: &WatchedView, style: TextStyle) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for probe in &view.probes {
        if let Some(why) = &probe.off {
            all.push(with_remedy(
                &format!("{}: {why}", probe.probe),
                &probe.remedy,
            ));
        }
    }
    for note in &view.notes {
        if note.kind == "back" {
            continue;
        }
        let text = match note.kind {
            "lost" => format!("the connection was lost after {}", duration(note.at_us)),
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
        .filter(|one| one.state == "changeable")
        .map(|one| one.setting.as_str())
        .collect();
    let mut lines = Vec::new();
    if !all.is_empty() {
        lines.push(title(style, "Not seen, and what is to be known"));
        // What to do about it stands at the end.
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
    let questions: u64 = view.probes.iter().map(|probe| probe.questions).sum();
    let asked_us: f64 = view.probes.iter().map(|probe| probe.asked_us).sum();
    lines.push(format!(
        "  Watching asked {} and waited {} for the answers.",
        counted(questions, "question"),
        duration(asked_us)
    ));
    lines
}

fn with_remedy(text: &str, remedy: &Option<String>) -> String {
    match remedy {
        None => text.to_owned(),
        Some(remedy) => format!("{text}; to change that: {remedy}"),
    }
}
