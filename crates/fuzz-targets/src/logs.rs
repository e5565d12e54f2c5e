//! Readers of server logs. Every line is accounted for, and every event is counted.

use capture_log::{LogFormat, capture_bytes, parse_parameters};
use capture_sink::{EventCollector, EventCounter};
use workload::{PackedParameters, ParameterRef};

/// Good lines in each wrapper. With them the format is recognised, whatever follows.
const WRAPPED: [(LogFormat, &str); 6] = [
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

/// Checks bytes after a good line of the stderr format.
pub fn stderr(data: &[u8]) {
    let good = b"2026-03-01 09:30:05.123 UTC [7] bob@shop LOG:  statement: select 1\n";
    check_account(
        [good, data].concat(),
        LogFormat::Stderr,
        Some("%m [%p] %q%u@%d "),
    );
}

/// Checks bytes after a good line of the csv format.
pub fn csv(data: &[u8]) {
    let good = b"2026-03-01 09:30:05.123 UTC,\"u\",\"d\",7,,68b1a2c3.7,3,,,,0,LOG,00000,\"statement: select 1\",,,,,,,,,\"a\"\n";
    check_account([good, data].concat(), LogFormat::Csv, None);
}

/// Checks bytes after a good line of the JSON format.
pub fn json(data: &[u8]) {
    let good = b"{\"timestamp\":\"2026-03-01 09:30:05.123 UTC\",\"pid\":7,\"error_severity\":\"LOG\",\"message\":\"statement: select 1\"}\n";
    check_account([good, data].concat(), LogFormat::Json, None);
}

/// Checks bytes after a good line of syslog. If the first byte is odd, each line gets a whole header, so that parts are
/// put together and not only refused.
pub fn syslog(data: &[u8]) {
    let Some((first, data)) = data.split_first() else {
        return;
    };
    let mut bytes =
        b"Mar  1 09:30:05 db1 postgres[7]: [1-1] bob@shop LOG:  statement: select 1\n".to_vec();
    for (index, line) in data.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if first % 2 == 1 {
            let pid = 7 + index % 3;
            bytes.extend_from_slice(format!("Mar  1 09:30:06 db1 postgres[{pid}]: ").as_bytes());
        }
        bytes.extend_from_slice(line);
    }
    let prefix = (first % 4 < 2).then_some("%u@%d ");
    check_account(bytes, LogFormat::Syslog, prefix);
}

/// Checks bytes after good lines in the wrapper that the first byte chooses.
pub fn wrapped(data: &[u8]) {
    let Some((first, data)) = data.split_first() else {
        return;
    };
    let (format, good) = WRAPPED[usize::from(*first) % WRAPPED.len()];
    check_account([good.as_bytes(), data].concat(), format, None);
}

fn check_account(bytes: Vec<u8>, format: LogFormat, prefix: Option<&str>) {
    let lines = count_lines(&bytes);
    let mut collected = EventCollector::default();
    let Ok(report) = capture_bytes(bytes, Some(format), prefix, &mut collected) else {
        // A log in another language is refused, and a wrapper with more lines outside of its records than inside.
        return;
    };
    let account = &report.reconciliation;
    assert!(account.adds_up(), "{account:?}");
    assert_eq!(account.events, collected.events.len() as u64);
    assert_eq!(account.lines, lines);
}

/// Checks a prefix (the first line) with a log after it, as given and as inferred.
pub fn prefix(data: &[u8]) {
    let data = crate::text(data);
    let (prefix, log) = data.split_once('\n').unwrap_or((data, ""));
    for prefix in [Some(prefix), None] {
        let mut counter = EventCounter::default();
        if let Ok(report) = capture_bytes(String::from(log), None, prefix, &mut counter) {
            assert!(report.reconciliation.adds_up());
            assert_eq!(report.reconciliation.lines, count_lines(log.as_bytes()));
        }
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.split_inclusive(|byte| *byte == b'\n').count() as u64
}

/// Checks a list of parameters. Parameters that are read encode to the same text.
pub fn parameters(data: &[u8]) {
    let list = crate::text(data);
    let mut values = PackedParameters::default();
    if parse_parameters(list, &mut values).is_err() {
        return;
    }
    let encode = |(index, value): (usize, Option<ParameterRef<'_>>)| match value {
        None => format!("${} = NULL", index + 1),
        Some(value) => {
            let text = value.text().expect("a log's values are text");
            format!("${} = '{}'", index + 1, text.replace('\'', "''"))
        }
    };
    let encoded: Vec<String> = values.iter().enumerate().map(encode).collect();
    assert_eq!(encoded.join(", "), list);
}
