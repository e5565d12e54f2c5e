//! Account of a capture by probes as text.

use capture_attach::{AttachCounters, AttachStatus};
use report::{TextStyle, attach_text, to_document};

fn status() -> AttachStatus {
    AttachStatus {
        server: "server at port 5432".to_owned(),
        counters: AttachCounters {
            postmaster: None,
            attached: 2,
            existing: 12,
            left_out_existing: 1,
            left_out_replication: 2,
            left_out_own: 1,
            lost_beginnings: 3,
            untracked_calls: 40,
            bytes: [2_000_000, 9_000_000],
            ..AttachCounters::default()
        },
        probe_warning: Some("no traffic was seen for 10 s".to_owned()),
        prober_failure: Some("it ended early (signal: 9 (SIGKILL))".to_owned()),
        ..AttachStatus::default()
    }
}

#[test]
fn account_names_what_is_left_out_and_why_the_capture_ended() {
    let text = attach_text::render_text(&status(), &TextStyle::default());
    assert_eq!(text, EXPECTED);
    let document = to_document(&status());
    assert!(document.contains("\"schema\": \"rehearse/capture-attach/1\""));
}

const EXPECTED: &str = "\
server at port 5432, attached 2 times; 1.91 MiB of clients and 8.58 MiB of the server seen
  9 sessions existed before: captured from the second request on
  1 session existed before and left out (--wait-for-new-sessions)
  2 sessions existed before and left out: replication
  1 session of this command itself left out
  3 sessions of which the beginning was not seen: captured from a later request on
  40 calls of further sessions are not captured: more sessions than the probes can track
nothing was recorded
warning: no traffic was seen for 10 s
the prober ended, and with it the capture: it ended early (signal: 9 (SIGKILL))
";
