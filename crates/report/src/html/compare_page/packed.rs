//! The statements as the page's script reads them. A page of 5,000 statements has to open in a
//! second, so numbers have the digits that are shown and no more, times are lists without names, and
//! what only an open statement shows stands by itself, to be read when the first is opened.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::plan_change;
use super::words::remark_text;
use crate::view::compare::{
    CompareView, DetailsView, RatioView, SlowExecutionView, StatementCompareView,
};
use crate::view::latency::LatencyView;
use crate::view::plan::{PlanChangeView, PlanSideView};

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
    fingerprint: &'a str,
    sql: &'a str,
    class: &'a str,
    finding: &'a str,
    regression: bool,
    measure: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lack: Option<&'a str>,
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
pub(super) struct Details<'a> {
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
    remarks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanDetails<'a>>,
}

/// What became of the plan, and its steps before and after.
#[derive(Serialize)]
struct PlanDetails<'a> {
    verdict: &'a str,
    words: Vec<String>,
    sides: [Vec<Step<'a>>; 2],
}

/// How far below the top, what it does, its mark, the planner's rows and cost, its conditions.
type Step<'a> = (usize, &'a str, &'a str, f64, f64, &'a [String]);

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

/// A number with the digits that matter: five, where three are shown.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(4 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    // The quotient may end in nines.
    format!("{rounded:.6}").parse().unwrap_or(rounded)
}

fn times(latency: &LatencyView) -> Times {
    [
        short(latency.mean_us),
        short(latency.p50_us),
        short(latency.p95_us),
        short(latency.p99_us),
        short(latency.max_us),
    ]
}

fn interval(ratio: &RatioView) -> Interval {
    (
        short(ratio.ratio),
        ratio.low.map(short),
        ratio.high.map(short),
    )
}

pub(super) fn page(view: &CompareView) -> PageData {
    PageData {
        margin: view.margin,
        level: view.interval_level_percent,
        span_us: view.over_time.width_us * view.over_time.before.len() as f64,
        heights: HEIGHTS,
    }
}

pub(super) fn statements<'a>(kept: &[&'a StatementCompareView]) -> Vec<Packed<'a>> {
    kept.iter().map(|one| packed(one)).collect()
}

fn packed(one: &StatementCompareView) -> Packed<'_> {
    let service = &one.service;
    Packed {
        fingerprint: &one.fingerprint,
        sql: &one.sql,
        class: one.class,
        finding: service.finding,
        regression: one.regression,
        measure: service.measure,
        lack: service.lack,
        ratios: Ratios {
            median: service.median_ratio.as_ref().map(interval),
            mean: service.mean_ratio.as_ref().map(interval),
            p99: service.p99_ratio.as_ref().map(interval),
        },
        added: service.added_us.map(short),
        calls: (one.calls_before, one.calls_after),
        errors: (one.errors_before, one.errors_after, one.errors_captured),
        skipped: (one.skipped_before + one.skipped_after > 0)
            .then_some((one.skipped_before, one.skipped_after)),
        before: service.before.as_ref().map(times),
        after: service.after.as_ref().map(times),
        captured: one.captured.as_ref().map(times),
        why: plan_change(one),
        words: one.plan.as_ref().map_or_else(String::new, plan_words),
    }
}

pub(super) fn details<'a>(kept: &[&'a StatementCompareView]) -> BTreeMap<&'a str, Details<'a>> {
    let each = kept.iter();
    each.map(|one| (one.fingerprint.as_str(), detail(one)))
        .collect()
}

fn detail(one: &StatementCompareView) -> Details<'_> {
    let both = |before: &Option<LatencyView>, after: &Option<LatencyView>| {
        (before.is_some() || after.is_some())
            .then(|| [before, after].map(|side| side.as_ref().map(times)))
    };
    let details = one.details.as_ref();
    let slow = |all: &Vec<SlowExecutionView>| all.iter().map(slow).collect();
    Details {
        response: both(&one.response_before, &one.response_after),
        lag: both(&one.session_lag_before, &one.session_lag_after).filter(waited),
        bins: details.and_then(bins),
        medians: details.and_then(medians),
        slowest: details.map(|details| [&details.slowest_before, &details.slowest_after].map(slow)),
        remarks: one.remarks.iter().map(remark_text).collect(),
        plan: one.plan.as_ref().map(|plan| PlanDetails {
            verdict: plan.verdict,
            words: match plan.words.is_empty() {
                true => vec![plan.line()],
                false => plan.words.clone(),
            },
            sides: [steps(&plan.before), steps(&plan.after)],
        }),
    }
}

