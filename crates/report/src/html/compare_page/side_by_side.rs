//! Facts about the two sides: runs, workloads and servers.

use compare::{Comparison, NoiseSource, RunFacts, SideFacts};
use statistics::LatencySummary;

use crate::text::line::one_line;
use crate::text::units::{count, counted, duration_ns, rate};

pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) runs: String,
    pub(super) facts: String,
}

pub(super) struct FactRow {
    pub(super) name: &'static str,
    pub(super) before: String,
    pub(super) after: String,
    /// Whether the sides should be equal but differ.
    pub(super) differs: bool,
}

/// Returns the common value of a side's runs, or the value of each run in order.
fn each(side: &SideFacts, text: impl Fn(&RunFacts) -> String) -> String {
    let mut found: Vec<String> = Vec::new();
    for text in side.runs.iter().map(text) {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    match found.iter().all(String::is_empty) {
        true => "–".to_owned(),
        false => found.join(", "),
    }
}

/// Returns the names of the runs.
pub(super) fn names(side: &SideFacts) -> String {
    each(side, |run| one_line(&run.name, 300))
}

/// Returns the versions of the servers of both sides: one if they are equal, and an empty text if none is
/// known.
pub(super) fn versions(view: &Comparison) -> String {
    // Packagers add their own version after a blank.
    let number = |side: &SideFacts| {
        each(side, |run| {
            let version = run.server_version.split(' ').next();
            one_line(version.unwrap_or_default(), 20)
        })
    };
    let (before, after) = (number(&view.before), number(&view.after));
    match (before == after, before.as_str()) {
        (true, "–") => String::new(),
        (true, _) => before,
        (false, _) => format!("{before} → {after}"),
    }
}

/// Returns the longest duration of a side's runs.
fn took(side: &SideFacts) -> String {
    let longest_ns = side.runs.iter().map(|run| run.elapsed_ns).max();
    duration_ns(longest_ns.unwrap_or(0) as f64)
}

/// Formats a start time: `2026-11-21 19:05 UTC`.
fn when(run: &RunFacts) -> String {
    match run.started_wall_us {
        0 => String::new(),
        at => {
            let text = clock::utc_text(at);
            text.get(..16)
                .map_or(text.clone(), |minute| format!("{minute} UTC"))
        }
    }
}

pub(super) fn sides(view: &Comparison) -> [Side; 2] {
    [("before", &view.before), ("after", &view.after)].map(|(name, side)| {
        let mut facts = Vec::new();
        let version = each(side, |run| run.server_version.clone());
        if version != "–" {
            facts.push(format!("PostgreSQL {version}"));
        }
        facts.push(format!(
            "at {}",
            each(side, |run| one_line(&run.target, 120))
        ));
        let when = each(side, when);
        if when != "–" {
            facts.push(when);
        }
        facts.push(format!("speed {}", each(side, |run| run.speed.clone())));
        facts.push(format!(
            "{} done, {} failed, {} never sent",
            counted(side.done, "statement"),
            count(side.failed),
            count(side.skipped)
        ));
        let took = took(side);
        facts.push(match side.runs.len() {
            1 => format!("in {took}"),
            runs => format!("in {runs} runs of up to {took}"),
        });
        Side {
            name,
            runs: names(side),
            facts: facts.join(" · "),
        }
    })
}

/// Describes the noise between runs of one server, if it is known.
pub(super) fn noise(view: &Comparison) -> String {
    let Some(noise) = &view.noise else {
        return "One run on each side: how much two runs of the same server differ is not in the intervals; several runs a side would tell.".to_owned();
    };
    let share = |share: f64| format!("{:.1} %", share * 100.0);
    let tail = noise
        .p99
        .map_or_else(String::new, |p99| format!(", p99s by {}", share(p99)));
    let by = format!(
        "medians by {}, means by {}{tail}",
        share(noise.median),
        share(noise.mean)
    );
    match noise.source {
        NoiseSource::Given => format!(
            "{} of one unchanged server differ in 95 % of the statements by no more than: {by}; the margin is no less than that.",
            counted(noise.runs.len() as u64, "run")
        ),
        NoiseSource::Repeats => format!(
            "Runs of one side differ as a whole (one standard deviation): {by}; that is in the intervals."
        ),
    }
}

/// Returns the rows of the table that compares both sides.
pub(super) fn facts(view: &Comparison) -> Vec<FactRow> {
    let both = [&view.before, &view.after];
    let dash = || "–".to_owned();
    let mut rows = Vec::new();
    let mut row = |name, alike: bool, text: &dyn Fn(&SideFacts) -> String| {
        let [before, after] = both.map(text);
        rows.push(FactRow {
            name,
            differs: alike && before != after,
            before,
            after,
        });
    };
    row("run", false, &names);
    row("workload", true, &|side| {
        each(side, |run| one_line(&run.workload, 200))
    });
    row("target", false, &|side| {
        each(side, |run| one_line(&run.target, 200))
    });
    row("PostgreSQL", true, &|side| {
        each(side, |run| run.server_version.clone())
    });
    row("began", false, &|side| each(side, when));
    row("speed", true, &|side| each(side, |run| run.speed.clone()));
    row("it was", true, &|side| {
        each(side, |run| run.status.name().to_owned())
    });
    row("took", false, &took);
    row("statements done", true, &|side| count(side.done));
    row("failed", true, &|side| count(side.failed));
    row("never sent", true, &|side| count(side.skipped));
    row("throughput", false, &|side| {
        side.throughput_per_s.map_or_else(dash, |rate_per_s| {
            format!("{} statements a second", rate(rate_per_s))
        })
    });
    row("connections", true, &|side| {
        let sum = |get: fn(&RunFacts) -> u64| side.runs.iter().map(get).sum::<u64>();
        match sum(|run| run.connects_failed) {
            0 => count(sum(|run| run.connects)),
            failed => format!(
                "{}, {} failed",
                count(sum(|run| run.connects)),
                count(failed)
            ),
        }
    });
    let latency = |latency: Option<LatencySummary>| {
        latency.map_or_else(dash, |latency| {
            format!(
                "p50 {}, p99 {}, at most {}",
                duration_ns(latency.p50_ns as f64),
                duration_ns(latency.p99_ns as f64),
                duration_ns(latency.max_ns as f64)
            )
        })
    };
    let times = |name, before: Option<LatencySummary>, after: Option<LatencySummary>| FactRow {
        name,
        before: latency(before),
        after: latency(after),
        differs: false,
    };
    let (all, connects) = (&view.all, &view.connects);
    rows.extend([
        times("service time", all.before, all.after),
        times("response time", view.response.before, view.response.after),
        times(
            "session lag",
            view.before.session_lag,
            view.after.session_lag,
        ),
        times("tool lag", view.before.tool_lag, view.after.tool_lag),
        times("connecting", connects.before, connects.after),
    ]);
    rows
}
