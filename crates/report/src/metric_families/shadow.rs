//! Metrics of a shadow comparison.

use compare::shadow::{ShadowMeasure, ShadowReport};
use study::shadow_comparison::{ShadowState, ShadowView};
use telemetry::{MetricFamily, MetricSample, MetricValues, Unit};

const STATEMENTS: Unit = Unit::Count("statement");

/// Returns the metrics of a shadow comparison. `now_wall_us` is the present time, in microseconds since 1970-01-01 UTC.
pub fn shadow_families(view: &ShadowView, now_wall_us: i64) -> Vec<MetricFamily> {
    let report = &view.report;
    let running = view.state == ShadowState::InProgress;
    let read_us = view.started_wall_us.saturating_add(report.until_ns / 1_000);
    vec![
        MetricFamily::gauge(
            "shadow_running",
            Unit::None,
            "1 while the run that is compared is being written.",
            f64::from(u8::from(running)),
        ),
        MetricFamily::gauge(
            "shadow_age",
            Unit::Seconds,
            "Time since the last execution that was read ended.",
            now_wall_us.saturating_sub(read_us).max(0) as f64 / 1e6,
        ),
        windows(report),
        MetricFamily::counter(
            "shadow_statements_replayed",
            STATEMENTS,
            "Statements that the candidate executed.",
            report.replayed,
        ),
        MetricFamily::new(
            "shadow_statements_not_replayed",
            STATEMENTS,
            "Statements that the candidate did not execute, by reason.",
            MetricValues::Counter(
                (report.not_replayed.iter())
                    .map(|(reason, number)| sample("reason", reason, *number as f64))
                    .collect(),
            ),
        ),
        MetricFamily::counter(
            "shadow_gaps",
            Unit::Count("gap"),
            "Periods in which statements were not replayed.",
            report.gap_count,
        ),
        by_measure(
            "shadow_statements_differing",
            "Statements with a proven difference that is present, or has returned, by measure.",
            |measure| report.present(measure),
        ),
        by_measure(
            "shadow_statements_found",
            "Statements with a proven difference at any time, by measure.",
            |measure| report.findings(measure),
        ),
    ]
}

fn windows(report: &ShadowReport) -> MetricFamily {
    let compared = [("compared", report.windows)].into_iter();
    let excluded =
        (report.windows_excluded.iter()).map(|(reason, number)| (reason.name(), *number));
    let samples = compared.chain(excluded);
    MetricFamily::new(
        "shadow_windows",
        Unit::Count("window"),
        "Windows of time: compared, and not compared by reason.",
        MetricValues::Counter(
            samples
                .map(|(result, number)| sample("result", result, number as f64))
                .collect(),
        ),
    )
}

fn by_measure(
    stem: &'static str,
    help: &'static str,
    number: impl Fn(ShadowMeasure) -> usize,
) -> MetricFamily {
    let sample = |measure: ShadowMeasure| sample("measure", measure.name(), number(measure) as f64);
    let values = MetricValues::Gauge(ShadowMeasure::ALL.into_iter().map(sample).collect());
    MetricFamily::new(stem, STATEMENTS, help, values)
}

fn sample(label: &'static str, value: &str, number: f64) -> MetricSample {
    MetricSample {
        labels: vec![(label, value.to_owned())],
        value: number,
    }
}
