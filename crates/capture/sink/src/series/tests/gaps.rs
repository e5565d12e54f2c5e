//! Gaps between captures of a series, and what captures that were killed have left.

use workload::series::{PossibleGap, SeriesState};

use super::lifecycle::{noted, part_numbers, statements_at};
use super::*;

fn continued(path: &Path) -> SeriesOptions {
    SeriesOptions {
        append: true,
        ..options(path, 60)
    }
}

/// Returns a range in seconds after [`START_US`].
fn seconds((from_us, to_us): (i64, i64)) -> (i64, i64) {
    let second = |us: i64| (us - START_US) / SECOND_US;
    (second(from_us), second(to_us))
}

/// Starts and ends of the gaps, in seconds after [`START_US`].
fn gaps(path: &Path) -> Vec<(i64, i64)> {
    let gaps = Series::open(path).unwrap().info.gaps;
    let ranges = gaps.iter().map(|gap| (gap.from_us, gap.to_us));
    ranges.map(seconds).collect()
}

/// Continues a series by a live capture that begins at this second, has no event until another one, and is killed.
fn kill_idle(path: &Path, (started_s, idle_to_s): (i64, i64)) {
    let live = SeriesOptions {
        is_live: true,
        ..continued(path)
    };
    let mut recorder = SeriesRecorder::create(live).unwrap();
    recorder.started_us = START_US + started_s * SECOND_US;
    recorder.advance(START_US + idle_to_s * SECOND_US).unwrap();
}

/// Reads a log with statements at these seconds again, and returns the notes about gaps.
fn notes_of_append(path: &Path, seconds: &[i64]) -> Vec<String> {
    let (again, notes) = noted(continued(path));
    record_series(again, &statements_at(seconds));
    let notes = notes.lock().unwrap();
    let about_gaps = notes.iter().filter(|note| note.contains("ended in a gap"));
    about_gaps.cloned().collect()
}

#[test]
fn gaps_before_idle_live_captures_that_were_killed_are_noted() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10]));
    kill_idle(&path, (100, 300));
    assert_eq!(gaps(&path), [(10, 100)]);
    kill_idle(&path, (400, 600));
    assert_eq!(gaps(&path), [(10, 100), (240, 400)]);
    let notes = notes_of_append(&path, &[0, 10, 50, 60, 320]);
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with("3 of these events"), "{notes:?}");
    assert_eq!(part_numbers(&path), [1]);
}

#[test]
fn gaps_of_which_a_log_was_read_again_end_at_the_first_new_event() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10]));
    // It is complete up to second 60, and began later.
    kill_idle(&path, (100, 125));
    assert_eq!(gaps(&path), [(10, 100)]);
    let notes = notes_of_append(&path, &[0, 10, 50, 80]);
    assert!(notes[0].starts_with("1 of these events"), "{notes:?}");
    assert_eq!(gaps(&path), [(10, 80), (60, 80)]);
    let notes = notes_of_append(&path, &[0, 10, 50, 80]);
    assert!(notes[0].starts_with("1 of these events"), "{notes:?}");
}

#[test]
fn gap_of_a_log_that_is_read_again_ends_at_an_event_that_is_delivered_late() {
    // One that is read from a pipe is live.
    [false, true].into_iter().for_each(check_late_delivery);
}

fn check_late_delivery(is_live: bool) {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10]));
    let of_session = |id: u64, seconds: &[i64]| {
        let mut all = statements_at(seconds);
        for delivery in &mut all {
            if let Delivery::Event(event) = delivery {
                event.session = id;
            }
        }
        all
    };
    // The log shows the end of the statement at second 20 when its session logs the next line.
    let mut all = of_session(0, &[0, 10]);
    all.extend(of_session(1, &[40, 41]));
    all.extend(of_session(2, &[20, 21]));
    for new in [4, 0] {
        let (again, notes) = noted(SeriesOptions {
            is_live,
            ..continued(&path)
        });
        let status = record_series(again, &all);
        assert_eq!(status.events, new);
        let notes = notes.lock().unwrap().join("\n");
        assert!(!notes.contains("ended in a gap"), "{notes}");
    }
    assert_eq!(gaps(&path), [(10, 20)]);
    let missing = WorkloadReader::open(&path).unwrap().gaps();
    let is_gap = |gap: &String| gap.contains("nothing was captured from");
    assert!(
        missing.iter().all(is_gap) && missing.len() == 1,
        "{missing:?}"
    );
}

