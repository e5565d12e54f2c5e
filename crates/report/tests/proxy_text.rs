//! Account of a capture by the proxy as text.

use capture_proxy::{
    CaptureStatus, FinishedRecording, IncompleteRange, ProxyStatus, RecordingAccount,
    RecordingState,
};
use report::{TextStyle, proxy_text, to_json};

const NINE_US: i64 = 1_772_355_600_000_000;

fn status() -> ProxyStatus {
    let mut account = RecordingAccount {
        from_us: NINE_US,
        to_us: NINE_US + 60_000_000,
        forwarded_bytes: 10_000_000,
        read_bytes: 8_999_000,
        lost_bytes: 1_000_000,
        passed_bytes: 1_000,
        incomplete: vec![IncompleteRange {
            from_us: NINE_US + 5_000_000,
            to_us: NINE_US + 9_000_000,
            bytes: 1_000_000,
        }],
        ..RecordingAccount::default()
    };
    account.conversation.connections = 3;
    account.conversation.sessions = 2;
    account.conversation.events = 1_240;
    account.conversation.statements = 1_234;
    account.conversation.statements_unknown = 17;
    let failed = RecordingAccount {
        incomplete: Vec::new(),
        lost_bytes: 0,
        forwarded_bytes: 9_000_000,
        failure: Some("No space left on device".to_owned()),
        ..account.clone()
    };
    let finished = |name: &str, state, account| FinishedRecording {
        name: name.to_owned(),
        state,
        sessions: 2,
        statements: 1_234,
        events: 1_240,
        account,
        provenance: Default::default(),
    };
    ProxyStatus {
        upstream: "db:5432".to_owned(),
        connections: 0,
        accepted: 5,
        refused: 1,
        client_bytes: 2_000_000,
        server_bytes: 9_000_000,
        lost_bytes: 1_000_000,
        capture: CaptureStatus {
            series: None,
            recording: None,
            finished: vec![
                finished("shop.workload", RecordingState::Complete, account),
                finished("shop-2.workload", RecordingState::Partial, failed),
            ],
            broken_down: None,
        },
    }
}

#[test]
fn every_byte_is_accounted_for() {
    let mut wrong = status();
    let text = proxy_text::render_text(&wrong, &TextStyle::default());
    assert_eq!(text, PROXY);
    let mut kept = status();
    kept.capture.finished[1].mark_recovered(&workload::WorkloadInfo {
        statements: 1_000,
        ..Default::default()
    });
    let kept = proxy_text::render_text(&kept, &TextStyle::default());
    // Ignore line breaks.
    let kept: Vec<&str> = kept.split_whitespace().collect();
    let kept = kept.join(" ");
    assert!(kept.contains("shop-2.workload: 1,000 statements"), "{kept}");
    assert!(kept.contains("what was written by then is there"), "{kept}");
    let mut gone = status();
    gone.capture.finished[1].mark_gone();
    let gone = proxy_text::render_text(&gone, &TextStyle::default());
    let gone: Vec<&str> = gone.split_whitespace().collect();
    let gone = gone.join(" ");
    assert!(
        gone.contains("shop-2.workload: 0 statements of 0 sessions"),
        "{gone}"
    );
    let nothing =
        "nothing of it is left: shop-2.workload.partial was taken away while it was written";
    assert!(
        gone.contains(nothing) && !gone.contains("rehearse recover"),
        "{gone}"
    );
    wrong.capture.finished[0].account.read_bytes += 1;
    let text = proxy_text::render_text(&wrong, &TextStyle::default());
    assert!(text.contains("do not add up"), "{text}");
}

#[test]
fn json_has_the_same_content() {
    let json: serde_json::Value = serde_json::from_str(&to_json(&status())).unwrap();
    assert_eq!(json["accepted"], 5);
    assert_eq!(json["recordings"][0]["incomplete"][0]["bytes"], 1_000_000);
    assert_eq!(json["recordings"][1]["workload"], "shop-2.workload");
    assert_eq!(json["recordings"][1]["state"], "partial");
    assert!(json["recording"].is_null());
}

const PROXY: &str = r#"5 connections to db:5432, 1 of them refused, since it could not be reached; 1.91 MiB of clients and 8.58 MiB of the server passed
shop.workload: 1,234 statements of 2 sessions over 1 min 00 s
  passed       9.54 MiB  10,000,000 bytes
  read         8.58 MiB  1,240 events of 3 new connections
  lost          977 KiB  recording could not keep up; what passed was not touched
  passed over    1000 B  of replication connections, which are not read
  incomplete from 2026-03-01 09:00:05 UTC to 2026-03-01 09:00:09 UTC: 1,000,000 bytes
  17 statements without a text: it was prepared by SQL, in what was lost, or before the capture
    began
shop-2.workload: 1,234 statements of 2 sessions over 1 min 00 s
  passed       8.58 MiB  9,000,000 bytes
  read         8.58 MiB  1,240 events of 3 new connections
  lost              0 B
  passed over    1000 B  of replication connections, which are not read
  17 statements without a text: it was prepared by SQL, in what was lost, or before the capture
    began
  it ended early, at 2026-03-01 09:01:00 UTC: No space left on device; keep the recorded part with:
    rehearse recover shop-2.workload.partial
"#;
