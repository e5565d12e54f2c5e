//! The statements as the page's script reads them. A page of 5,000 statements has to open in a
//! second, so numbers have the digits that are shown and no more, times are lists without names, and
//! what only an open statement shows stands by itself, to be read when the first is opened.

use std::collections::{BTreeMap, BTreeSet};

use compare::{Comparison, Details, Finding, SlowExecution, StatementComparison};
use plans::{Mark, PlanComparison, PlanSide, StatementPlans};
use serde::Serialize;
use sql::{Fingerprint, StatementClass};
use statistics::{LatencySummary, Ratio};

use super::plan_change;
use super::words::anomaly_text;
use crate::html::data::short;
use crate::text::plan_text;

/// What the page's script needs beside the statements.
#[derive(Serialize)]
pub(super) struct PageData {
    margin: f64,
    /// How sure intervals are, in percent.
    level: u32,
    /// How long the whole is that medians are over.
    span_us: f64,
    heights: &'static str,
}

/// Mean, p50, p95, p99 and greatest, in microseconds.
type Times = [f64; 5];

/// A ratio with its interval.
type Interval = (f64, Option<f64>, Option<f64>);

#[derive(Serialize)]
struct Ratios {
    #[serde(skip_serializing_if = "Option::is_none")]
    median: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<Interval>,
}

/// What the table shows of a statement, and what it is found by.
#[derive(Serialize)]
pub(super) struct Packed<'a> {
    fingerprint: Fingerprint,
    sql: Option<&'a str>,
    class: Option<StatementClass>,
    #[serde(flatten)]
    finding: Finding,
    regression: bool,
    ratios: Ratios,
    added: Option<f64>,
    /// Before, after.
    calls: (u64, u64),
    /// Before, after, captured.
    errors: (u64, u64, u64),
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<(u64, u64)>,
    before: Option<Times>,
    after: Option<Times>,
    #[serde(skip_serializing_if = "Option::is_none")]
    captured: Option<Times>,
    /// What became of its plan, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// What it is found by beside its SQL: the steps of its plans.
    #[serde(skip_serializing_if = "String::is_empty")]
    words: String,
}

/// What an open statement shows beside; each before and after.
#[derive(Serialize)]
pub(super) struct Opened {
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<[Option<Times>; 2]>,
    /// Session lag.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<[Option<Times>; 2]>,
    /// The first bin, the highest share of calls in one, and the shares as heights of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    bins: Option<(u32, f64, [String; 2])>,
    /// The least and the greatest median of a stretch, and the medians as heights between them, in
    /// ratios.
    #[serde(skip_serializing_if = "Option::is_none")]
    medians: Option<(f64, f64, [String; 2])>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slowest: Option<[Vec<Slow>; 2]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    anomalies: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanDetails>,
}

/// What became of the plan, and its steps before and after.
#[derive(Serialize)]
struct PlanDetails {
    /// Whether the plan is the same; `null` unless both sides have one.
    same: Option<bool>,
    words: Vec<String>,
    sides: [Vec<Step>; 2],
}

/// How far below the top, what it does, its mark, the planner's rows and cost, its conditions.
type Step = (usize, String, Mark, f64, f64, Vec<String>);

/// Service and response time, rows, when it was due, session, sequence.
type Slow = (f64, f64, u64, f64, u64, u64);

/// So many points of a line are seen in a small chart.
const POINTS_MAX: usize = 64;

/// A height in a small chart is one of these letters, the first at the bottom: each is a pixel or
/// two. None of them has to be escaped where it stands.
const HEIGHTS: &str =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%()*+,-./:;=?@[]^_{|}~";
/// Nothing was there.
const GAP: char = ' ';

/// Nanoseconds as microseconds.
fn us(ns: f64) -> f64 {
    short(ns / 1e3)
}

fn times(latency: &LatencySummary) -> Times {
    [
        us(latency.mean_ns),
        us(latency.p50_ns as f64),
        us(latency.p95_ns as f64),
        us(latency.p99_ns as f64),
        us(latency.max_ns as f64),
    ]
}

