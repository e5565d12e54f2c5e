//! Sources that are read again: each event is in the series once, whatever ended the captures before.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::channel;

use transform::mask::{Mask, MaskKey};
use workload::series::{HeldEvent, PartCheckpoint, RunningEvent};

use super::gate::{Gate, Stage};
use super::*;

const MILLISECOND_US: i64 = 1_000;
/// Time stamps of these events are ahead of every clock.
const FUTURE_US: i64 = 200_000_000 * SECOND_US;
/// Sessions of statements whose starts are in the log have numbers from this one.
const STARTED: u64 = 100;

/// End of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Stop,
    Kill(Kill),
}

/// A kill at any step, with what follows it before the next capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kill {
    /// Step of the finisher, and number of parts that it has completed.
    stage: Stage,
    completed: u64,
    /// The source has ended, and all parts are closed.
    is_stopping: bool,
    /// It is when a part is closed whose last state is not written.
    is_closing: bool,
    /// The user recovers the parts.
    recovery: Option<Order>,
}

/// Order in which parts are recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    FirstPartFirst,
    LastPartFirst,
}

/// A capture that reads the source from its beginning.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// Number of entries that it finds.
    entries: usize,
    /// Number of entries of one read.
    chunk: usize,
    ending: Ending,
    /// Whether it follows the log, and does not read it as a file.
    follows: bool,
    /// Number of events after which a file is checkpointed.
    checkpoint_events: u64,
}

thread_local! {
    /// Time at which the last entry was written.
    static CLOCK_US: Cell<i64> = const { Cell::new(0) };
    /// Gate of the next recorder.
    static GATE: RefCell<Option<Arc<Gate>>> = const { RefCell::new(None) };
}

/// Returns the gate of a recorder that is being created.
pub(in crate::series) fn gate() -> Option<Arc<Gate>> {
    GATE.with_borrow_mut(Option::take)
}

/// Entry of a log: session, and the statement that ended or began.
#[derive(Debug, Clone)]
struct Entry {
    /// Time at which it was written.
    at_us: i64,
    /// The statement, whose time stamps can be wrong.
    event: Event,
}

fn held_event(event: &Event) -> HeldEvent {
    let sql = event.kind.sql().map(|sql| &**sql);
    let event_times = RunningEvent::new(event.due_us, event.outcome.duration_us, sql);
    HeldEvent::of_source(event.session, event_times)
}

/// A statement: session, time of the end and duration in ms, and whether its time stamp is wrong.
type Given = (u64, i64, i64, bool);

/// Makes a log of statements. One of a session from [`STARTED`] on has its own session, and an entry of its start.
fn entries(given: &[Given]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (id, &(session, end_ms, duration_ms, is_wrong)) in (0..).zip(given) {
        let sql = format!("select {id}").into();
        let mut due_us = START_US + (end_ms - duration_ms) * MILLISECOND_US;
        let is_started = session >= STARTED;
        if is_wrong && !is_started {
            due_us += FUTURE_US;
        }
        let session = match is_started {
            true => STARTED + id,
            false => session,
        };
        let mut event = event(session, 0, due_us, EventKind::Simple { sql });
        if is_started {
            let event = event.clone();
            entries.push(Entry {
                at_us: due_us,
                event,
            });
        }
        event.outcome.duration_us = Some((duration_ms * MILLISECOND_US) as u64);
        let at_us = START_US + end_ms * MILLISECOND_US;
        entries.push(Entry { at_us, event });
    }
    entries.sort_by_key(|entry| entry.at_us);
    entries
}

/// States of open parts by number.
type OpenStates = BTreeMap<u64, PartCheckpoint>;

