//! Whatever order events come in, the workload holds all of them in time order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use workload::{
    Event, EventKind, NoRedaction, Outcome, Provenance, Session, WorkloadReader, WorkloadWriter,
    WriterOptions,
};

const NINE_O_CLOCK_US: i64 = 1_700_000_000_000_000;

fn statement(session: u64, sequence: u64, due_us: i64, sql: &str) -> Event {
    Event {
        session,
        sequence,
        due_us,
        kind: EventKind::Execute {
            statement: "s1".into(),
            portal: "".into(),
            sql: Arc::from(sql),
            parameters: vec![Some("it's".into()), None, Some("a\nb".into())],
        },
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: sequence + 1,
        prelude: false,
        wire_details: None,
    }
}

/// Writes with so little memory that the window holds a few dozen events.
fn write(path: &Path, events: &[Event], memory_bytes: usize) -> workload::WorkloadInfo {
    let mut writer = WorkloadWriter::create(
        path,
        WriterOptions {
            memory_bytes,
            ..WriterOptions::default()
        },
        NoRedaction,
    )
    .unwrap();
    for event in events {
        writer.event(&event.borrowed()).unwrap();
    }
    writer
        .session(Session {
            id: 0,
            database: "shop".into(),
            user: "app".into(),
            application: "".into(),
            client: "[local]".into(),
            start_us: NINE_O_CLOCK_US,
            end_us: NINE_O_CLOCK_US + 5,
            start_seen: true,
            end_seen: true,
            statements: 1,
        })
        .unwrap();
    writer.finish(Provenance::default()).unwrap()
}

fn read(path: &Path) -> Vec<Event> {
    WorkloadReader::open(path)
        .unwrap()
        .events()
        .unwrap()
        .map(|item| item.unwrap().0)
        .collect()
}

fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    let start = events.iter().map(|event| event.due_us).min().unwrap_or(0);
    for event in &mut events {
        event.due_us -= start;
    }
    events.sort_by_key(|event| (event.due_us, event.session, event.sequence));
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn all_events_come_back_in_time_order(
        offsets in prop::collection::vec((0u64..20, 0i64..1_000), 0..400),
        memory_bytes in 2_000usize..60_000,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.workload");
        // Within a session time and sequence never go back; across sessions anything goes.
        let mut clocks = vec![(0i64, 0u64); 20];
        let events: Vec<Event> = offsets
            .iter()
            .map(|&(session, step)| {
                let (due_us, sequence) = &mut clocks[session as usize];
                *due_us += step * (1 + session as i64 * 50);
                *sequence += 1;
                statement(session, *sequence, NINE_O_CLOCK_US + *due_us, "select $1, $2, $3")
            })
            .collect();
        let info = write(&path, &events, memory_bytes);
        prop_assert_eq!(info.events, events.len() as u64);
        let back = read(&path);
        let wanted = sorted(events);
        prop_assert_eq!(&back, &wanted);
        prop_assert_eq!(info.span_us, wanted.last().map_or(0, |event| event.due_us));
    }
}

#[test]
fn a_statement_of_two_hours_is_placed_at_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let mut events: Vec<Event> = (0..5_000)
        .map(|n| statement(1, n, NINE_O_CLOCK_US + n as i64 * 1_000_000, "select short"))
        .collect();
    // Known only when it ended, after all the others, and begun before all of them.
    events.push(statement(
        2,
        0,
        NINE_O_CLOCK_US - 3_600_000_000,
        "select long",
    ));
    let info = write(&path, &events, 40_000);
    let back = read(&path);
    assert_eq!(back, sorted(events));
    assert_eq!(back[0].kind.sql().unwrap().as_ref(), "select long");
    assert_eq!(
        info.provenance.start_wall_us,
        NINE_O_CLOCK_US - 3_600_000_000
    );
    let names: Vec<String> = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| !name.contains("late") && !name.contains("merged")),
        "{names:?}"
    );
    let session = WorkloadReader::open(&path)
        .unwrap()
        .sessions()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(
        (session.start_us, session.end_us),
        (3_600_000_000, 3_600_000_005)
    );
}

