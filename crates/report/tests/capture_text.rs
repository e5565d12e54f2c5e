//! A capture's reconciliation as a reader sees it.

use report::{CaptureView, TextStyle, capture_text, to_json};
use serde_json::json;

fn view() -> CaptureView {
    let counted = json!({
        "lines": 100_000,
        "lines_in_events": 98_000,
        "events": 12_385,
        "skipped": {
            "not_a_statement": {"lines": 90},
            "checkpoint": {"lines": 1_900, "messages": 950},
        },
        "unreadable": {
            "lines": 10,
            "first": [{"file": "postgresql.log", "line": 17, "reason": "no timestamp: \u{1b}[31m???"}],
        },
    });
    CaptureView {
        workload: "shop.workload".to_owned(),
        span_us: 120_000_000,
        sessions: 20,
        statements: 12_345,
        ..CaptureView::from_reconciliation(&counted).unwrap()
    }
}

#[test]
fn every_line_is_somewhere() {
    let text = capture_text::render_text(&view(), &TextStyle::default());
    assert_eq!(text, CAPTURE);
    let mut lost = view();
    lost.lines += 1;
    let text = capture_text::render_text(&lost, &TextStyle::default());
    assert!(text.contains("do not add up"), "{text}");
}

#[test]
fn machines_are_told_the_same() {
    let json: serde_json::Value = serde_json::from_str(&to_json(&view())).unwrap();
    assert_eq!(json["schema"], "rehearse/capture/1");
    assert_eq!(json["skipped"]["checkpoint"]["lines"], 1_900);
}

#[test]
fn what_is_no_reconciliation_is_refused() {
    assert!(CaptureView::from_reconciliation(&json!({"lines": 1})).is_err());
    assert!(CaptureView::from_reconciliation(&json!(null)).is_err());
}

const CAPTURE: &str = r#"shop.workload: 12,345 statements of 20 sessions over 2 min 00 s
  lines read     100,000
  became events   98,000  12,385 events
  skipped          1,990
                   1,900  checkpoint
                      90  not a statement
  unreadable          10
    postgresql.log:17: no timestamp: ·[31m???
    and 9 more
"#;
