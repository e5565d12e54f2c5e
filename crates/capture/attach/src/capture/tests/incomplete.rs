//! Sessions that are seen incompletely, in another order, or not at all, and probers that stop.

use super::*;

/// Adds a session whose first bytes were not seen, although it began after the attach.
fn with_lost_beginning(lose: impl Fn(&mut Script)) -> Captured {
    let mut script = Script::new();
    lose(&mut script);
    script.ask("SELECT 1").ask("SELECT 2");
    script.totals(RecordKind::Closed);
    let captured = capture(&script);
    assert_eq!(captured.status.counters.lost_beginnings, 1);
    assert_eq!(captured.status.counters.existing, 0);
    let unreadable = &captured.recording().account.conversation.unreadable;
    assert!(unreadable.is_empty(), "{unreadable:?}");
    assert!(!captured.sessions[0].start_seen && captured.sessions[0].end_seen);
    captured
}

#[test]
fn session_whose_beginning_was_lost_is_captured_from_a_later_request_and_counted() {
    // The server's answer is first.
    let captured = with_lost_beginning(|script| {
        script.server(READY);
    });
    assert_eq!(captured.statements, ["SELECT 1", "SELECT 2"]);
    // A request is first: the server was perhaps in the middle of something.
    let captured = with_lost_beginning(|_| ());
    assert_eq!(captured.statements, ["SELECT 2"]);
    // The loss is known.
    let captured = with_lost_beginning(|script| {
        script.lose(0, 30).lose(1, 20);
    });
    assert_eq!(captured.statements, ["SELECT 2"]);
}

#[test]
fn client_of_another_protocol_is_no_lost_beginning() {
    let mut script = Script::new();
    script.client(b"GET / HTTP/1.1\r\n\r\n");
    script.totals(RecordKind::Closed);
    let captured = capture(&script);
    assert_eq!(captured.status.counters.lost_beginnings, 0);
    let unreadable = &captured.recording().account.conversation.unreadable;
    assert_eq!(unreadable.values().sum::<u64>(), 1);
}

#[test]
fn session_that_is_seen_completely_is_new_although_its_process_existed() {
    let mut script = Script::new();
    script.existing = true;
    script.log_in().ask("SELECT 1");
    let captured = capture(&script);
    assert!(captured.sessions[0].start_seen);
    assert_eq!(captured.status.counters.existing, 0);
}

#[test]
fn session_all_of_whose_bytes_were_lost_is_in_the_account() {
    for kind in [RecordKind::Position, RecordKind::Closed] {
        let mut script = Script::new();
        script.lose(0, 40).lose(1, 50).totals(kind);
        let captured = capture(&script);
        let account = &captured.recording().account;
        assert_eq!(account.lost_bytes, 90);
        assert_eq!(account.conversation.connections, 1);
        assert_eq!(captured.status.counters.lost_beginnings, 1);
        let gaps = account.session_gaps.listed();
        assert_eq!(gaps.iter().map(|gap| gap.range.bytes).sum::<u64>(), 90);
    }
}

#[test]
fn late_end_of_an_earlier_process_does_not_end_the_session_of_its_successor() {
    let mut script = Script::new();
    script.log_in().ask("SELECT 1");
    script.next_process().log_in();
    script.started -= 1;
    script.totals(RecordKind::Closed);
    script.started += 1;
    script.ask("SELECT 2");
    let captured = capture(&script);
    assert_eq!(captured.statements, ["SELECT 1", "SELECT 2"]);
    assert!(captured.sessions.iter().all(|session| session.start_seen));
    assert_eq!(captured.sessions.len(), 2);
}

#[test]
fn session_that_outlives_the_postmaster_is_captured_to_its_end() {
    let mut script = Script::new();
    script.log_in().client(&query("SELECT 1"));
    script.add(RecordKind::Detached, 0, &[]);
    script.server(ANSWER).ask("SELECT 2");
    let captured = capture(&script);
    assert_eq!(captured.statements, ["SELECT 1", "SELECT 2"]);
    assert_eq!(captured.sessions.len(), 1);
}

#[test]
fn session_of_this_program_is_left_out_and_counted() {
    let mut script = Script::new();
    let fields = b"\0\x03\0\0user\0ann\0application_name\0rehearse 7\0\0";
    let length = (4 + fields.len() as u32).to_be_bytes();
    script.client(&[&length[..], fields].concat());
    script.server(READY).ask("SELECT 1").client(TERMINATE);
    script.totals(RecordKind::Closed);
    script.next_process().log_in().ask("SELECT 2");
    for (own, expected) in [
        ("rehearse 7", &["SELECT 2"][..]),
        ("rehearse", &["SELECT 1", "SELECT 2"]),
    ] {
        let options = AttachOptions {
            own_application: own.to_owned(),
            ..AttachOptions::default()
        };
        let captured = capture_with(&script, options, UNTIL_INPUT_ENDS);
        assert_eq!(captured.statements, expected);
        let counted = captured.status.counters.left_out_own;
        assert_eq!(counted, u64::from(expected.len() == 1));
        let is_passed = captured.recording().account.passed_bytes > 0;
        assert_eq!(is_passed, counted > 0);
    }
}

