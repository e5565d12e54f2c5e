//! Metric families: the description of a metric, with its values at one time.

use std::borrow::Cow;

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A flag or a constant.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Part of a whole, 0 to 1.
    Ratio,
    /// A number of such things.
    Count(&'static str),
}

impl Unit {
    /// Returns the unit's code after UCUM, as OTLP has it.
    ///
    /// Source: <https://opentelemetry.io/docs/specs/semconv/general/metrics/#instrument-units>.
    pub fn ucum(self) -> String {
        match self {
            Unit::None => String::new(),
            Unit::Seconds => "s".to_owned(),
            Unit::Bytes => "By".to_owned(),
            Unit::Ratio => "1".to_owned(),
            Unit::Count(thing) => format!("{{{thing}}}"),
        }
    }

    /// Returns the word in a Prometheus name.
    fn suffix(self) -> Option<&'static str> {
        match self {
            Unit::None | Unit::Count(_) => None,
            Unit::Seconds => Some("seconds"),
            Unit::Bytes => Some("bytes"),
            Unit::Ratio => Some("ratio"),
        }
    }
}

/// First part of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricScope {
    /// Metrics of a replay or a capture.
    Rehearse,
    /// Metrics of the program's process, as every Prometheus client has them.
    Process,
}

impl MetricScope {
    fn name(self) -> &'static str {
        match self {
            MetricScope::Rehearse => "rehearse",
            MetricScope::Process => "process",
        }
    }
}

/// Value of a metric for one set of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// Distribution of durations.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramReading {
    /// Upper bounds of all cells but the last, in ascending order, in the family's unit.
    pub bounds: Vec<f64>,
    /// Number of values in each cell; one more than there are bounds.
    pub cells: Vec<u64>,
    /// Sum of the values.
    pub sum: f64,
}

impl HistogramReading {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }
}

/// Values of a family at one time.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValues {
    /// Values that may fall.
    Gauge(Vec<MetricSample>),
    /// Values that only grow.
    Counter(Vec<MetricSample>),
    /// One distribution, whose cells only grow.
    Histogram(HistogramReading),
}

/// Metric with its description.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily {
    /// First part of the name.
    pub scope: MetricScope,
    /// Name without scope, unit and `total`, in words joined by `_`.
    pub stem: Cow<'static, str>,
    /// Unit of the values.
    pub unit: Unit,
    /// Meaning, in one sentence.
    pub help: Cow<'static, str>,
    /// The values.
    pub values: MetricValues,
}

impl MetricFamily {
    /// Creates a gauge of [`MetricScope::Rehearse`] without labels.
    pub fn gauge(
        stem: impl Into<Cow<'static, str>>,
        unit: Unit,
        help: impl Into<Cow<'static, str>>,
        value: f64,
    ) -> Self {
        let values = MetricValues::Gauge(vec![MetricSample {
            labels: Vec::new(),
            value,
        }]);
        MetricFamily::new(stem, unit, help, values)
    }

    /// Creates a counter of [`MetricScope::Rehearse`] without labels.
    pub fn counter(
        stem: impl Into<Cow<'static, str>>,
        unit: Unit,
        help: impl Into<Cow<'static, str>>,
        value: u64,
    ) -> Self {
        let values = MetricValues::Counter(vec![MetricSample {
            labels: Vec::new(),
            value: value as f64,
        }]);
        MetricFamily::new(stem, unit, help, values)
    }

    /// Creates a family of [`MetricScope::Rehearse`].
    pub fn new(
        stem: impl Into<Cow<'static, str>>,
        unit: Unit,
        help: impl Into<Cow<'static, str>>,
        values: MetricValues,
    ) -> Self {
        MetricFamily {
            scope: MetricScope::Rehearse,
            stem: stem.into(),
            unit,
            help: help.into(),
            values,
        }
    }

    /// Returns it with another scope.
    pub fn in_scope(self, scope: MetricScope) -> Self {
        MetricFamily { scope, ..self }
    }

    /// Returns the name in Prometheus: scope, stem, unit if the stem does not have it, and `total` for counters.
    pub fn prometheus_name(&self) -> String {
        let mut name = format!("{}_{}", self.scope.name(), self.stem);
        let suffix = self.unit.suffix();
        if let Some(suffix) =
            suffix.filter(|suffix| !self.stem.split('_').any(|word| word == *suffix))
        {
            name.push('_');
            name.push_str(suffix);
        }
        if matches!(self.values, MetricValues::Counter(_)) {
            name.push_str("_total");
        }
        name
    }

    /// Returns the name in OpenTelemetry: scope and stem. Prometheus translates it to [`Self::prometheus_name`].
    ///
    /// Source: <https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/>.
    pub fn otlp_name(&self) -> String {
        format!("{}.{}", self.scope.name(), self.stem)
    }

    /// Returns the number of data points.
    pub fn points(&self) -> usize {
        match &self.values {
            MetricValues::Gauge(samples) | MetricValues::Counter(samples) => samples.len(),
            MetricValues::Histogram(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_name_has_the_unit_once_and_total_for_counters() {
        let name = |family: MetricFamily| (family.prometheus_name(), family.otlp_name());
        let pair = |prometheus: &str, otlp: &str| (prometheus.to_owned(), otlp.to_owned());
        assert_eq!(
            name(MetricFamily::gauge("elapsed", Unit::Seconds, "", 0.0)),
            pair("rehearse_elapsed_seconds", "rehearse.elapsed")
        );
        assert_eq!(
            name(MetricFamily::counter("bytes_received", Unit::Bytes, "", 0)),
            pair("rehearse_bytes_received_total", "rehearse.bytes_received")
        );
        assert_eq!(
            name(MetricFamily::counter("cpu", Unit::Seconds, "", 0).in_scope(MetricScope::Process)),
            pair("process_cpu_seconds_total", "process.cpu")
        );
    }
}
