//! Spans: operations with a beginning and an end, which belong to a trace.

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// Whole number.
    Int(i64),
    /// Number.
    Float(f64),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        AttributeValue::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        AttributeValue::Text(text)
    }
}

/// Reference to a span of another trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanLink {
    /// Id of the other trace; never zero.
    pub trace_id: u128,
    /// Id of the other span; never zero.
    pub span_id: u64,
    /// Flags of the other trace (W3C Trace Context).
    pub flags: u8,
}

/// Operation on a database, as a client sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Id of its trace; never zero.
    pub trace_id: u128,
    /// Its id; never zero.
    pub span_id: u64,
    /// Span that caused it in another trace.
    pub link: SpanLink,
    /// Name, with few different values.
    pub name: String,
    /// Beginning, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// End, in nanoseconds since 1970-01-01 UTC.
    pub end_unix_ns: u64,
    /// Names and values of the attributes.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Reason of the failure, if it failed.
    pub error: Option<String>,
}

/// Whether a trace is among the sampled ones. All spans of a trace get the same answer, here and in any program that
/// samples after OpenTelemetry's `TraceIdRatioBased`: by the last 56 bits of the trace id, which are random.
///
/// Source: <https://www.w3.org/TR/trace-context-2/#random-trace-id-flag>.
pub fn is_sampled(trace_id: u128, ratio: f64) -> bool {
    const RANDOM_BITS: u32 = 56;
    let random = trace_id as u64 & ((1 << RANDOM_BITS) - 1);
    // As a threshold on rejection: the largest values are sampled.
    let threshold = (1.0 - ratio.clamp(0.0, 1.0)) * (1_u64 << RANDOM_BITS) as f64;
    random as f64 >= threshold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_part_of_traces_is_the_ratio() {
        let ids =
            (0..10_000_u128).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
        let ids: Vec<u128> = ids.collect();
        let sampled = |ratio: f64| ids.iter().filter(|id| is_sampled(**id, ratio)).count();
        assert_eq!((sampled(0.0), sampled(1.0)), (0, 10_000));
        assert!((2_300..2_700).contains(&sampled(0.25)), "{}", sampled(0.25));
    }
}
