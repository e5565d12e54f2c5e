//! Messages of OTLP: requests with metrics or spans, and the answers to them.
//!
//! Source: <https://opentelemetry.io/docs/specs/otlp/>.

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{self as trace, ResourceSpans, ScopeSpans, Status};
use prost::Message;

use crate::metric_family::{MetricFamily, MetricSample, MetricValues};
use crate::span::{AttributeValue, Span};

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Metrics,
    Traces,
}

/// Interval that a reading of metrics covers, in nanoseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadingTime {
    pub(crate) start_unix_ns: u64,
    pub(crate) now_unix_ns: u64,
}

/// Encodes a reading of all metrics.
pub(crate) fn encode_metrics(
    resource: &[(String, String)],
    families: &[MetricFamily],
    time: ReadingTime,
) -> Vec<u8> {
    let request = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource_of(resource)),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope()),
                metrics: families.iter().map(|one| metric_of(one, time)).collect(),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    };
    request.encode_to_vec()
}

/// Encodes spans.
pub(crate) fn encode_spans(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource_of(resource)),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope()),
                spans: spans.iter().map(span_of).collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    };
    request.encode_to_vec()
}

/// Reads how many items an accepted request lost, and why. An answer that cannot be read has lost none.
pub(crate) fn rejected_items(signal: Signal, answer: &[u8]) -> (u64, String) {
    let (rejected, message) = match signal {
        Signal::Metrics => ExportMetricsServiceResponse::decode(answer)
            .ok()
            .and_then(|answer| answer.partial_success)
            .map_or((0, String::new()), |part| {
                (part.rejected_data_points, part.error_message)
            }),
        Signal::Traces => ExportTraceServiceResponse::decode(answer)
            .ok()
            .and_then(|answer| answer.partial_success)
            .map_or((0, String::new()), |part| {
                (part.rejected_spans, part.error_message)
            }),
    };
    (u64::try_from(rejected).unwrap_or(0), message)
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "rehearse".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

fn resource_of(attributes: &[(String, String)]) -> Resource {
    let text =
        |(key, value): &(String, String)| key_value(key, &AttributeValue::Text(value.clone()));
    Resource {
        attributes: attributes.iter().map(text).collect(),
        ..Resource::default()
    }
}

fn key_value(key: &str, value: &AttributeValue) -> KeyValue {
    let value = match value {
        AttributeValue::Text(text) => any_value::Value::StringValue(text.clone()),
        AttributeValue::Int(number) => any_value::Value::IntValue(*number),
        AttributeValue::Float(number) => any_value::Value::DoubleValue(*number),
    };
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn metric_of(family: &MetricFamily, time: ReadingTime) -> Metric {
    let cumulative = AggregationTemporality::Cumulative as i32;
    let data = match &family.values {
        MetricValues::Gauge(samples) => metric::Data::Gauge(Gauge {
            data_points: samples.iter().map(|one| point_of(one, time)).collect(),
        }),
        MetricValues::Counter(samples) => metric::Data::Sum(Sum {
            data_points: samples.iter().map(|one| point_of(one, time)).collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        MetricValues::Histogram(histogram) => metric::Data::Histogram(Histogram {
            data_points: vec![HistogramDataPoint {
                start_time_unix_nano: time.start_unix_ns,
                time_unix_nano: time.now_unix_ns,
                count: histogram.count(),
                sum: Some(histogram.sum),
                bucket_counts: histogram.cells.clone(),
                explicit_bounds: histogram.bounds.clone(),
                ..HistogramDataPoint::default()
            }],
            aggregation_temporality: cumulative,
        }),
    };
    Metric {
        name: family.otlp_name(),
        description: family.help.to_string(),
        unit: family.unit.ucum(),
        data: Some(data),
        ..Metric::default()
    }
}

fn point_of(sample: &MetricSample, time: ReadingTime) -> NumberDataPoint {
    let label = |(key, value): &(&'static str, String)| {
        key_value(key, &AttributeValue::Text(value.clone()))
    };
    NumberDataPoint {
        attributes: sample.labels.iter().map(label).collect(),
        start_time_unix_nano: time.start_unix_ns,
        time_unix_nano: time.now_unix_ns,
        value: Some(number_data_point::Value::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    }
}

fn span_of(span: &Span) -> trace::Span {
    let attribute = |(key, value): &(&'static str, AttributeValue)| key_value(key, value);
    trace::Span {
        trace_id: span.trace_id.to_be_bytes().to_vec(),
        span_id: span.span_id.to_be_bytes().to_vec(),
        name: span.name.clone(),
        kind: trace::span::SpanKind::Client as i32,
        start_time_unix_nano: span.start_unix_ns,
        end_time_unix_nano: span.end_unix_ns,
        attributes: span.attributes.iter().map(attribute).collect(),
        links: vec![trace::span::Link {
            trace_id: span.link.trace_id.to_be_bytes().to_vec(),
            span_id: span.link.span_id.to_be_bytes().to_vec(),
            flags: u32::from(span.link.flags),
            ..trace::span::Link::default()
        }],
        status: span.error.as_ref().map(|message| Status {
            message: message.clone(),
            code: trace::status::StatusCode::Error as i32,
        }),
        ..trace::Span::default()
    }
}