#[test]
fn gap_stays_if_a_log_is_read_again_without_one_of_its_files() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10]));
    assert_eq!(notes_of_append(&path, &[0, 10, 100, 110]), [""; 0]);
    assert_eq!(gaps(&path), [(10, 100)]);
    // The file that was missing is found.
    let notes = notes_of_append(&path, &[0, 10, 50, 60, 100, 110]);
    assert!(notes[0].starts_with("2 of these events"), "{notes:?}");
}

/// A statement at this second, of a session whose start the log does not have.
fn statement_lasting(second: i64, seconds: u64) -> [Delivery; 2] {
    let due_us = START_US + second * SECOND_US;
    let connect = EventKind::Connect {
        database: "shop".into(),
        user: "app".into(),
        application: "".into(),
    };
    let sql = "select 'long'".into();
    let mut statement = event(1, 1, due_us, EventKind::Simple { sql });
    statement.outcome.duration_us = Some(seconds * 1_000_000);
    [event(1, 0, due_us, connect), statement].map(Delivery::Event)
}

#[test]
fn gap_stays_during_a_statement_whose_end_alone_is_in_the_log() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10]));
    let mut all = statements_at(&[0, 10]);
    all.extend(statement_lasting(20, 80));
    let append = |deliveries: &[Delivery]| {
        let (again, notes) = noted(continued(&path));
        record_series(again, deliveries);
        let notes = notes.lock().unwrap();
        let about_gaps = notes.iter().find(|note| note.contains("ended in a gap"));
        about_gaps.cloned()
    };
    assert_eq!(append(&all), None);
    assert_eq!(gaps(&path), [(10, 100)]);
    assert_eq!(append(&all), None);
    all.splice(2..2, statements_at(&[0, 50]).pop());
    let note = append(&all).unwrap();
    assert!(note.starts_with("1 of these events"), "{note}");
}

#[test]
fn gap_after_a_kill_begins_after_the_events_that_the_series_has() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let mut all = statements_at(&[0]);
    all.extend(statement_lasting(9, 6));
    let live = SeriesOptions {
        is_live: true,
        ..options(&path, 60)
    };
    let mut recorder = SeriesRecorder::create(live).unwrap();
    deliver(&mut recorder, &all);
    recorder.checkpoint(START_US + 10 * SECOND_US).unwrap();
    drop(recorder);
    all.push(statements_at(&[0, 20]).remove(1));
    for _ in 0..2 {
        let (again, notes) = noted(continued(&path));
        record_series(again, &all);
        let notes = notes.lock().unwrap().join("\n");
        assert!(!notes.contains("ended in a gap"), "{notes}");
    }
    assert_eq!(gaps(&path), [(15, 20)]);
}

#[test]
fn server_event_that_is_read_again_after_a_kill_ends_no_earlier_gap() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10]));
    let live = SeriesOptions {
        is_live: true,
        ..continued(&path)
    };
    let mut recorder = SeriesRecorder::create(live).unwrap();
    deliver(&mut recorder, &statements_at(&[0, 10, 100, 110]));
    recorder.checkpoint(i64::MAX / 2).unwrap();
    drop(recorder);
    let mut all = statements_at(&[0, 10, 50, 100, 110, 120]);
    all.insert(2, Delivery::Server(server_event(START_US + 30 * SECOND_US)));
    let (again, notes) = noted(continued(&path));
    record_series(again, &all);
    let notes = notes.lock().unwrap().join("\n");
    assert!(notes.contains("1 of these events ended in"), "{notes}");
    assert_eq!(gaps(&path), [(10, 100), (110, 120)]);
}

#[test]
fn event_that_a_killed_capture_held_shortens_no_earlier_gap() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10]));
    record_series(continued(&path), &statements_at(&[100, 110]));
    let mut recorder = SeriesRecorder::create(continued(&path)).unwrap();
    deliver(&mut recorder, &statements_at(&[120]));
    recorder.note_new(START_US + 50 * SECOND_US).unwrap();
    deliver(&mut recorder, &statements_at(&[130]));
    let provenance = recorder.provenance.clone();
    recorder.finish(provenance).unwrap();
    assert_eq!(gaps(&path), [(10, 100), (110, 120)]);
}

/// Records a log without the file between two of these seconds, and kills the capture or stops it.
fn record_without_file(options: SeriesOptions, seconds: &[i64], file: (i64, i64), is_killed: bool) {
    let all = statements_at(seconds);
    let is_before = |second: &&i64| **second <= file.0;
    let (before, after) = all.split_at(seconds.iter().filter(is_before).count());
    let mut recorder = SeriesRecorder::create(options).unwrap();
    deliver(&mut recorder, before);
    let missing = PossibleGap {
        from_us: START_US + file.0 * SECOND_US,
        to_us: START_US + file.1 * SECOND_US,
    };
    recorder.note_possible_gaps(&[missing]).unwrap();
    deliver(&mut recorder, after);
    match is_killed {
        true => recorder.checkpoint(i64::MAX / 2).unwrap(),
        false => {
            let provenance = recorder.provenance.clone();
            recorder.finish(provenance).unwrap();
        }
    }
}

