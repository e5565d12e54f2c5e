//! Lines of `compare --follow --json`.

use compare::shadow::ShadowChange;
use run::SeriesGap;
use schemars::JsonSchema;
use serde::Serialize;
use study::shadow_comparison::ShadowView;

/// Schema of every line.
const SCHEMA: &str = "rehearse/compare-follow/1";

/// One line.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ShadowLine<'a> {
    /// Name and version of the schema: `rehearse/compare-follow/1`.
    schema: &'static str,
    /// Content.
    #[serde(flatten)]
    event: ShadowEvent<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
enum ShadowEvent<'a> {
    /// A verdict became another one.
    Verdict {
        /// Time of the change, in microseconds since 1970-01-01 UTC.
        wall_us: i64,
        /// Change.
        change: &'a ShadowChange,
    },
    /// The replay has come to a gap of the series.
    SeriesGap {
        /// Gap.
        gap: &'a SeriesGap,
    },
    /// Result so far, at each interval.
    Progress {
        /// Result.
        result: &'a ShadowView,
    },
    /// Last line.
    End {
        /// Result.
        result: &'a ShadowView,
    },
}

impl<'a> ShadowLine<'a> {
    /// Creates the line of a change. `started_wall_us` is the start of the replay, in microseconds since 1970-01-01 UTC.
    pub fn verdict(change: &'a ShadowChange, started_wall_us: i64) -> Self {
        let wall_us = started_wall_us.saturating_add(change.at_ns / 1_000);
        Self::of(ShadowEvent::Verdict { wall_us, change })
    }

    /// Creates the line of a gap of the series.
    pub fn series_gap(gap: &'a SeriesGap) -> Self {
        Self::of(ShadowEvent::SeriesGap { gap })
    }

    /// Creates the line of a result so far.
    pub fn progress(result: &'a ShadowView) -> Self {
        Self::of(ShadowEvent::Progress { result })
    }

    /// Creates the last line.
    pub fn end(result: &'a ShadowView) -> Self {
        Self::of(ShadowEvent::End { result })
    }

    fn of(event: ShadowEvent<'a>) -> Self {
        ShadowLine {
            schema: SCHEMA,
            event,
        }
    }
}
