//! Texts of the page: descriptions of anomalies, and the glossary.

use compare::{Anomaly, Comparison};

use crate::text::units::{percent, ratio};

/// Describes an anomaly in a sentence.
pub(super) fn anomaly_text(anomaly: &Anomaly) -> String {
    match anomaly {
        Anomaly::HeavyTail { side, share } => format!(
            "Heavy tail {}: the slowest hundredth of calls takes {} of the time, so the mean says little of a call.",
            side.name(),
            percent(*share, 1.0)
        ),
        Anomaly::Burst { side, share } => format!(
            "A burst {}: half of the calls lie in {} of the run, so few moments decide.",
            side.name(),
            percent(*share, 1.0)
        ),
        Anomaly::WarmUp { side, factor } => format!(
            "Warm-up {}: in the first eighth of the run the median is {} times that of the rest.",
            side.name(),
            ratio(*factor)
        ),
        Anomaly::Drift { side, factor } => format!(
            "Drift {}: the median at the end is {} times that at the start.",
            side.name(),
            ratio(*factor)
        ),
        Anomaly::DifferenceDrifts { from, to } => format!(
            "The difference itself drifts: {} times as long at the start of the runs, {} times at their end.",
            ratio(*from),
            ratio(*to)
        ),
    }
}

/// Returns the page's terms and their meanings.
pub(super) fn terms(view: &Comparison) -> Vec<(&'static str, String)> {
    let margin = format!("{:.0} %", view.margin * 100.0);
    let level = view.interval_level_percent;
    vec![
        (
            "slower, faster",
            format!("the whole interval of a ratio lies beyond the margin of {margin}, and chance alone does not do that"),
        ),
        (
            "same",
            format!("the interval lies within the margin of {margin}: shown, not assumed"),
        ),
        (
            "not enough data",
            "executed on one side only, or too few calls or stretches of time".to_owned(),
        ),
        (
            "too noisy",
            "the calls differ so much among themselves that the interval is too wide to judge; more runs may narrow it"
                .to_owned(),
        ),
        (
            "regression",
            "a statement that is slower by enough to matter, or an error that is new or clearly more frequent".to_owned(),
        ),
        (
            "times as long",
            format!("after divided by before, of the median or of what the finding names; in brackets the {level} % interval: what the ratio may be, too"),
        ),
        (
            "added",
            "the difference of the means times the calls of a run before: what the change costs in all".to_owned(),
        ),
        (
            "service time",
            "from a statement's first byte sent to its answer complete; what failed is in no time".to_owned(),
        ),
        (
            "response time",
            "from when a statement was due to its answer complete, so with all that it waited".to_owned(),
        ),
        (
            "session lag",
            "what a statement waited because its session's previous one was not done".to_owned(),
        ),
        (
            "tool lag",
            "what it waited because the replaying program was late: none of the server's fault".to_owned(),
        ),
        (
            "p50, p99",
            "half of the calls, or 99 % of them, took no longer".to_owned(),
        ),
        (
            "captured",
            "where the workload was recorded: another machine, another day, the server's time only; never compared".to_owned(),
        ),
    ]
}
