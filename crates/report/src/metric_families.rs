//! Metric families of the program: the one list from which the Prometheus text and the export over OTLP are made.

mod capture;
mod process;
mod replay;
mod shadow;

pub use capture::{attach_families, log_families, proxy_families, series_families};
pub use process::process_families;
pub use replay::{replay_families, target_wait_families};
pub use shadow::shadow_families;

use telemetry::{MetricFamily, MetricSample, MetricValues, Unit};

/// Returns the family with the program's version.
pub fn build_info() -> MetricFamily {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let values = MetricValues::Gauge(vec![MetricSample {
        labels: vec![("version", version)],
        value: 1.0,
    }]);
    MetricFamily::new(
        "build_info",
        Unit::None,
        "The program's version; always 1.",
        values,
    )
}
