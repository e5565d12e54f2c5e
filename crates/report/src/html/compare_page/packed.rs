//! Compact statement data for the page's script. A page of 5,000 statements must open within a
//! second. So numbers have only the displayed digits, times are lists without names, and the
//! details of a statement are in a separate element that is parsed when the first statement is
//! opened.

use std::collections::{BTreeMap, BTreeSet};

use compare::{
    Comparison, Details, Direction, Finding, InsufficientData, SlowExecution, StatementChange,
    StatementComparison,
};
use plans::StatementPlans;
use serde::Serialize;
use sql::{Fingerprint, StatementClass};
use statistics::{LatencySummary, Ratio};

use super::glossary::anomaly_text;
use super::plan_change;
use crate::html::data::short;
use crate::html::plan_steps::{PlanStep, plan_steps};
use crate::text::change_text::evidence_text;
use crate::text::plan_text;

/// Additional data for the page's script, other than the statements.
#[derive(Serialize)]
pub(super) struct PageData {
    margin: f64,
    /// Confidence level of intervals, in percent.
    level: u32,
    /// Time that the medians cover.
    span_us: f64,
    heights: &'static str,
}

/// Mean, p50, p95, p99 and maximum, in microseconds.
type Times = [f64; 5];

/// Ratio with its interval.
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

/// Table row of a statement, with its search text.
#[derive(Serialize)]
pub(super) struct PackedStatement<'a> {
    fingerprint: Fingerprint,
    sql: Option<&'a str>,
    class: Option<StatementClass>,
    #[serde(flatten)]
    finding: Finding,
    kind: ChangeKind,
    /// Why it is thought to have changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    evidence: String,
    ratios: Ratios,
    added: Option<f64>,
    /// Calls before and after.
    calls: (u64, u64),
    /// Errors before, after and captured.
    errors: (u64, u64, u64),
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<(u64, u64)>,
    before: Option<Times>,
    after: Option<Times>,
    #[serde(skip_serializing_if = "Option::is_none")]
    captured: Option<Times>,
    /// Change of its plan, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Additional search text: the nodes of its plans.
    #[serde(skip_serializing_if = "String::is_empty")]
    words: String,
}

/// Kind of a statement's change, for the page's script.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum ChangeKind {
    Slower,
    LooksSlower,
    SlowerAlong,
    Faster,
    LooksFaster,
    FasterAlong,
    Same,
    TooNoisy,
    InsufficientData,
}

fn kind(one: &StatementComparison) -> ChangeKind {
    let by = |direction: Direction, slower, faster| match direction {
        Direction::Slower => slower,
        Direction::Faster => faster,
    };
    match (&one.change, one.service.finding) {
        (StatementChange::Independent { direction, .. }, _) => {
            by(*direction, ChangeKind::Slower, ChangeKind::Faster)
        }
        (StatementChange::Unproven { direction, .. }, _) => {
            by(*direction, ChangeKind::LooksSlower, ChangeKind::LooksFaster)
        }
        (StatementChange::Along { direction }, _) => {
            by(*direction, ChangeKind::SlowerAlong, ChangeKind::FasterAlong)
        }
        (
            StatementChange::None,
            Finding::InsufficientData {
                reason: InsufficientData::Unclear | InsufficientData::MayBeChance,
            },
        ) => ChangeKind::TooNoisy,
        (StatementChange::None, Finding::InsufficientData { .. }) => ChangeKind::InsufficientData,
        (StatementChange::None, _) => ChangeKind::Same,
    }
}

/// Details of a statement; each before and after.
#[derive(Serialize)]
pub(super) struct StatementDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<[Option<Times>; 2]>,
    /// Session lag.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<[Option<Times>; 2]>,
    /// First bin, greatest share of calls in a bin, and the shares as heights relative to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bins: Option<(u32, f64, [String; 2])>,
    /// Minimum and maximum of the stretch medians, and the medians as heights between them, on a
    /// logarithmic scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    medians: Option<(f64, f64, [String; 2])>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slowest: Option<[Vec<Slow>; 2]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    anomalies: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanDetails>,
}

/// Change of the plan, and its nodes before and after.
#[derive(Serialize)]
struct PlanDetails {
    /// Whether the plan is the same; `null` unless both sides have one.
    same: Option<bool>,
    words: Vec<String>,
    sides: [Vec<PlanStep>; 2],
}

/// Service and response time, rows, due time, session, sequence.
type Slow = (f64, f64, u64, f64, u64, u64);

/// Maximum number of points of a line in a small chart.
const POINTS_MAX: usize = 64;

/// Characters that encode heights in a small chart, from the bottom up; each is a pixel or two.
/// None of them needs escaping.
const HEIGHTS: &str =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%()*+,-./:;=?@[]^_{|}~";
/// Character for a gap.
const GAP: char = ' ';

/// Converts nanoseconds to rounded microseconds.
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

pub(super) fn statements<'a>(kept: &[&'a StatementComparison]) -> Vec<PackedStatement<'a>> {
    kept.iter().map(|one| packed(one)).collect()
}

fn packed(one: &StatementComparison) -> PackedStatement<'_> {
    let service = &one.service;
    PackedStatement {
        fingerprint: one.fingerprint,
        sql: one.sql.as_deref(),
        class: one.class,
        finding: service.finding,
        kind: kind(one),
        evidence: evidence_text(&one.change),
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

pub(super) fn details(kept: &[&StatementComparison]) -> BTreeMap<Fingerprint, StatementDetails> {
    kept.iter()
        .map(|one| (one.fingerprint, detail(one)))
        .collect()
}

fn detail(one: &StatementComparison) -> StatementDetails {
    let both = |before: &Option<LatencySummary>, after: &Option<LatencySummary>| {
        (before.is_some() || after.is_some())
            .then(|| [before, after].map(|side| side.as_ref().map(times)))
    };
    let details = one.details.as_ref();
    let slow = |all: &Vec<SlowExecution>| all.iter().map(slow).collect();
    StatementDetails {
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
            sides: plan_steps(plans),
        }),
    }
}

/// Returns the labels of all nodes without repetition.
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

/// Whether there was any session lag.
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

/// Returns the character for a height from 0 to 1.
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

/// Returns the medians of neighbouring points if there are too many.
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
    fn small_chart_is_encoded_as_letters() {
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