#[test]
fn more_than_one_part_stays_in_order_and_only_the_part_concerned_is_rewritten() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    // Parts hold 2^20 rows; small texts keep this quick.
    let mut writer = WorkloadWriter::create(
        &path,
        WriterOptions {
            memory_bytes: 100_000,
            ..WriterOptions::default()
        },
        NoRedaction,
    )
    .unwrap();
    let total = (1u64 << 20) + 1_000;
    for n in 0..total {
        let mut event = statement(1, n, NINE_O_CLOCK_US + n as i64, "s");
        event.kind = EventKind::Simple { sql: "s".into() };
        writer.event(&event.borrowed()).unwrap();
    }
    writer
        .event(&statement(2, 0, NINE_O_CLOCK_US + total as i64 - 5_000, "late").borrowed())
        .unwrap();
    let info = writer.finish(Provenance::default()).unwrap();
    assert_eq!(info.events, total + 1);
    let mut last = (0, 0, 0);
    let mut count = 0;
    for item in WorkloadReader::open(&path).unwrap().events().unwrap() {
        let (event, _) = item.unwrap();
        let key = (event.due_us, event.session, event.sequence);
        assert!(count == 0 || key > last);
        last = key;
        count += 1;
    }
    assert_eq!(count, total + 1);
}

#[test]
fn a_capture_that_is_dropped_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let mut writer = WorkloadWriter::create(&path, WriterOptions::default(), NoRedaction).unwrap();
    writer
        .event(&statement(1, 0, 0, "select 1").borrowed())
        .unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_capture_that_was_killed_is_recognised_and_recovered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let mut writer = WorkloadWriter::create(
        &path,
        WriterOptions {
            memory_bytes: 100_000,
            ..WriterOptions::default()
        },
        NoRedaction,
    )
    .unwrap();
    for n in 0..300_000u64 {
        let mut event = statement(1, n, NINE_O_CLOCK_US + n as i64, "select $1");
        if n == 0 {
            event.kind = EventKind::Connect {
                database: "shop".into(),
                user: "app".into(),
                application: "".into(),
            };
        }
        writer.event(&event.borrowed()).unwrap();
    }
    std::mem::forget(writer);
    let partial = directory.path().join("a.workload.partial");
    unlocked(&partial);
    let error = WorkloadReader::open(&path).unwrap_err().to_string();
    assert!(error.contains("rehearse recover"), "{error}");
    let kept = directory.path().join("kept");
    copy_files(&partial, &kept);
    let (recovered, info) =
        workload::recover(&directory.path().join("a.workload.partial")).unwrap();
    assert_eq!(recovered, path);
    // Two row groups of 2^17 rows were complete.
    assert_eq!(info.events, 2 << 17);
    assert!(info.recovered);
    let reader = WorkloadReader::open(&path).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.events().unwrap().count(), 2 << 17);
    assert_eq!(
        reader.events().unwrap().next().unwrap().unwrap().0.due_us,
        0
    );
    let session = reader.sessions().unwrap().next().unwrap().unwrap();
    assert_eq!(&*session.user, "app");
    // A kill of the recovery can leave both.
    std::fs::rename(&kept, &partial).unwrap();
    let (again, info) = workload::recover(&partial).unwrap();
    assert_eq!((again, info.events), (path.clone(), 2 << 17));
    assert!(!partial.exists());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn foreign_cut_and_altered_directories_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    write(&path, &[statement(1, 0, 0, "select 1")], 1 << 20);
    let refused = |path: &Path| WorkloadReader::open(path).unwrap_err().to_string();

    assert!(refused(&directory.path().join("b.workload")).contains("does not exist"));
    assert!(refused(directory.path()).contains("has no manifest.json"));
    assert!(refused(&path.join("manifest.json")).contains("is a file"));

    let events = path.join("events-00000.parquet");
    let whole = std::fs::read(&events).unwrap();
    std::fs::write(&events, &whole[..whole.len() - 1]).unwrap();
    assert!(refused(&path).contains("damaged"));
    let mut altered = whole.clone();
    altered[10] ^= 1;
    std::fs::write(&events, &altered).unwrap();
    let error = WorkloadReader::open(&path).unwrap().verify().unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    std::fs::remove_file(&events).unwrap();
    assert!(refused(&path).contains("damaged"));

    let manifest = path.join("manifest.json");
    std::fs::write(&events, &whole).unwrap();
    let text = std::fs::read_to_string(&manifest).unwrap();
    let now = format!("\"format\": {}", workload::FORMAT);
    std::fs::write(&manifest, text.replace(&now, "\"format\": 99")).unwrap();
    assert!(refused(&path).contains("newer rehearse"));
    std::fs::write(
        &manifest,
        text.replace("\"kind\": \"workload\"", "\"kind\": \"run\""),
    )
    .unwrap();
    assert!(refused(&path).contains("it is a run"));
    std::fs::write(&manifest, "{").unwrap();
    assert!(refused(&path).contains("cannot be read"));
}

