//! A prober that only writes records, and the recording that is made of them.

use std::sync::Mutex;

use capture_recorder::{FinishedRecording, Recording};
use capture_sink::{EventCollector, EventSink, SinkError};
use workload::{EventRef, Provenance, ServerEvent, Session, WorkloadInfo};

mod incomplete;

use super::*;
use crate::record::{Record, RecordKind};
use std::process::Command;

/// Time limit of a step, so that a test that hangs fails.
const PATIENCE: Duration = Duration::from_secs(60);

const STARTUP: &[u8] = b"\0\0\0\x1d\0\x03\0\0user\0ann\0database\0d\0\0";
const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
const ANSWER: &[u8] = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
const TERMINATE: &[u8] = b"X\0\0\0\x04";

/// Number of a process that does not exist, so that no title is read.
const PID: u32 = u32::MAX;

fn query(sql: &str) -> Vec<u8> {
    let mut message = vec![b'Q'];
    message.extend((sql.len() as u32 + 5).to_be_bytes());
    message.extend(sql.as_bytes());
    message.push(0);
    message
}

/// Records of a prober, with the positions that the kernel counts.
struct Script {
    bytes: Vec<u8>,
    time_ns: u64,
    started: u64,
    existing: bool,
    positions: [u64; 2],
    lost: u64,
}

impl Script {
    fn new() -> Self {
        let mut script = Script {
            bytes: Vec::new(),
            time_ns: clock::monotonic_ns() as u64,
            started: 1,
            existing: false,
            positions: [0; 2],
            lost: 0,
        };
        script.add(RecordKind::Attached, 0, &[]);
        script
    }

    fn last_record() -> Vec<u8> {
        let mut script = Script::new();
        script.bytes.clear();
        script.add(RecordKind::Ended, 0, &[]);
        script.bytes
    }

    fn add(&mut self, kind: RecordKind, offset: u64, data: &[u8]) -> &mut Self {
        self.time_ns += 1_000_000;
        let record = Record {
            kind,
            pid: PID,
            backend_started: self.started,
            time_ns: self.time_ns,
            offset,
            existing: self.existing,
            data,
        };
        record.encode(&mut self.bytes);
        self
    }

    /// Adds a cancel request of another process, which stays open.
    fn cancel(&mut self, process_id: u32, key: &[u8]) -> &mut Self {
        let mut request = ((12 + key.len()) as u32).to_be_bytes().to_vec();
        request.extend([0x04, 0xd2, 0x16, 0x2e]);
        request.extend(process_id.to_be_bytes());
        request.extend(key);
        self.time_ns += 1_000_000;
        let record = Record {
            kind: RecordKind::FromClient,
            pid: PID - 1,
            backend_started: self.started,
            time_ns: self.time_ns,
            offset: 0,
            existing: false,
            data: &request,
        };
        record.encode(&mut self.bytes);
        self
    }

    fn client(&mut self, bytes: &[u8]) -> &mut Self {
        let offset = self.positions[0];
        self.positions[0] += bytes.len() as u64;
        self.add(RecordKind::FromClient, offset, bytes)
    }

    fn server(&mut self, bytes: &[u8]) -> &mut Self {
        let offset = self.positions[1];
        self.positions[1] += bytes.len() as u64;
        self.add(RecordKind::ToClient, offset, bytes)
    }

    fn lose(&mut self, side: usize, bytes: u64) -> &mut Self {
        self.positions[side] += bytes;
        self.lost += bytes;
        self.count(0)
    }

    /// Adds the losses so far, counted some time after the next record.
    fn count(&mut self, delay_ns: u64) -> &mut Self {
        let lost = self.lost;
        let counted_ns = self.time_ns + 1_000_000 + delay_ns;
        let data = [3, counted_ns].map(u64::to_le_bytes).concat();
        self.add(RecordKind::Progress, lost, &data)
    }

    fn totals(&mut self, kind: RecordKind) -> &mut Self {
        let totals = self.positions.map(u64::to_le_bytes).concat();
        let offset = self.positions[0];
        self.add(kind, offset, &totals)
    }

    /// Begins another process.
    fn next_process(&mut self) -> &mut Self {
        self.started += 1;
        self.positions = [0; 2];
        self
    }

    fn log_in(&mut self) -> &mut Self {
        self.client(STARTUP).server(READY)
    }

    fn ask(&mut self, sql: &str) -> &mut Self {
        self.client(&query(sql)).server(ANSWER)
    }
}

#[derive(Clone, Default)]
struct Store(Arc<Mutex<EventCollector>>);

impl EventSink for Store {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        self.0.lock().unwrap().event(event)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        self.0.lock().unwrap().session(session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        self.0.lock().unwrap().server_event(event)
    }
}