fn steps(side: &PlanSideView) -> Vec<Step<'_>> {
    let steps = side.steps.iter();
    steps
        .map(|step| {
            let (rows, cost) = (short(step.rows), short(step.cost));
            let conditions = step.conditions.as_slice();
            (
                step.depth,
                step.label.as_str(),
                step.mark,
                rows,
                cost,
                conditions,
            )
        })
        .collect()
}

/// What was done, each once.
fn plan_words(plan: &PlanChangeView) -> String {
    let steps = plan.before.steps.iter().chain(&plan.after.steps);
    let labels: BTreeSet<&str> = steps.map(|step| step.label.as_str()).collect();
    let mut words = vec![format!("plan {}", plan.verdict)];
    words.extend(labels.into_iter().map(str::to_owned));
    words.join(" ")
}

/// Nothing to show where nothing waited.
fn waited(lag: &[Option<Times>; 2]) -> bool {
    lag.iter().flatten().flatten().any(|us| *us > 0.0)
}

fn slow(one: &SlowExecutionView) -> Slow {
    (
        short(one.service_us),
        short(one.response_us),
        one.rows,
        short(one.due_us),
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

fn bins(details: &DetailsView) -> Option<(u32, f64, [String; 2])> {
    let sides = [&details.bins_before, &details.bins_after].map(|side| {
        let all = side.iter().sum::<u64>().max(1) as f64;
        let shares = side.iter().map(|calls| *calls as f64 / all);
        shares.collect::<Vec<f64>>()
    });
    let most = sides.iter().flatten().copied().fold(0.0, f64::max);
    let letters = |side: Vec<f64>| side.iter().map(|share| height(share / most)).collect();
    (most > 0.0).then(|| (details.first_bin, short(most), sides.map(letters)))
}

fn medians(details: &DetailsView) -> Option<(f64, f64, [String; 2])> {
    let sides = [&details.medians_before_us, &details.medians_after_us].map(|side| thinned(side));
    let known = sides.iter().flatten().flatten().copied();
    let (least, most) = known.fold((f64::INFINITY, 0.0f64), |(least, most), us| {
        (least.min(us), most.max(us))
    });
    let letter = |us: &Option<f64>| match us {
        Some(us) if most > least => height((us / least).ln() / (most / least).ln()),
        Some(_) => height(0.0),
        None => GAP,
    };
    let letters = |side: Vec<Option<f64>>| side.iter().map(letter).collect();
    (most > 0.0 && least > 0.0).then(|| (short(least), short(most), sides.map(letters)))
}

/// The middle of neighbours, where there are more points than are seen.
fn thinned(points: &[Option<f64>]) -> Vec<Option<f64>> {
    let group = points.len().div_ceil(POINTS_MAX).max(1);
    let middle = |group: &[Option<f64>]| {
        let mut known: Vec<f64> = group.iter().flatten().copied().collect();
        known.sort_unstable_by(f64::total_cmp);
        known.get(known.len() / 2).copied()
    };
    points.chunks(group).map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_letters() {
        let details = DetailsView {
            first_bin: 60,
            bins_before: vec![1, 3, 0],
            bins_after: vec![0, 0, 8],
            medians_before_us: vec![Some(10.0), None, Some(1_000.0)],
            medians_after_us: vec![Some(100.0), Some(100.0), None],
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
        assert_eq!(thinned(&[Some(1.0); 200]).len(), 50);
    }

    #[test]
    fn numbers_have_five_digits_and_no_more() {
        for (value, text) in [
            (123.456_789, "123.46"),
            (0.012_345_678, "0.012346"),
            (98_765_432.1, "98765000.0"),
            (-2.345_678_9, "-2.3457"),
            (0.0, "0.0"),
            (2.0, "2.0"),
        ] {
            let json = serde_json::to_string(&short(value)).unwrap();
            assert_eq!(json.parse::<f64>().unwrap(), text.parse::<f64>().unwrap());
            assert!(json.len() <= 10, "{json}");
        }
    }
}