/// Starts and ends of the possible gaps, in seconds after [`START_US`].
fn possible_gaps(path: &Path) -> Vec<(i64, i64)> {
    let gaps = Series::open(path).unwrap().info.possible_gaps;
    let ranges = gaps.iter().map(|gap| (gap.from_us, gap.to_us));
    ranges.map(seconds).collect()
}

#[test]
fn events_of_a_file_that_was_missing_are_left_out_as_those_of_a_gap_also_after_a_kill() {
    for is_killed in [false, true] {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("all.series");
        record_without_file(options(&path, 60), &[0, 10, 100, 110], (10, 100), is_killed);
        assert_eq!(possible_gaps(&path), [(10, 100)]);
        let (again, notes) = noted(continued(&path));
        let mut all = statements_at(&[0, 10, 50, 60, 100, 110, 120]);
        all.insert(2, Delivery::Server(server_event(START_US + 30 * SECOND_US)));
        let status = record_series(again, &all);
        let notes = notes.lock().unwrap().join("\n");
        assert_eq!(status.repeated_in_gaps, 3, "{notes}");
        assert!(
            notes.contains("3 of these events ended in a gap"),
            "{notes}"
        );
        // Its session continues there.
        assert_eq!(gaps(&path), [(110, 120)], "is killed: {is_killed}");
        let missing = WorkloadReader::open(&path).unwrap().gaps().join("\n");
        let sentences = missing.matches("so one may be missing").count();
        assert_eq!(sentences, 1, "{missing}");
    }
}

#[test]
fn file_that_an_earlier_capture_has_read_is_not_taken_for_missing() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10, 50, 100]));
    record_without_file(continued(&path), &[0, 10, 100, 120], (10, 100), false);
    assert_eq!(possible_gaps(&path), []);
    // The gap between the captures covers this one.
    record_without_file(continued(&path), &[0, 10, 100, 120, 200], (120, 200), false);
    assert_eq!(possible_gaps(&path), [(120, 200)]);
    assert_eq!(gaps(&path), [(100, 120), (120, 200)]);
    let missing = WorkloadReader::open(&path).unwrap().gaps().join("\n");
    assert!(!missing.contains("may be missing"), "{missing}");
}

#[test]
fn leftover_that_cannot_be_removed_does_not_stop_a_capture_of_live_traffic() {
    let room = tempfile::tempdir().unwrap();
    for kind in ["proxy", "log"] {
        let path = room.path().join(kind).with_extension("series");
        let mut first = options(&path, 60);
        first.provenance.source_kind = kind.to_owned();
        record_series(first, &statements_at(&[0, 10]));
        let leftover = path.join("20260101T000000Z.workload.partial");
        std::fs::create_dir(&leftover).unwrap();
        // A file has the name to which it would be renamed.
        std::fs::write(leftover.with_extension("partial.removed"), "").unwrap();
        let (mut again, notes) = noted(continued(&path));
        again.provenance.source_kind = kind.to_owned();
        match kind {
            "proxy" => {
                record_series(again, &statements_at(&[20]));
                let notes = notes.lock().unwrap().join("\n");
                assert!(notes.contains("nothing needs it"), "{notes}");
            }
            _ => {
                let error = SeriesRecorder::create(again).err().unwrap().to_string();
                assert!(error.contains("cannot remove"), "{error}");
            }
        }
    }
}

#[test]
fn encrypted_part_without_a_state_is_refused_without_advice_to_give_a_key() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let recipients = vec![workload::Identity::generate().to_public()];
    let encrypted = |options: SeriesOptions| SeriesOptions {
        recipients: recipients.clone(),
        ..options
    };
    record_series(encrypted(options(&path, 60)), &statements_at(&[0, 10]));
    let mut info = Series::open(&path).unwrap().info;
    info.state = SeriesState::BeingCaptured;
    (info.noted_part, info.captured_to_us) = (0, None);
    info.write(&path).unwrap();
    let refused = SeriesRecorder::create(encrypted(continued(&path)));
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("its checkpoint.json is missing"), "{error}");
    assert!(
        error.contains("(it is encrypted)") && !error.contains("--key"),
        "{error}"
    );
}
