//! Any bytes behind good lines, in the wrapper that the first byte chooses: no panic, and every line
//! is accounted for.

#![no_main]

use capture_sink::EventCollector;
use capture_log::{LogFormat, capture_bytes};
use libfuzzer_sys::fuzz_target;

/// With these the formats are recognised, whatever follows.
const GOOD: [(LogFormat, &str); 6] = [
    (
        LogFormat::CloudWatch,
        "2026-03-01T09:30:05.123Z 2026-03-01 09:30:05.123 UTC [7] LOG:  statement: select 1\n",
    ),
    (
        LogFormat::CloudWatch,
        "{\n  \"events\": [\n    {\n      \"timestamp\": 1, \"message\": \"2026-03-01 09:30:05.123 UTC [7] LOG:  statement: select 1\"\n    },\n",
    ),
    (
        LogFormat::CloudSql,
        "{\"logName\":\"x/postgres.log\",\"textPayload\":\"2026-03-01 09:30:05.123 UTC [7]: [1-1] db=a,user=b LOG:  statement: select 1\"}\n",
    ),
    (
        LogFormat::CloudSql,
        "[\n  {\n    \"logName\": \"x/postgres.log\",\n    \"textPayload\": \"2026-03-01 09:30:05.123 UTC [7]: [1-1] db=a,user=b LOG:  statement: select 1\"\n  },\n",
    ),
    (
        LogFormat::Azure,
        "{\"category\":\"PostgreSQLLogs\",\"properties\":{\"processId\":7,\"message\":\"2026-03-01 09:30:05 UTC-65f00000.7-LOG:  statement: select 1\"}}\n",
    ),
    (
        LogFormat::Cnpg,
        "{\"logger\":\"postgres\",\"record\":{\"log_time\":\"2026-03-01 09:30:05.123 UTC\",\"process_id\":\"7\",\"error_severity\":\"LOG\",\"message\":\"statement: select 1\"}}\n",
    ),
];

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else {
        return;
    };
    let (format, good) = GOOD[usize::from(*first) % GOOD.len()];
    let bytes = [good.as_bytes(), data].concat();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
    let mut collected = EventCollector::default();
    let Ok(report) = capture_bytes(bytes, Some(format), None, &mut collected) else {
        // More that is no record than is one, or a log in another language, is refused.
        return;
    };
    let account = &report.reconciliation;
    assert!(account.adds_up());
    assert_eq!(account.events, collected.events.len() as u64);
    assert_eq!(account.lines, lines as u64);
});
