//! Metric families and spans of the program, and their export to an OpenTelemetry collector.
//!
//! ```text
//! counters ─► MetricFamily ─┬─► Prometheus' text format (in `report`)
//!                           └─► Exporter ─► OTLP over HTTP
//! executions ─► Span ───────────┘
//! ```
//!
//! A [`MetricFamily`] is the one description of a metric: name, unit, help and values. Both forms derive from it, and
//! the names agree with the translation of OpenTelemetry names by Prometheus.
//!
//! The [`Exporter`] has its own thread with low priority. It asks its [`TelemetrySource`] for values and never blocks
//! it. What a collector does not take is dropped past a limit, and counted in the [`ExportAccount`].

mod account;
mod exporter;
mod metric_family;
mod otlp;
mod settings;
mod span;

pub use account::{ExportAccount, ExportFailure};
pub use exporter::{Exporter, TelemetrySource};
pub use metric_family::{
    HistogramReading, MetricFamily, MetricSample, MetricScope, MetricValues, Unit,
};
pub use settings::ExportSettings;
pub use span::{AttributeValue, Span, SpanLink, is_sampled};
