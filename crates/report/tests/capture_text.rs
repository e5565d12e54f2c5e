//! Account of a capture as text and JSON.

use capture_log::{
    Location, LogQuality, LogReport, Reconciliation, SeriesReport, SkipReason, Skipped, Unreadable,
    UnreadableLine, UnreadableReason,
};
use report::{CaptureReport, TextStyle, capture_text, to_json};

fn captured() -> CaptureReport<LogReport> {
    let skipped = |reason: SkipReason, lines: u64| {
        let first = Location::default();
        (reason, Skipped { lines, first })
    };
    let unreadable = UnreadableLine {
        file: "postgresql\u{1b}[31m.log".to_owned(),
        at: Location {
            source: 0,
            line: 17,
        },
        lines: 1,
        reason: UnreadableReason::Columns,
    };
    let reconciliation = Reconciliation {
        lines: 100_000,
        lines_in_events: 98_000,
        events: 12_385,
        skipped: [
            skipped(SkipReason::Blank, 90),
            skipped(SkipReason::Checkpoint, 1_900),
        ]
        .into(),
        unreadable: Unreadable {
            lines: 10,
            first: vec![unreadable],
            ..Unreadable::default()
        },
        ..Reconciliation::default()
    };
    CaptureReport {
        schema: "rehearse/capture/1",
        workload: Some("shop.workload".to_owned()),
        span_us: 120_000_000,
        sessions: 20,
        statements: 12_345,
        report: LogReport {
            sources: Vec::new(),
            fitness: LogQuality::judge(&reconciliation),
            reconciliation,
            sessions: 20,
            series: SeriesReport::default(),
            left_out: Vec::new(),
        },
        slice: None,
        mask: None,
        written_series: None,
    }
}

#[test]
fn every_line_is_accounted_for() {
    let text = capture_text::render_text(&captured(), &TextStyle::default());
    assert_eq!(text, CAPTURE);
    let mut lost = captured();
    lost.report.reconciliation.lines += 1;
    let text = capture_text::render_text(&lost, &TextStyle::default());
    assert!(text.contains("do not add up"), "{text}");
}

#[test]
fn json_has_the_same_content() {
    let json: serde_json::Value = serde_json::from_str(&to_json(&captured())).unwrap();
    assert_eq!(json["schema"], "rehearse/capture/1");
    assert_eq!(json["skipped"]["checkpoint"]["lines"], 1_900);
    assert_eq!(json["unreadable"]["first"][0]["reason"], "columns");
}

const CAPTURE: &str = r#"shop.workload: 12,345 statements of 20 sessions over 2 min 00 s
  lines read     100,000
  became events   98,000  12,385 events
  skipped          1,990
                   1,900  checkpoints
                      90  empty lines
  unreadable          10
    postgresql·[31m.log:17: it has another number of columns than any csvlog
    and 9 more
"#;
