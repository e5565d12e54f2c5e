//! Begins, stops, continues and shortens series.

use transform::mask::{Mask, MaskKey};
use workload::DirectoryLock;

use super::*;

/// A session with a statement at each of these seconds after [`START_US`].
pub(super) fn statements_at(seconds: &[i64]) -> Vec<Delivery> {
    let statement = |(sequence, second): (u64, &i64)| {
        let due_us = START_US + second * SECOND_US;
        let kind = match sequence {
            0 => EventKind::Connect {
                database: "shop".into(),
                user: "app".into(),
                application: "".into(),
            },
            _ => EventKind::Simple {
                sql: "select 1".into(),
            },
        };
        Delivery::Event(event(0, sequence, due_us, kind))
    };
    (0..).zip(seconds).map(statement).collect()
}

pub(super) fn part_numbers(path: &Path) -> Vec<u64> {
    let series = Series::open(path).unwrap();
    series.parts.iter().map(|part| part.member.number).collect()
}

/// Options with a handle for the notes.
pub(super) fn noted(options: SeriesOptions) -> (SeriesOptions, Arc<std::sync::Mutex<Vec<String>>>) {
    let notes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = notes.clone();
    let on_note: OnNote = Arc::new(move |note| noted.lock().unwrap().push(note.to_owned()));
    (SeriesOptions { on_note, ..options }, notes)
}

#[test]
fn series_stopped_within_a_part_and_continued_has_the_gap_since_the_stop() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 900), &statements_at(&[0, 300]));
    let captured_to_us = Series::open(&path).unwrap().info.captured_to_us;
    assert_eq!(captured_to_us, Some(START_US + 300 * SECOND_US));
    let append = true;
    let continued = SeriesOptions {
        append,
        ..options(&path, 900)
    };
    record_series(continued, &statements_at(&[420, 430]));
    let gaps = Series::open(&path).unwrap().info.gaps;
    let ranges: Vec<_> = gaps.iter().map(|gap| (gap.from_us, gap.to_us)).collect();
    assert_eq!(
        ranges,
        [(START_US + 300 * SECOND_US, START_US + 420 * SECOND_US)]
    );
    // The gap has cut off the session, so its connection ends there.
    let events = events(&WorkloadReader::open(&path).unwrap());
    let (end, at) = (&events[2], events.len());
    assert_eq!((end.session, end.sequence, at), (0, 2, 5));
    assert_eq!(end.kind, EventKind::Disconnect);
    let second = |event: &Event| (event.due_us - START_US) as f64 / SECOND_US as f64;
    let times: Vec<f64> = events.iter().map(second).collect();
    assert_eq!(times, [0.0, 300.0, 300.000_001, 420.0, 430.0]);
}

#[test]
fn retention_of_a_part_that_is_read_keeps_the_parts_after_it() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 60, 120]));
    let first = Series::open(&path).unwrap().parts[0].path.clone();
    let lock = DirectoryLock::try_shared(&first).unwrap().unwrap();
    let limited = || SeriesOptions {
        append: true,
        retention: Retention {
            bytes: Some(1),
            for_us: None,
        },
        ..options(&path, 60)
    };
    let status = record_series(limited(), &statements_at(&[180]));
    assert_eq!((status.parts_removed, status.removals_failed), (0, 1));
    assert_eq!(part_numbers(&path), [1, 2, 3, 4]);
    drop(lock);
    record_series(limited(), &statements_at(&[240]));
    assert_eq!(part_numbers(&path), [5]);
}

#[test]
fn retention_with_an_unreadable_workload_reports_it_once_and_continues() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let (mut options, notes) = noted(options(&path, 60));
    options.retention.for_us = Some(60 * SECOND_US);
    let mut recorder = SeriesRecorder::create(options).unwrap();
    let half_copied = path.join("copy.workload");
    std::fs::create_dir(&half_copied).unwrap();
    deliver(&mut recorder, &statements_at(&[0, 60, 120, 180]));
    let status = recorder.finish(Provenance::default()).unwrap();
    assert_eq!((status.parts_written, status.parts_removed), (4, 2));
    std::fs::remove_dir(&half_copied).unwrap();
    assert_eq!(part_numbers(&path), [3, 4]);
    let notes = notes.lock().unwrap();
    let about_it = notes.iter().filter(|note| note.contains("copy.workload"));
    assert_eq!(about_it.count(), 1, "{notes:?}");
}

#[test]
fn retention_with_files_it_cannot_remove_counts_the_part_as_removed_and_reports_them() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 60]));
    let first = Series::open(&path).unwrap().parts[0].path.clone();
    std::fs::create_dir(first.join("directory")).unwrap();
    let (mut continued, notes) = noted(options(&path, 60));
    continued.append = true;
    continued.retention.for_us = Some(60 * SECOND_US);
    let status = record_series(continued, &statements_at(&[120]));
    assert_eq!((status.parts_removed, status.removals_failed), (1, 0));
    assert_eq!(Series::open(&path).unwrap().info.removed.parts, 1);
    assert_eq!(part_numbers(&path), [2, 3]);
    let notes = notes.lock().unwrap();
    let are_left = |note: &String| note.contains("files of it are left");
    assert!(notes.iter().any(are_left), "{notes:?}");
}