/// Reads entries as the reader of a log does: an event is delivered when its session has another one, or at the end. Returns the
/// number of the part that is being closed, and its last state.
fn read(
    recorder: &mut SeriesRecorder,
    entries: &[Entry],
    round: Round,
) -> Option<(u64, PartCheckpoint)> {
    let is_closing = matches!(round.ending, Ending::Kill(kill) if kill.is_closing);
    let mut held: BTreeMap<u64, Event> = BTreeMap::new();
    let mut states = OpenStates::new();
    recorder.held(&mut std::iter::empty());
    for (index, Entry { at_us, event }) in entries.iter().enumerate() {
        CLOCK_US.set(match round.follows {
            true => *at_us,
            false => START_US + 1_000_000 * SECOND_US,
        });
        let last = held.insert(event.session, event.clone());
        if last.is_none() {
            begin_session(recorder, event);
        }
        if let Some(settled) = last.filter(|last| last.outcome.duration_us.is_some()) {
            recorder.event(&settled.borrowed()).unwrap();
        }
        if index % round.chunk == round.chunk - 1 {
            recorder.held(&mut held.values().map(held_event));
            if round.follows {
                let to_us = recorder.delivered_to_us.saturating_sub(LATE_US);
                recorder.checkpoint(to_us).unwrap();
            }
        }
        let open = recorder.open.iter().map(|part| {
            let path = part.path.with_extension("workload.partial");
            (part.member.number, PartCheckpoint::read(&path).unwrap())
        });
        let now: OpenStates = open.collect();
        states.retain(|number, _| !now.contains_key(number));
        // Of several, the last one got a later state when the first one was closed.
        if is_closing && states.len() == 1 {
            return states.pop_last();
        }
        states = now;
    }
    recorder.held(&mut held.values().map(held_event));
    let is_ended = match round.ending {
        Ending::Stop => true,
        Ending::Kill(kill) => kill.is_stopping,
    };
    if is_ended {
        for event in held.values() {
            recorder.event(&event.borrowed()).unwrap();
        }
    }
    None
}

/// Delivers the start of a session, as the reader of a log does at its first entry.
fn begin_session(recorder: &mut SeriesRecorder, first: &Event) {
    let start = SessionStart {
        id: first.session,
        client: "",
        start_seen: false,
        process: 1000 + first.session,
    };
    recorder.session_begins(start).unwrap();
    let names = ["shop", "app", ""].map(Into::into);
    let [database, user, application] = names;
    let kind = EventKind::Connect {
        database,
        user,
        application,
    };
    let connect = event(first.session, 0, first.due_us, kind);
    recorder.event(&connect.borrowed()).unwrap();
}

fn run_round(path: &Path, entries: &[Entry], round: Round, roll_s: u64) {
    let live = SeriesOptions {
        is_live: round.follows,
        append: path.exists(),
        ..options(path, roll_s)
    };
    let gate = match round.ending {
        Ending::Stop => None,
        Ending::Kill(kill) => Some(Arc::new(Gate::new(kill.stage, kill.completed))),
    };
    GATE.set(gate.clone());
    let mut recorder = SeriesRecorder::create(live).unwrap();
    recorder.wall_us = || CLOCK_US.get();
    recorder.checkpoint_events = round.checkpoint_events;
    let closing = read(&mut recorder, entries, round);
    match (round.ending, gate) {
        (Ending::Kill(kill), Some(gate)) => {
            if kill.is_stopping && closing.is_none() {
                recorder.close_parts(Provenance::default()).unwrap();
            }
            kill_at_gate(recorder, &gate, path);
            after_kill(path, kill, closing);
        }
        _ => drop(recorder.finish(Provenance::default()).unwrap()),
    }
}

/// Replaces the series by a copy of what is on disk, as a kill leaves it.
fn kill_at_gate(mut recorder: SeriesRecorder, gate: &Gate, path: &Path) {
    let (done, is_done) = channel();
    let task = FinisherTask::Change(Box::new(move |_| done.send(()).unwrap()));
    recorder.finisher.send(task).unwrap();
    while !gate.is_reached() && is_done.try_recv().is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let copy = path.with_extension("copy");
    copy_directory(path, &copy);
    gate.open();
    drop(recorder);
    let _ = std::fs::remove_dir_all(path);
    std::fs::rename(&copy, path).unwrap();
}

