//! Text on a comparison of times.

use std::borrow::Cow;

use compare::{StatementComparison, TimesComparison};
use statistics::{LatencySummary, Measure};

use crate::text::line::statement_name;
use crate::text::units::{duration_change, ratio};

/// Describes the finding, with its measure unless that is the median: `slower (p99)`.
pub(crate) fn finding(times: &TimesComparison) -> String {
    match times.measure() {
        Measure::Median => times.finding.name().to_owned(),
        measure => format!("{} ({})", times.finding.name(), measure.name()),
    }
}

/// Formats the ratio that the finding rests on, with its interval: `1.34x [1.21 – 1.48]`. `None`
/// without an interval, because a ratio alone has no meaning.
pub(crate) fn ratio_text(times: &TimesComparison, unit: &str) -> Option<String> {
    let shown = times.ratio(times.measure())?;
    let interval = shown.interval?;
    Some(format!(
        "{}{unit} [{} – {}]",
        ratio(shown.value),
        ratio(interval.low),
        ratio(interval.high)
    ))
}

/// Formats a latency before and after: `1.20 → 3.40 ms`.
pub(crate) fn change(times: &TimesComparison, get: fn(&LatencySummary) -> f64) -> String {
    duration_change(
        times.before.as_ref().map(get),
        times.after.as_ref().map(get),
    )
}

/// Formats the measure that the finding rests on, before and after: `p99 1.20 → 3.40 ms`.
pub(crate) fn measured_change(times: &TimesComparison) -> String {
    let measure = times.measure();
    let name = match measure {
        Measure::Median => "p50",
        other => other.name(),
    };
    let ns = |side: Option<LatencySummary>| side.map(|latency| latency.measure_ns(measure));
    let change = duration_change(ns(times.before), ns(times.after));
    format!("{name} {change}")
}

/// Returns the median, in nanoseconds.
pub(crate) fn p50(latency: &LatencySummary) -> f64 {
    latency.p50_ns as f64
}

/// Returns the 95th percentile, in nanoseconds.
pub(crate) fn p95(latency: &LatencySummary) -> f64 {
    latency.p95_ns as f64
}

/// Returns the 99th percentile, in nanoseconds.
pub(crate) fn p99(latency: &LatencySummary) -> f64 {
    latency.p99_ns as f64
}

/// Names the statement by its SQL, or by its fingerprint if that is unknown.
pub(crate) fn name_of(statement: &StatementComparison) -> Cow<'_, str> {
    statement_name(statement.sql.as_deref(), statement.fingerprint)
}