/// Statements of some sessions, every seventh of which comes 40 later than it is due.
fn with_late_ones() -> Vec<Event> {
    let mut events: Vec<Event> = (0..8_000u64)
        .map(|n| statement(n % 5, n / 5, NINE_O_CLOCK_US + 10 * n as i64, "select $1"))
        .collect();
    for at in (0..7_900).step_by(7) {
        events.swap(at, at + 40);
    }
    events
}

fn written_safely(path: &Path, events: &[Event], keep_unfinished: bool) -> WorkloadWriter {
    let options = WriterOptions {
        keep_unfinished,
        ..WriterOptions::default()
    };
    let mut writer = WorkloadWriter::create(path, options, NoRedaction).unwrap();
    for (n, event) in events.iter().enumerate() {
        writer.event(&event.borrowed()).unwrap();
        // Often enough that row groups are cut into files, and late runs merged.
        if n % 20 == 0 {
            writer.checkpoint(event.due_us - 100).unwrap();
        }
    }
    writer
}

fn keys_of(events: &[Event]) -> Vec<(i64, u64, u64)> {
    let key = |event: &Event| {
        let due_us = event.due_us - NINE_O_CLOCK_US;
        (due_us, event.session, event.sequence)
    };
    let mut keys: Vec<_> = events.iter().map(key).collect();
    keys.sort_unstable();
    keys
}

fn keys_read(path: &Path) -> Vec<(i64, u64, u64)> {
    let reader = WorkloadReader::open(path).unwrap();
    reader.verify().unwrap();
    let events = reader.events().unwrap().map(|item| item.unwrap().0);
    events
        .map(|event| (event.due_us, event.session, event.sequence))
        .collect()
}

#[test]
fn frequent_checkpoints_give_the_same_workload() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let events = with_late_ones();
    let writer = written_safely(&path, &events, false);
    let info = writer.finish(Provenance::default()).unwrap();
    assert_eq!(info.events, events.len() as u64);
    assert_eq!(keys_read(&path), keys_of(&events));
}

#[test]
fn checkpointed_events_survive_an_abandoned_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let events = with_late_ones();
    drop(written_safely(&path, &events, true));
    let (recovered, info) =
        workload::recover(&directory.path().join("a.workload.partial")).unwrap();
    assert_eq!(recovered, path);
    assert_eq!(info.events, events.len() as u64);
    assert_eq!(keys_read(&path), keys_of(&events));
}

#[test]
fn recovery_of_a_workload_being_written_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let writer = written_safely(&path, &with_late_ones(), true);
    let partial = directory.path().join("a.workload.partial");
    for error in [
        workload::recover(&partial).unwrap_err(),
        WorkloadReader::open(&path).unwrap_err(),
    ] {
        assert!(error.to_string().contains("being written"), "{error}");
    }
    drop(writer);
    workload::recover(&partial).unwrap();
}

#[test]
fn recovery_leaves_an_unreadable_workload_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    drop(written_safely(&path, &with_late_ones(), true));
    let partial = directory.path().join("a.workload.partial");
    for entry in std::fs::read_dir(&partial).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".footer") || name.starts_with("late") {
            std::fs::remove_file(entry.path()).unwrap();
        } else if name.starts_with("events") {
            // Without an end, and longer than nothing.
            let mut data = std::fs::read(entry.path()).unwrap();
            data.extend_from_slice(&[0; 10_000]);
            std::fs::write(entry.path(), data).unwrap();
        }
    }
    let error = workload::recover(&partial).unwrap_err().to_string();
    assert!(error.contains("left as it is"), "{error}");
    assert!(partial.join("events-00000.parquet").exists());
    assert!(!path.exists());
}