pub(super) fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name.to_string_lossy().ends_with(".new") {
            // The description of the series is replaced once more.
            continue;
        }
        let target = to.join(name);
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn after_kill(path: &Path, kill: Kill, closing: Option<(u64, PartCheckpoint)>) {
    let mut unfinished = Series::open(path).unwrap().unfinished;
    if let Some((number, state)) = closing
        && let Some(part) = unfinished.iter().find(|part| part.member.number == number)
    {
        let text = serde_json::to_vec(&state).unwrap();
        std::fs::write(part.path.join("checkpoint.json"), text).unwrap();
    }
    if kill.recovery == Some(Order::LastPartFirst) {
        unfinished.reverse();
    }
    for part in unfinished.iter().filter(|_| kill.recovery.is_some()) {
        workload::recover(&part.path).unwrap();
    }
}

/// Returns the statements with their times, sorted.
fn contents(events: &[Event]) -> Vec<(i64, String)> {
    let own = events.iter().filter(|event| !event.prelude);
    let mut contents: Vec<(i64, String)> = own
        .filter_map(|event| Some((event.due_us, event.kind.sql()?.to_string())))
        .collect();
    contents.sort();
    contents
}

fn check_rounds(entries: &[Entry], rounds: &[Round], roll_s: u64) {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    for round in rounds {
        let found = &entries[..round.entries.min(entries.len())];
        // An empty log is no capture.
        if !found.is_empty() {
            run_round(&path, found, *round, roll_s);
        }
    }
    let last = Round {
        entries: entries.len(),
        chunk: 7,
        ending: Ending::Stop,
        follows: false,
        checkpoint_events: 1000,
    };
    run_round(&path, entries, last, roll_s);
    let ended = entries.iter().map(|entry| &entry.event);
    let ended = ended.filter(|event| event.outcome.duration_us.is_some());
    let expected: Vec<Event> = ended.cloned().collect();
    let read = events(&WorkloadReader::open(&path).unwrap());
    let (found, expected) = (contents(&read), contents(&expected));
    let is_lost = |one: &&(i64, String)| !found.contains(one);
    let lost: Vec<_> = expected.iter().filter(is_lost).collect();
    assert!(lost.is_empty(), "{rounds:?} lost {lost:?}");
    assert_eq!(found, expected, "{rounds:?}");
    let info = Series::open(&path).unwrap().info;
    assert_eq!(info.held, []);
}

#[test]
fn encrypted_part_that_was_complete_at_a_kill_is_continued_without_a_key() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let all = lifecycle::statements_at(&[0, 10, 100]);
    let encrypted = |append: bool| SeriesOptions {
        append,
        recipients: vec![workload::Identity::generate().to_public()],
        ..options(&path, 60)
    };
    let first = encrypted(false);
    let again = SeriesOptions {
        recipients: first.recipients.clone(),
        ..encrypted(true)
    };
    let gate = Arc::new(Gate::new(Stage::Complete, 0));
    GATE.set(Some(gate.clone()));
    let mut recorder = SeriesRecorder::create(first).unwrap();
    deliver(&mut recorder, &all[..all.len() - 1]);
    recorder.advance(START_US + 95 * SECOND_US).unwrap();
    kill_at_gate(recorder, &gate, &path);
    assert_eq!(Series::open(&path).unwrap().info.noted_part, 0);
    let status = record_series(again, &all);
    assert_eq!((status.repeated_events, status.statements), (2, 1));
}

#[test]
fn open_parts_of_a_log_file_whose_capture_ends_early_are_all_kept_for_the_next_one() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let all = lifecycle::statements_at(&[0, 10, 70, 80]);
    let mut recorder = SeriesRecorder::create(options(&path, 60)).unwrap();
    deliver(&mut recorder, &all[..3]);
    assert_eq!(recorder.open.len(), 2);
    drop(recorder);
    assert_eq!(Series::open(&path).unwrap().unfinished.len(), 2);
    // The next part was being created: it has a name that the next capture needs.
    let begun = path.join(part_name(START_US + 120 * SECOND_US) + ".partial");
    std::fs::create_dir(&begun).unwrap();
    std::fs::write(begun.join("checkpoint.json"), "{}").unwrap();
    let again = SeriesOptions {
        append: true,
        ..options(&path, 60)
    };
    let later = lifecycle::statements_at(&[0, 10, 70, 80, 130]);
    let status = record_series(again, &later);
    assert_eq!((status.repeated_events, status.statements), (3, 2));
}

