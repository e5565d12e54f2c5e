//! Any bytes behind one good line: no panic, and every line is accounted for.

#![no_main]

use capture_sink::EventCollector;
use capture_log::{LogFormat, capture_bytes};
use libfuzzer_sys::fuzz_target;

/// With it the format is recognised, whatever follows.
const GOOD: &[u8] = b"{\"timestamp\":\"2026-03-01 09:30:05.123 UTC\",\"pid\":7,\"error_severity\":\"LOG\",\"message\":\"statement: select 1\"}\n";

fuzz_target!(|data: &[u8]| {
    let mut collected = EventCollector::default();
    let bytes = [GOOD, data].concat();
    let Ok(report) = capture_bytes(bytes, Some(LogFormat::Json), None, &mut collected) else {
        // A log in another language is refused.
        return;
    };
    let account = &report.reconciliation;
    assert!(account.adds_up());
    assert_eq!(account.events, collected.events.len() as u64);
    let lines = data.split_inclusive(|byte| *byte == b'\n').count();
    assert_eq!(account.lines, 1 + lines as u64);
});