fn interval(ratio: &Ratio) -> Interval {
    (
        short(ratio.value),
        ratio.interval.map(|interval| short(interval.low)),
        ratio.interval.map(|interval| short(interval.high)),
    )
}

pub(super) fn page(view: &Comparison) -> PageData {
    PageData {
        margin: view.margin,
        level: view.interval_level_percent,
        span_us: view.over_time.width_ns as f64 / 1e3 * view.over_time.before.len() as f64,
        heights: HEIGHTS,
    }
}

pub(super) fn statements<'a>(kept: &[&'a StatementComparison]) -> Vec<Packed<'a>> {
    kept.iter().map(|one| packed(one)).collect()
}

fn packed(one: &StatementComparison) -> Packed<'_> {
    let service = &one.service;
    Packed {
        fingerprint: one.fingerprint,
        sql: one.sql.as_deref(),
        class: one.class,
        finding: service.finding,
        regression: one.regression,
        ratios: Ratios {
            median: service.median_ratio.as_ref().map(interval),
            mean: service.mean_ratio.as_ref().map(interval),
            p99: service.p99_ratio.as_ref().map(interval),
        },
        added: service.added_ns.map(us),
        calls: (one.calls_before, one.calls_after),
        errors: (one.errors_before, one.errors_after, one.errors_captured),
        skipped: (one.skipped_before + one.skipped_after > 0)
            .then_some((one.skipped_before, one.skipped_after)),
        before: service.before.as_ref().map(times),
        after: service.after.as_ref().map(times),
        captured: one.captured.as_ref().map(times),
        why: plan_change(one),
        words: one.plans.as_ref().map_or_else(String::new, plan_words),
    }
}

pub(super) fn details(kept: &[&StatementComparison]) -> BTreeMap<Fingerprint, Opened> {
    kept.iter()
        .map(|one| (one.fingerprint, detail(one)))
        .collect()
}

fn detail(one: &StatementComparison) -> Opened {
    let both = |before: &Option<LatencySummary>, after: &Option<LatencySummary>| {
        (before.is_some() || after.is_some())
            .then(|| [before, after].map(|side| side.as_ref().map(times)))
    };
    let details = one.details.as_ref();
    let slow = |all: &Vec<SlowExecution>| all.iter().map(slow).collect();
    Opened {
        response: both(&one.response_before, &one.response_after),
        lag: both(&one.session_lag_before, &one.session_lag_after).filter(waited),
        bins: details.and_then(bins),
        medians: details.and_then(medians),
        slowest: details.map(|details| [&details.slowest_before, &details.slowest_after].map(slow)),
        anomalies: one.anomalies.iter().map(anomaly_text).collect(),
        plan: one.plans.as_ref().map(|plans| PlanDetails {
            same: plans.comparison.as_ref().map(|found| found.same),
            words: match plan_text::changes(plans) {
                none if none.is_empty() => vec![plan_text::line(plans)],
                changes => changes,
            },
            sides: steps(plans),
        }),
    }
}

/// The steps of both sides.
fn steps(plans: &StatementPlans) -> [Vec<Step>; 2] {
    let marks = |of: fn(&PlanComparison) -> &Vec<Mark>| {
        let found = plans.comparison.as_ref();
        found.map_or(&[][..], |found| of(found).as_slice())
    };
    [
        steps_of(&plans.before, marks(|found| &found.before_marks)),
        steps_of(&plans.after, marks(|found| &found.after_marks)),
    ]
}

fn steps_of(side: &PlanSide, marks: &[Mark]) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(plan) = side.plan() {
        plan.root.each(&mut |node, depth| {
            let mark = marks.get(steps.len()).copied().unwrap_or(Mark::Same);
            let conditions = node.conditions.iter().map(ToString::to_string).collect();
            let (rows, cost) = (short(node.rows), short(node.cost));
            steps.push((depth, node.label(), mark, rows, cost, conditions));
        });
    }
    steps
}