#[test]
fn mask_of_a_session_that_named_the_backslash_setting_in_an_earlier_part_leaves_no_value() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let key = MaskKey::parse("0123456789abcdef".repeat(4).as_bytes()).unwrap();
    let masked = SeriesOptions {
        mask: Some(Mask::new(key)),
        ..options(&path, 60)
    };
    let mut deliveries = statements_at(&[0, 1, 70]);
    let texts = [
        "select app.setting('standard_conforming_strings', 'off')",
        r"select 'O\'Brien secret\'s'",
    ];
    for (delivery, text) in deliveries[1..].iter_mut().zip(texts) {
        if let Delivery::Event(event) = delivery {
            event.kind = EventKind::Simple { sql: text.into() };
        }
    }
    record_series(masked, &deliveries);
    let series = WorkloadReader::open(&path).unwrap();
    let texts: Vec<_> = events(&series)
        .iter()
        .filter_map(|event| event.kind.sql().map(ToString::to_string))
        .collect();
    assert_eq!((series.parts(), texts.len()), (Some(2), 2));
    assert!(!texts[1].contains("secret"), "{texts:?}");
}

#[test]
fn live_event_ahead_of_the_clock_is_in_the_part_of_its_arrival_and_parts_continue() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let (live, notes) = noted(SeriesOptions {
        is_live: true,
        ..options(&path, 60)
    });
    let mut recorder = SeriesRecorder::create(live).unwrap();
    recorder.wall_us = || START_US;
    deliver(&mut recorder, &statements_at(&[0, 200_000]));
    recorder.wall_us = || START_US + 240 * SECOND_US;
    let mut later = statements_at(&[180, 190, 240]);
    for delivery in &mut later {
        if let Delivery::Event(event) = delivery {
            event.session = 1;
        }
    }
    deliver(&mut recorder, &later);
    let status = recorder.finish(Provenance::default()).unwrap();
    assert_eq!(status.events_ahead, 1);
    let parts = Series::open(&path).unwrap().parts;
    let starts = parts
        .iter()
        .map(|part| (part.member.from_us - START_US) / SECOND_US);
    assert_eq!(starts.collect::<Vec<_>>(), [0, 180, 240]);
    let series = WorkloadReader::open(&path).unwrap();
    assert_eq!(events(&series).len(), 5);
    let late = series.within(START_US + 199_000 * SECOND_US, i64::MAX);
    assert_eq!(events(&late.unwrap()).last().unwrap().session, 0);
    let notes = notes.lock().unwrap();
    let is_ahead = |note: &String| note.contains("1 events have times");
    assert!(notes.iter().any(is_ahead), "{notes:?}");
}

#[test]
fn retention_with_a_part_in_the_future_compares_ages_with_the_clock() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let now_s = (wall_us() - START_US) / SECOND_US;
    let mut limited = options(&path, 60);
    // The clock of live traffic is this machine's, and can be set back.
    limited.provenance.source_kind = "proxy".to_owned();
    limited.retention.for_us = Some(3_600 * SECOND_US);
    let seconds = [now_s - 300, now_s - 200, now_s + 200_000];
    let status = record_series(limited, &statements_at(&seconds));
    assert_eq!((status.parts_written, status.parts_removed), (3, 0));
}

/// Whether an event is neither a prelude nor the end that a gap makes.
fn is_recorded(event: &&Event) -> bool {
    !event.prelude && event.kind != EventKind::Disconnect
}

#[test]
fn append_of_a_log_that_is_read_again_leaves_out_what_the_series_has() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10, 70]));
    let (mut again, notes) = noted(options(&path, 60));
    again.append = true;
    let status = record_series(again, &statements_at(&[0, 10, 70, 80, 130]));
    assert_eq!(status.repeated_events, 3);
    let series = WorkloadReader::open(&path).unwrap();
    let texts = events(&series);
    let own = texts.iter().filter(is_recorded);
    assert_eq!(own.count(), 5);
    let continued = texts.iter().filter(|event| event.session > 0);
    let kinds: Vec<_> = continued.map(|event| &event.kind).collect();
    assert!(
        matches!(kinds[..], [EventKind::Connect { .. }, _, _]),
        "{kinds:?}"
    );
    let notes = notes.lock().unwrap();
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("left out 3 events")),
        "{notes:?}"
    );
}

#[test]
fn copy_of_a_part_is_no_part_of_the_series() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 900), &statements_at(&[0, 300]));
    let part = Series::open(&path).unwrap().parts.remove(0).path;
    let copy = path.join("copy.workload");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&part).unwrap() {
        let file = entry.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let series = Series::open(&path).unwrap();
    assert_eq!(series.parts.len(), 1);
    assert_eq!(series.foreign, [copy]);
    assert_eq!(WorkloadReader::open(&path).unwrap().info().statements, 1);
}