/// Puts a copy in its place: what a killed process has locked is locked no more.
fn unlocked(partial: &Path) {
    let copy = partial.with_extension("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(partial).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    std::fs::remove_dir_all(partial).unwrap();
    std::fs::rename(&copy, partial).unwrap();
}

#[test]
fn recovery_without_the_time_of_the_first_event_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    drop(written_safely(&path, &with_late_ones(), true));
    let partial = directory.path().join("a.workload.partial");
    let manifest = partial.join("manifest.json");
    let noted = std::fs::read_to_string(&manifest).unwrap();
    assert!(noted.contains("\"start_wall_us\""), "{noted}");
    std::fs::write(&manifest, noted.replace("\"start_wall_us\"", "\"other\"")).unwrap();
    let error = workload::recover(&partial).unwrap_err().to_string();
    assert!(error.contains("start_wall_us"), "{error}");
    std::fs::write(&manifest, noted).unwrap();
    workload::recover(&partial).unwrap();
}

/// Files of an unfinished workload with their sizes, and its manifest.
type DirectoryState = (Vec<(PathBuf, u64)>, Vec<u8>);

fn state_of(directory: &Path) -> Option<DirectoryState> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).ok()? {
        let entry = entry.ok()?;
        files.push((entry.path(), entry.metadata().ok()?.len()));
    }
    files.sort();
    let manifest = std::fs::read(directory.join("manifest.json")).ok()?;
    Some((files, manifest))
}

/// Copies the directory, unless it changes meanwhile.
fn copy_unchanged(from: &Path, to: &Path) -> Option<()> {
    let before = state_of(from)?;
    std::fs::create_dir(to).ok()?;
    for (path, _) in &before.0 {
        std::fs::copy(path, to.join(path.file_name()?)).ok()?;
    }
    (state_of(from)? == before).then_some(())
}

#[test]
fn workload_whose_completion_is_interrupted_is_recovered_with_the_times_of_its_events() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let partial = directory.path().join("a.workload.partial");
    let events = with_late_ones();
    let writer = written_safely(&path, &events, true);
    let copies = directory.path().join("copies");
    std::fs::create_dir(&copies).unwrap();
    let copying = std::thread::spawn({
        let copies = copies.clone();
        move || {
            let mut count = 0_usize;
            while partial.exists() {
                let copy = copies.join(format!("{count}.workload.partial"));
                match copy_unchanged(&partial, &copy) {
                    Some(()) => count += 1,
                    None => drop(std::fs::remove_dir_all(&copy)),
                }
            }
            count
        }
    });
    writer.finish(Provenance::default()).unwrap();
    let count = copying.join().unwrap();
    assert!(count > 0);
    let expected = keys_of(&events);
    // Some of them, since a recovery takes a moment.
    for number in (0..count).step_by(count.div_ceil(8)) {
        let copy = copies.join(format!("{number}.workload.partial"));
        let manifest = std::fs::read_to_string(copy.join("manifest.json")).unwrap();
        let (recovered, info) = workload::recover(&copy).unwrap();
        let shift_us = info.provenance.start_wall_us - NINE_O_CLOCK_US;
        let found = keys_read(&recovered);
        // Until then, the last events need not be on disk.
        if manifest.contains("\"merged\"") || manifest.contains("\"complete\": true") {
            assert_eq!(found.len(), expected.len(), "copy {number} of {count}");
        }
        let shifted = |(due_us, session, sequence): &(i64, u64, u64)| {
            (due_us + shift_us, *session, *sequence)
        };
        let mut found = found.iter().map(shifted);
        let wrong = found.find(|key| expected.binary_search(key).is_err());
        assert_eq!(wrong, None, "copy {number} of {count}");
    }
}

#[test]
fn merged_parts_are_recovered_once_with_the_parts_that_they_replace() {
    for is_replaced in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.workload");
        let mut events = with_late_ones();
        events.sort_by_key(|event| event.due_us);
        drop(written_safely(&path, &events, true));
        let partial = directory.path().join("a.workload.partial");
        for end in ["parquet", "parquet.footer"] {
            let from = partial.join(format!("events-00000.{end}"));
            let to = partial.join(format!("merged-00000.{end}"));
            match is_replaced {
                _ if !from.exists() => {}
                true => std::fs::rename(from, to).unwrap(),
                false => drop(std::fs::copy(from, to).unwrap()),
            }
        }
        let manifest = partial.join("manifest.json");
        let noted = std::fs::read_to_string(&manifest).unwrap();
        let noted = noted.replace("\"start_wall_us\"", "\"merged\": true, \"start_wall_us\"");
        std::fs::write(&manifest, noted).unwrap();
        let (recovered, _) = workload::recover(&partial).unwrap();
        assert_eq!(keys_read(&recovered), keys_of(&events));
    }
}