/// Kills a capture that has written the statement of session 2, and not that of session 1 with the same times. Returns the
/// texts of the series after the next capture.
fn texts_after_kill(kinds: [&str; 2], is_held: bool, mask: Option<Mask>) -> Vec<String> {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let masked = |append: bool| SeriesOptions {
        append,
        is_live: true,
        mask: mask.clone(),
        ..options(&path, 60)
    };
    let statement = |session: u64, second: i64, sql: &str| {
        let kind = EventKind::Simple { sql: sql.into() };
        event(session, 0, START_US + second * SECOND_US, kind)
    };
    let held = statement(1, 10, kinds[0]);
    let written = statement(2, 10, kinds[1]);
    let last = statement(3, 11, "select 'last'");
    let mut recorder = SeriesRecorder::create(masked(false)).unwrap();
    let all = [held.clone(), written.clone(), last.clone()].map(Delivery::Event);
    deliver(&mut recorder, &all[1..]);
    let held = Some(held_event(&held)).filter(|_| is_held);
    recorder.held(&mut held.into_iter());
    recorder.checkpoint(START_US + 11 * SECOND_US).unwrap();
    let copy = room.path().join("copy");
    copy_directory(&path, &copy);
    drop(recorder);
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::rename(copy, &path).unwrap();
    record_series(masked(true), &all);
    continued::texts(&path)
}

#[test]
fn statement_with_the_times_of_a_written_one_is_recorded_after_a_kill() {
    let kinds = ["select 1", "update t set a = 1"];
    let all = ["select 'last'", kinds[0], kinds[1]];
    for is_held in [false, true] {
        assert_eq!(texts_after_kill(kinds, is_held, None), all);
    }
    let mask = Mask::new(MaskKey::parse("1".repeat(64).as_bytes()).unwrap());
    let texts = texts_after_kill(kinds, true, Some(mask));
    let is_update = |text: &&String| text.starts_with("update");
    assert_eq!(
        (texts.len(), texts.iter().filter(is_update).count()),
        (3, 1)
    );
}

fn kill() -> impl Strategy<Value = Kill> {
    let stages = [Stage::Closed, Stage::Complete, Stage::Noted];
    let recoveries = [
        None,
        Some(Order::FirstPartFirst),
        Some(Order::LastPartFirst),
    ];
    (
        prop::sample::select(Vec::from(stages)),
        0_u64..6,
        prop::bool::weighted(0.2),
        any::<bool>(),
        prop::sample::select(Vec::from(recoveries)),
    )
        .prop_map(
            |(stage, completed, is_stopping, is_closing, recovery)| Kill {
                stage,
                completed,
                is_stopping,
                is_closing,
                recovery,
            },
        )
}

fn round() -> impl Strategy<Value = Round> {
    let ending = prop_oneof![1 => Just(Ending::Stop), 3 => kill().prop_map(Ending::Kill)];
    let of_rounds = (1_usize..80, 1_usize..20, ending, any::<bool>(), 1_u64..40);
    of_rounds.prop_map(
        |(entries, chunk, ending, follows, checkpoint_events)| Round {
            entries,
            chunk,
            ending,
            follows,
            checkpoint_events,
        },
    )
}

/// Returns the configuration of the property. `PROPTEST_CASES` gives another number of cases.
fn config() -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(10),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn log_that_is_read_again_after_any_stops_and_kills_has_each_event_once(
        given in prop::collection::vec(
            (
                prop_oneof![6 => 0_u64..6, 1 => Just(STARTED)],
                prop_oneof![3 => 0_i64..90_000, 1 => (0_i64..9).prop_map(|ten_s| ten_s * 10_000)],
                prop_oneof![4 => 0_i64..3, 2 => 0_i64..2_000, 1 => 0_i64..60_000],
                prop::bool::weighted(0.05),
            ),
            1..80,
        ),
        mut rounds in prop::collection::vec(round(), 1..4),
        roll_s in 5_u64..40,
    ) {
        // A log only grows.
        rounds.sort_by_key(|round| round.entries);
        check_rounds(&entries(&given), &rounds, roll_s);
    }
}