impl Recording for Store {
    fn name(&self) -> String {
        "test.workload".to_owned()
    }

    fn checkpoint(&mut self, _: i64) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(self: Box<Self>, _: Provenance) -> Result<WorkloadInfo, SinkError> {
        Ok(WorkloadInfo::default())
    }
}

/// Result of a capture.
struct Captured {
    statements: Vec<String>,
    kinds: Vec<&'static str>,
    sessions: Vec<Session>,
    status: AttachStatus,
    events: Vec<AttachEvent>,
}

impl Captured {
    fn recording(&self) -> &FinishedRecording {
        assert_eq!(self.status.capture.finished.len(), 1);
        &self.status.capture.finished[0]
    }
}

/// Starts a prober that writes these bytes. It ends as `end` says, in the language of the shell.
fn prober(bytes: &[u8], end: &str) -> (ProberProcess, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let script = format!("cat '{}'; {end}", file.path().display());
    let prober = ProberProcess::start(Command::new("sh").args(["-c", &script])).unwrap();
    (prober, file)
}

const UNTIL_INPUT_ENDS: &str = "cat > /dev/null";

fn capture_with(script: &Script, options: AttachOptions, end: &str) -> Captured {
    capture_until(script, options, end, end != UNTIL_INPUT_ENDS)
}

fn capture_until_end(script: &Script, end: &str) -> Captured {
    capture_until(script, AttachOptions::default(), end, false)
}

