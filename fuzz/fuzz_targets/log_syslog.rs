//! Any bytes behind one good line: no panic, and every line is accounted for. Where the first byte
//! is odd, a newline becomes a whole header, so that parts are put together and not only refused.

#![no_main]

use capture_sink::EventCollector;
use capture_log::{LogFormat, capture_bytes};
use libfuzzer_sys::fuzz_target;

/// With it the format and the prefix are recognised, whatever follows.
const GOOD: &[u8] = b"Mar  1 09:30:05 db1 postgres[7]: [1-1] bob@shop LOG:  statement: select 1\n";

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else {
        return;
    };
    let mut bytes = GOOD.to_vec();
    for (index, line) in data.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if first % 2 == 1 {
            let pid = 7 + index % 3;
            bytes.extend_from_slice(format!("Mar  1 09:30:06 db1 postgres[{pid}]: ").as_bytes());
        }
        bytes.extend_from_slice(line);
    }
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
    let mut collected = EventCollector::default();
    let prefix = (first % 4 < 2).then_some("%u@%d ");
    let Ok(report) = capture_bytes(bytes, Some(LogFormat::Syslog), prefix, &mut collected) else {
        // A log in another language is refused.
        return;
    };
    let account = &report.reconciliation;
    assert!(account.adds_up());
    assert_eq!(account.events, collected.events.len() as u64);
    assert_eq!(account.lines, lines as u64);
});
