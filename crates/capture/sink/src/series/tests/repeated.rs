//! Sources that are read again: each event is in the series once, whatever ended the captures before.

use std::cell::Cell;

use workload::series::{HeldEvent, RunningEvent};

use super::*;

const MILLISECOND_US: i64 = 1_000;
/// Time stamps of these events are ahead of every clock.
const FUTURE_US: i64 = 200_000_000 * SECOND_US;

/// End of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Stop,
    Kill,
    /// The user has recovered the parts before the next capture, the last ones first.
    KillAndRecover,
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
}

thread_local! {
    /// Time at which the last entry was written.
    static CLOCK_US: Cell<i64> = const { Cell::new(0) };
}

/// Entry of a log: session, and the statement that ended.
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

/// Makes a log of statements: session, time of the end and duration in ms, and whether its time stamp is wrong.
fn entries(given: &[(u64, i64, i64, bool)]) -> Vec<Entry> {
    let mut given = given.to_vec();
    given.sort_by_key(|(_, end_ms, ..)| *end_ms);
    let one = |(id, (session, end_ms, duration_ms, is_wrong)): (usize, &(u64, i64, i64, bool))| {
        let sql = format!("select {id}").into();
        let mut due_us = START_US + (end_ms - duration_ms) * MILLISECOND_US;
        if *is_wrong {
            due_us += FUTURE_US;
        }
        let mut event = event(*session, 0, due_us, EventKind::Simple { sql });
        event.outcome.duration_us = Some((duration_ms * MILLISECOND_US) as u64);
        let at_us = START_US + end_ms * MILLISECOND_US;
        Entry { at_us, event }
    };
    given.iter().enumerate().map(one).collect()
}

/// Reads entries as the reader of a log does: an event is delivered when its session has another one, or at the end.
fn read(recorder: &mut SeriesRecorder, entries: &[Entry], round: Round) {
    let mut held: BTreeMap<u64, Event> = BTreeMap::new();
    recorder.held(&mut std::iter::empty());
    for (index, Entry { at_us, event }) in entries.iter().enumerate() {
        CLOCK_US.set(match round.follows {
            true => *at_us,
            false => START_US + 1_000_000 * SECOND_US,
        });
        if let Some(settled) = held.insert(event.session, event.clone()) {
            recorder.event(&settled.borrowed()).unwrap();
        }
        if index % round.chunk == round.chunk - 1 {
            recorder.held(&mut held.values().map(held_event));
            if round.follows {
                let to_us = recorder.delivered_to_us.saturating_sub(LATE_US);
                recorder.checkpoint(to_us).unwrap();
            }
        }
    }
    recorder.held(&mut held.values().map(held_event));
    if round.ending == Ending::Stop {
        for event in held.values() {
            recorder.event(&event.borrowed()).unwrap();
        }
    }
}

fn run_round(path: &Path, entries: &[Entry], round: Round, roll_s: u64) {
    let live = SeriesOptions {
        is_live: round.follows,
        append: path.exists(),
        ..options(path, roll_s)
    };
    let mut recorder = SeriesRecorder::create(live).unwrap();
    recorder.wall_us = || CLOCK_US.get();
    read(&mut recorder, entries, round);
    match round.ending {
        Ending::Stop => drop(recorder.finish(Provenance::default()).unwrap()),
        Ending::Kill => drop(recorder),
        Ending::KillAndRecover => {
            drop(recorder);
            // A capture that is killed before its first event leaves nothing.
            let series = path.exists().then(|| Series::open(path).unwrap());
            for part in series
                .iter()
                .flat_map(|series| series.unfinished.iter().rev())
            {
                workload::recover(&part.path).unwrap();
            }
        }
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
    };
    run_round(&path, entries, last, roll_s);
    let expected: Vec<Event> = entries.iter().map(|entry| entry.event.clone()).collect();
    let read = events(&WorkloadReader::open(&path).unwrap());
    let (found, expected) = (contents(&read), contents(&expected));
    let is_lost = |one: &&(i64, String)| !found.contains(one);
    let lost: Vec<_> = expected.iter().filter(is_lost).collect();
    assert!(lost.is_empty(), "{rounds:?} lost {lost:?}");
    assert_eq!(found, expected, "{rounds:?}");
}

fn round() -> impl Strategy<Value = Round> {
    let ending = prop_oneof![
        Just(Ending::Stop),
        Just(Ending::Kill),
        Just(Ending::KillAndRecover)
    ];
    (1_usize..80, 1_usize..20, ending, any::<bool>()).prop_map(
        |(entries, chunk, ending, follows)| Round {
            entries,
            chunk,
            ending,
            follows,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn log_that_is_read_again_after_any_stops_and_kills_has_each_event_once(
        given in prop::collection::vec(
            (
                0_u64..6,
                prop_oneof![3 => 0_i64..90_000, 1 => (0_i64..9).prop_map(|ten_s| ten_s * 10_000)],
                prop_oneof![4 => 0_i64..3, 2 => 0_i64..2_000, 1 => 0_i64..60_000],
                prop::bool::weighted(0.05),
            ),
            1..80,
        ),
        rounds in prop::collection::vec(round(), 1..4),
        roll_s in 5_u64..40,
    ) {
        check_rounds(&entries(&given), &rounds, roll_s);
    }
}
