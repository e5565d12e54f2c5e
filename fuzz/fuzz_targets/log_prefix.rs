//! Any prefix (the first line) with any log behind it, given and guessed: no panic, and every line
//! is accounted for.

#![no_main]

use capture_sink::Counted;
use capture_log::capture_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| {
    let (prefix, log) = data.split_once('\n').unwrap_or((data, ""));
    for prefix in [Some(prefix), None] {
        let mut counted = Counted::default();
        if let Ok(report) = capture_bytes(log.to_owned(), None, prefix, &mut counted) {
            assert!(report.reconciliation.adds_up());
            assert_eq!(
                report.reconciliation.lines,
                log.split_inclusive('\n').count() as u64
            );
        }
    }
});