#[test]
fn losses_after_the_last_completed_part_are_in_a_part_without_events() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let mut recorder = SeriesRecorder::create(options(&path, 60)).unwrap();
    deliver(&mut recorder, &statements_at(&[0, 10]));
    let with = |lost: u64| Provenance {
        reconciliation: serde_json::json!({ "lost_bytes": lost }),
        ..Provenance::default()
    };
    recorder.note_provenance(with(3));
    recorder.advance(START_US + 300 * SECOND_US).unwrap();
    assert!(recorder.open.is_empty());
    recorder.finish(with(10)).unwrap();
    assert_eq!(part_numbers(&path), [1, 2]);
    let series = WorkloadReader::open(&path).unwrap();
    let info = series.info();
    assert_eq!(info.provenance.reconciliation["lost_bytes"], 10);
    assert_eq!(info.provenance.start_wall_us, START_US);
    assert_eq!(info.span_us, 10 * SECOND_US);
    assert_eq!(events(&series).len(), 2);
    let last = series.within(START_US + 300 * SECOND_US, i64::MAX);
    let last = last.unwrap();
    let start_us = last.info().provenance.start_wall_us;
    assert_eq!(start_us, START_US + 300 * SECOND_US);
    assert_eq!(last.info().provenance.reconciliation["lost_bytes"], 7);
    assert_eq!(events(&last), []);
}

/// Begins a live capture that is killed after a checkpoint.
pub(super) fn kill_after(path: &Path, deliveries: &[Delivery], recipients: Vec<Recipient>) {
    let live = SeriesOptions {
        is_live: true,
        recipients,
        ..options(path, 60)
    };
    let mut recorder = SeriesRecorder::create(live).unwrap();
    deliver(&mut recorder, deliveries);
    recorder.checkpoint(i64::MAX / 2).unwrap();
    drop(recorder);
}

#[test]
fn append_after_a_kill_recovers_the_part_and_repeats_none_of_its_events() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let mut before = statements_at(&[0, 10, 70]);
    let server = server_event(START_US + 72 * SECOND_US);
    before.push(Delivery::Server(server.clone()));
    kill_after(&path, &before, Vec::new());
    assert_eq!(Series::open(&path).unwrap().unfinished.len(), 2);
    let (mut again, notes) = noted(options(&path, 60));
    again.append = true;
    let mut read_again = statements_at(&[0, 10, 70, 80, 130]);
    read_again.insert(3, Delivery::Server(server));
    let status = record_series(again, &read_again);
    assert_eq!(status.repeated_events, 3);
    let series = WorkloadReader::open(&path).unwrap();
    let read = events(&series);
    let own = read.iter().filter(is_recorded);
    let times: Vec<i64> = own
        .map(|event| (event.due_us - START_US) / SECOND_US)
        .collect();
    assert_eq!(times, [0, 10, 70, 80, 130]);
    // A recovered part has no server events.
    assert_eq!(series.info().server_events, 1);
    let notes = notes.lock().unwrap();
    let recovered = notes.iter().filter(|note| note.starts_with("recovered"));
    assert_eq!(recovered.count(), 2, "{notes:?}");
}

#[test]
fn append_after_a_kill_knows_a_part_that_the_user_has_recovered() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    kill_after(&path, &statements_at(&[0, 10]), Vec::new());
    let partial = Series::open(&path).unwrap().unfinished.remove(0).path;
    workload::recover(&partial).unwrap();
    let again = SeriesOptions {
        append: true,
        ..options(&path, 60)
    };
    record_series(again, &statements_at(&[0, 10, 20]));
    let series = Series::open(&path).unwrap();
    assert_eq!(series.info.gaps[0].from_us, START_US + 10 * SECOND_US);
    assert_eq!(WorkloadReader::open(&path).unwrap().info().statements, 2);
}

#[test]
fn append_after_a_kill_with_an_encrypted_part_is_refused_until_it_is_recovered() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let recipient = workload::Identity::generate().to_public();
    let recipients = || vec![recipient.clone()];
    kill_after(&path, &statements_at(&[0, 10]), recipients());
    let mut again = options(&path, 60);
    (again.append, again.recipients) = (true, recipients());
    let error = SeriesRecorder::create(again).err().unwrap().to_string();
    assert!(error.contains("rehearse recover"), "{error}");
    // Traffic through a proxy does not come again.
    let mut info = Series::open(&path).unwrap().info;
    info.source_kind = "proxy".to_owned();
    info.write(&path).unwrap();
    let mut proxy = options(&path, 60);
    (proxy.append, proxy.provenance.source_kind) = (true, "proxy".to_owned());
    proxy.recipients = recipients();
    record_series(proxy, &statements_at(&[20]));
    assert_eq!(part_numbers(&path), [2]);
}