/// What was done, each once.
fn plan_words(plans: &StatementPlans) -> String {
    let mut labels = BTreeSet::new();
    for plan in [&plans.before, &plans.after]
        .into_iter()
        .filter_map(|side| side.plan())
    {
        plan.root.each(&mut |node, _| {
            labels.insert(node.label());
        });
    }
    let verdict = match plans.comparison.as_ref().map(|found| found.same) {
        None => "plan unknown",
        Some(true) => "plan same",
        Some(false) => "plan changed",
    };
    let mut words = vec![verdict.to_owned()];
    words.extend(labels);
    words.join(" ")
}

/// Nothing to show where nothing waited.
fn waited(lag: &[Option<Times>; 2]) -> bool {
    lag.iter().flatten().flatten().any(|us| *us > 0.0)
}

fn slow(one: &SlowExecution) -> Slow {
    (
        us(one.service_ns as f64),
        us(one.response_ns as f64),
        one.rows,
        us(one.due_ns as f64),
        one.session,
        one.sequence,
    )
}

/// The letter of a part from 0 to 1.
fn height(part: f64) -> char {
    let highest = HEIGHTS.len() - 1;
    let at = (part * highest as f64).round() as usize;
    char::from(HEIGHTS.as_bytes()[at.min(highest)])
}

fn bins(details: &Details) -> Option<(u32, f64, [String; 2])> {
    let sides = [&details.bins_before, &details.bins_after].map(|side| {
        let all = side.iter().sum::<u64>().max(1) as f64;
        let shares = side.iter().map(|calls| *calls as f64 / all);
        shares.collect::<Vec<f64>>()
    });
    let most = sides.iter().flatten().copied().fold(0.0, f64::max);
    let letters = |side: Vec<f64>| side.iter().map(|share| height(share / most)).collect();
    (most > 0.0).then(|| (details.first_bin, short(most), sides.map(letters)))
}

fn medians(details: &Details) -> Option<(f64, f64, [String; 2])> {
    let sides = [&details.medians_before_ns, &details.medians_after_ns].map(|side| thinned(side));
    let known = || sides.iter().flatten().flatten().copied();
    let (least, most) = (known().min()? as f64, known().max()? as f64);
    let letter = |ns: &Option<u64>| match ns {
        Some(ns) if most > least => height((*ns as f64 / least).ln() / (most / least).ln()),
        Some(_) => height(0.0),
        None => GAP,
    };
    let letters = |side: &Vec<Option<u64>>| side.iter().map(letter).collect();
    let heights = [&sides[0], &sides[1]].map(letters);
    (least > 0.0).then(|| (us(least), us(most), heights))
}

/// The middle of neighbours, where there are more points than are seen.
fn thinned(points: &[Option<u64>]) -> Vec<Option<u64>> {
    let group = points.len().div_ceil(POINTS_MAX).max(1);
    let middle = |group: &[Option<u64>]| {
        let mut known: Vec<u64> = group.iter().flatten().copied().collect();
        known.sort_unstable();
        known.get(known.len() / 2).copied()
    };
    points.chunks(group).map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_letters() {
        let details = Details {
            first_bin: 60,
            bins_before: vec![1, 3, 0],
            bins_after: vec![0, 0, 8],
            medians_before_ns: vec![Some(10_000), None, Some(1_000_000)],
            medians_after_ns: vec![Some(100_000), Some(100_000), None],
            slowest_before: Vec::new(),
            slowest_after: Vec::new(),
        };
        let (first, most, [before, after]) = bins(&details).unwrap();
        assert_eq!((first, most), (60, 1.0));
        assert_eq!((before.as_str(), after.as_str()), ("M%0", "00~"));
        let (least, most, [before, after]) = medians(&details).unwrap();
        assert_eq!((least, most), (10.0, 1_000.0));
        assert_eq!((before.as_str(), after.as_str()), ("0 ~", "hh "));
        let json = serde_json::to_string(HEIGHTS).unwrap();
        assert_eq!(json.len(), HEIGHTS.len() + 2, "nothing is escaped");
        assert!(!HEIGHTS.contains(['<', '>', '&', GAP]));
        assert_eq!(thinned(&[Some(1); 200]).len(), 50);
    }
}
