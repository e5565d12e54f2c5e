//! Prometheus' text format, version 0.0.4.
//!
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>. Names have units:
//! seconds and bytes, never milliseconds. No library is used, since the counters are arrays of
//! the workers, which a library's registry could not hold.

use std::fmt::Write as _;

use telemetry::{HistogramReading, MetricFamily, MetricValues};

/// Renders families.
pub fn render_text(families: &[MetricFamily]) -> String {
    let mut page = Page::default();
    families.iter().for_each(|family| page.family(family));
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, family: &MetricFamily) {
        let name = family.prometheus_name();
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        let kind = match &family.values {
            MetricValues::Gauge(_) => "gauge",
            MetricValues::Counter(_) => "counter",
            MetricValues::Histogram(_) => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        match &family.values {
            MetricValues::Gauge(samples) | MetricValues::Counter(samples) => {
                for sample in samples {
                    self.sample(&name, &sample.labels, sample.value);
                }
            }
            MetricValues::Histogram(histogram) => self.histogram(&name, histogram),
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, String)], value: f64) {
        self.text.push_str(name);
        for (place, (label, value)) in labels.iter().enumerate() {
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let open = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"{value}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }

    fn histogram(&mut self, name: &str, histogram: &HistogramReading) {
        let bucket = format!("{name}_bucket");
        let mut count = 0;
        for (cell, bound) in histogram.cells.iter().zip(&histogram.bounds) {
            count += cell;
            self.sample(&bucket, &[("le", bound.to_string())], count as f64);
        }
        let all = histogram.count() as f64;
        self.sample(&bucket, &[("le", "+Inf".to_owned())], all);
        self.sample(&format!("{name}_sum"), &[], histogram.sum);
        self.sample(&format!("{name}_count"), &[], all);
    }
}
