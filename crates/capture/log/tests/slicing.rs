//! A log is sliced as it is read.

use capture_log::{LogFormat, capture_bytes};
use capture_sink::{EventCollector, SliceSink};
use transform::{Slice, Slicer, TimeBound};

const LOG: &str = "\
2026-03-01 09:00:00.000 UTC [7] LOG:  connection authorized: user=app database=shop
2026-03-01 09:00:01.000 UTC [7] LOG:  statement: SET search_path = a
2026-03-01 09:00:02.000 UTC [8] LOG:  connection authorized: user=idle database=shop
2026-03-01 09:00:03.000 UTC [7] LOG:  statement: SELECT 1
2026-03-01 09:00:03.500 UTC [7] LOG:  disconnection: session time: 0:00:03.500 user=app database=shop host=[local]
2026-03-01 09:00:04.000 UTC [8] LOG:  statement: SELECT 2
";

#[test]
fn a_log_is_sliced_as_it_is_read() {
    let slice = Slice {
        from: Some(TimeBound::parse("+2s").unwrap()),
        to: Some(TimeBound::parse("2026-03-01 09:00:04").unwrap()),
        ..Slice::default()
    };
    let mut sink = SliceSink::new(EventCollector::default(), Some(Slicer::new(slice, None)));
    let report = capture_bytes(LOG, Some(LogFormat::Stderr), Some("%m [%p] "), &mut sink).unwrap();
    assert!(report.reconciliation.adds_up());
    assert_eq!(report.reconciliation.events, 6);
    let (collected, account) = sink.finish().unwrap();
    let account = account.unwrap();
    assert!(account.adds_up());
    assert_eq!((account.events, account.kept, account.prelude), (6, 3, 2));
    let texts: Vec<String> = collected
        .events
        .iter()
        .map(|event| {
            format!(
                "{} {}",
                event.kind.name(),
                event.kind.sql().map_or("", |sql| sql)
            )
        })
        .collect();
    assert_eq!(
        texts,
        [
            "connect ",
            "connect ",
            "simple SET search_path = a",
            "simple SELECT 1",
            "disconnect "
        ]
    );
    assert_eq!(collected.sessions.len(), 2);
    assert!(collected.sessions[0].end_seen);
}