#[test]
fn traffic_before_the_recording_is_read_from_the_pipe_and_kept() {
    let mut script = Script::new();
    script.log_in();
    // More than a pipe and one read have.
    let sql = format!("SELECT '{}'", "x".repeat(10_000));
    for _ in 0..100 {
        script.ask(&sql);
    }
    let (prober, _file) = prober(&script.bytes, "true");
    let prober = prober.wait_until_attached(|| false).unwrap();
    let store = Store::default();
    let open = {
        let store = store.clone();
        Box::new(move |_, _: &[CapturedServer]| Ok(Box::new(store.clone()) as Box<dyn Recording>))
    };
    let options = AttachOptions {
        buffer_bytes: 4 << 20,
        ..AttachOptions::default()
    };
    let mut attach = Attach::start(prober, options, open).unwrap();
    // It writes all of it, and ends, before anything is handled.
    assert!(attach.prober.wait().unwrap().success());
    attach.control().start_recording().unwrap();
    attach.begin_reading(SessionIdentities::default());
    let _ = attach.end();
    assert_eq!(store.0.lock().unwrap().sessions.len(), 1);
    let statements = store.0.lock().unwrap().events.len();
    assert_eq!(statements, 101);
}

#[test]
fn prober_that_stops_within_a_record_does_not_hold_up_the_end() {
    let mut script = Script::new();
    script.log_in().ask("SELECT 1");
    script.bytes.truncate(script.bytes.len() - 5);
    // It keeps the pipe open for longer than the end may take.
    let captured = capture_until_end(&script, "exec sleep 60");
    assert_eq!(captured.status.capture.finished.len(), 1);
    let reason = captured.status.prober_failure.unwrap();
    assert!(reason.contains("wrote nothing for"), "{reason}");
}

#[test]
fn prober_that_is_killed_at_the_end_is_reported_although_its_records_are_whole() {
    let mut script = Script::new();
    script.log_in().ask("SELECT 1");
    for (end, expected) in [
        ("cat > /dev/null; kill -9 $$", Some("signal: 9")),
        ("cat > /dev/null; exit 0", Some("exit status: 0")),
        (UNTIL_INPUT_ENDS, None),
    ] {
        let captured = capture_until_end(&script, end);
        assert_eq!(captured.statements, ["SELECT 1"]);
        let reason = captured.status.prober_failure;
        match expected {
            Some(expected) => assert!(reason.unwrap().contains(expected), "{end}"),
            None => assert_eq!(reason, None),
        }
    }
}

#[test]
fn gap_lasts_until_the_losses_were_counted() {
    let mut script = Script::new();
    script.log_in().ask("SELECT 1").count(0);
    script.lost += 10;
    // The pipe was full in between.
    script.count(5_000_000_000);
    let captured = capture(&script);
    let incomplete = &captured.recording().account.incomplete;
    let ranges: Vec<_> = incomplete.iter().collect();
    assert_eq!(ranges.len(), 1);
    let lasted_us = ranges[0].to_us - ranges[0].from_us;
    assert!((5_000_000..6_000_000).contains(&lasted_us), "{lasted_us}");
}

#[test]
fn bytes_before_the_first_answer_are_recorded_at_the_end_of_the_capture() {
    for first in [&b"\0\0\0\x08\x04\xd2\x16\x2f"[..], STARTUP] {
        let mut script = Script::new();
        script.client(first);
        let captured = capture(&script);
        let account = &captured.recording().account;
        assert_eq!(account.conversation.connections, 1);
        assert!(account.conversation.unreadable.is_empty());
        assert_eq!(account.read_bytes, first.len() as u64);
    }
}

#[test]
fn recording_that_is_started_within_a_read_has_all_after_the_mark() {
    let mut script = Script::new();
    script.log_in();
    let before = std::mem::take(&mut script.bytes);
    script.time_ns += 20_000_000_000;
    script.count(0).ask("SELECT 1").count(0);
    script.add(RecordKind::Ended, 0, &[]);
    let rest = tempfile::NamedTempFile::new().unwrap();
    let end = format!(
        "while ! [ -s '{0}' ]; do sleep 0.02; done; sleep 0.1; cat '{0}'; cat > /dev/null",
        rest.path().display()
    );
    let (prober, _file) = prober(&before, &end);
    let prober = prober.wait_until_attached(|| false).unwrap();
    let store = Store::default();
    let open = {
        let store = store.clone();
        Box::new(move |_, _: &[CapturedServer]| Ok(Box::new(store.clone()) as Box<dyn Recording>))
    };
    let options = AttachOptions {
        buffer_bytes: 1 << 20,
        ..AttachOptions::default()
    };
    let attach = Attach::start(prober, options, open).unwrap();
    attach.begin_reading(SessionIdentities::default());
    let control = attach.control();
    let starting = std::thread::spawn(move || control.start_recording());
    // The request for the mark is to precede the next records.
    std::thread::sleep(Duration::from_millis(500));
    std::fs::write(rest.path(), &script.bytes).unwrap();
    starting.join().unwrap().unwrap();
    let (status, _) = attach.end();
    assert_eq!(status.prober_failure, None);
    let collected = store.0.lock().unwrap();
    let mut statements = collected.events.iter().filter_map(|event| event.kind.sql());
    assert_eq!(statements.next().unwrap().to_string(), "SELECT 1");
}