fn capture_until(script: &Script, options: AttachOptions, end: &str, is_broken: bool) -> Captured {
    let store = Store::default();
    let open = {
        let store = store.clone();
        Box::new(move |_, _: &[CapturedServer]| Ok(Box::new(store.clone()) as Box<dyn Recording>))
    };
    let mut bytes = script.bytes.clone();
    if end == UNTIL_INPUT_ENDS {
        bytes.extend(Script::last_record());
    }
    let (prober, _file) = prober(&bytes, end);
    let options = AttachOptions {
        buffer_bytes: 1 << 20,
        ..options
    };
    let prober = prober.wait_until_attached(|| false).unwrap();
    let attach = Attach::start(prober, options, open).unwrap();
    attach.control().start_recording().unwrap();
    attach.begin_reading(SessionIdentities::default());
    if is_broken {
        let mut waited = Duration::ZERO;
        while !attach.is_broken() && waited < PATIENCE {
            std::thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
        assert!(attach.is_broken());
    }
    let (status, events) = attach.end();
    let collected = store.0.lock().unwrap();
    let statements = collected.events.iter();
    let captured = Captured {
        statements: statements
            .filter_map(|event| Some(event.kind.sql()?.to_string()))
            .collect(),
        kinds: collected
            .events
            .iter()
            .map(|event| event.kind.name())
            .collect(),
        sessions: collected.sessions.clone(),
        status,
        events,
    };
    assert!(captured.recording().account.adds_up());
    captured
}

fn capture(script: &Script) -> Captured {
    capture_with(script, AttachOptions::default(), UNTIL_INPUT_ENDS)
}

#[test]
fn sessions_with_and_without_encryption_are_captured_from_their_beginning() {
    let mut script = Script::new();
    script.log_in().ask("SELECT 1").client(TERMINATE);
    script.totals(RecordKind::Closed);
    // The reply to SSLRequest is in a record from version 17 on.
    for reply in [&b"S"[..], b"G", b""] {
        script.next_process().client(b"\0\0\0\x08\x04\xd2\x16\x2f");
        if !reply.is_empty() {
            script.server(reply);
        }
        script.log_in().ask("SELECT 2").totals(RecordKind::Closed);
    }
    script.next_process().client(b"\x16\x03\x01\x02\0 hello");
    script.log_in().ask("SELECT 3").totals(RecordKind::Closed);
    let captured = capture(&script);
    let expected = ["SELECT 1", "SELECT 2", "SELECT 2", "SELECT 2", "SELECT 3"];
    assert_eq!(captured.statements, expected);
    let logins = captured.sessions.iter();
    assert!(logins.clone().all(|session| session.start_seen
        && session.end_seen
        && *session.user == *"ann"
        && *session.database == *"d"));
    let unreadable = &captured.recording().account.conversation.unreadable;
    assert_eq!(unreadable.len(), 0, "{unreadable:?}");
    assert_eq!(captured.status.prober_failure, None);
    assert_eq!(captured.status.counters.attached, 1);
}

#[test]
fn cancel_request_is_before_the_answer_of_its_statement() {
    let mut script = Script::new();
    script.client(STARTUP);
    script.server(b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x07\0\0\0\x09Z\0\0\0\x05I");
    script.client(&query("SELECT 1")).cancel(7, &[0, 0, 0, 9]);
    script.server(ANSWER).ask("SELECT 2");
    let captured = capture(&script);
    assert_eq!(captured.kinds, ["connect", "simple", "cancel", "simple"]);
    assert_eq!(
        captured.recording().account.conversation.cancels_for_nobody,
        0
    );
}

#[test]
fn session_that_existed_is_captured_from_its_second_request_with_its_identity() {
    let mut script = Script::new();
    script.existing = true;
    script.server(ANSWER).ask("SELECT 1").ask("SELECT 2");
    let captured = capture(&script);
    assert_eq!(captured.statements, ["SELECT 1", "SELECT 2"]);
    assert!(!captured.sessions[0].start_seen);
    assert_eq!(captured.status.counters.existing, 1);
    let options = AttachOptions {
        new_sessions_only: true,
        ..AttachOptions::default()
    };
    script.existing = false;
    script.next_process().log_in().ask("SELECT 3");
    let captured = capture_with(&script, options, UNTIL_INPUT_ENDS);
    assert_eq!(captured.statements, ["SELECT 3"]);
    assert_eq!(captured.status.counters.left_out_existing, 1);
    assert!(captured.recording().account.passed_bytes > 0);
}

#[test]
fn lost_bytes_are_placed_by_session_and_time_and_the_rest_is_captured() {
    let mut script = Script::new();
    script.log_in().ask("SELECT 1");
    script.lose(0, 20).lose(1, 30);
    script.ask("SELECT 'unknown'").ask("SELECT 2").lose(1, 7);
    script.totals(RecordKind::Position);
    let captured = capture(&script);
    assert_eq!(captured.statements, ["SELECT 1", "SELECT 2"]);
    let account = &captured.recording().account;
    assert_eq!(account.lost_bytes, 57);
    assert_eq!(captured.status.counters.untracked_calls, 3);
    let range_bytes: u64 = account.incomplete.iter().map(|range| range.bytes).sum();
    assert_eq!(range_bytes, 57);
    let gaps = account.session_gaps.listed();
    let found: Vec<_> = gaps
        .iter()
        .map(|gap| (gap.session, gap.from_client, gap.range.bytes))
        .collect();
    let expected = [
        (Some(0), true, 20),
        (Some(0), false, 30),
        (Some(0), false, 7),
    ];
    assert_eq!(found, expected);
    assert!(gaps.iter().all(|gap| gap.range.from_us < gap.range.to_us));
}

#[test]
fn reused_process_number_and_restart_of_the_server_end_the_sessions() {
    let mut script = Script::new();
    script.log_in().ask("SELECT 1");
    script.next_process().log_in().ask("SELECT 2");
    script.add(RecordKind::Detached, 0, &[]);
    script.add(RecordKind::Attached, 0, &[]);
    script.next_process().log_in().ask("SELECT 3");
    let captured = capture(&script);
    assert_eq!(captured.statements, ["SELECT 1", "SELECT 2", "SELECT 3"]);
    let ended: Vec<bool> = captured
        .sessions
        .iter()
        .map(|session| session.end_seen)
        .collect();
    assert_eq!(ended, [true, true, false]);
    assert_eq!(captured.status.counters.attached, 2);
    let is_again =
        |event: &AttachEvent| matches!(event, AttachEvent::Attached { is_again, .. } if *is_again);
    assert!(captured.events.iter().any(is_again));
}

#[test]
fn prober_that_refuses_or_dies_is_reported() {
    let mut script = Script::new();
    script.bytes.clear();
    script.add(RecordKind::Failed, 0, b"no right to load programs");
    let (refusing, _file) = prober(&script.bytes, "exit 3");
    let refused = refusing.wait_until_attached(|| false);
    assert!(matches!(refused, Err(AttachError::Prober(reason)) if reason.contains("no right")));
    let (silent, _file) = prober(b"", "exit 3");
    let refused = silent.wait_until_attached(|| false);
    assert!(matches!(refused, Err(AttachError::ProberEnded(status)) if status.contains('3')));
    // A part of a record, and no more.
    let (stopped, _file) = prober(&script.bytes[..20], UNTIL_INPUT_ENDS);
    let refused = stopped.wait_until_attached(|| true);
    assert!(matches!(refused, Err(AttachError::Interrupted)));

    let mut script = Script::new();
    script.log_in().ask("SELECT 1");
    let captured = capture_with(&script, AttachOptions::default(), "kill -9 $$");
    assert_eq!(captured.statements, ["SELECT 1"]);
    let reason = captured.status.prober_failure.unwrap();
    assert!(reason.contains("signal: 9"), "{reason}");
    // A record that is cut.
    script.bytes.truncate(script.bytes.len() - 1);
    let captured = capture_with(&script, AttachOptions::default(), "exit 0");
    assert!(captured.status.prober_failure.unwrap().contains("records"));
}
