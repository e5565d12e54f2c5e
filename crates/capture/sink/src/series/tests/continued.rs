//! Continues series: what must not be in it twice, and what must be protected.

use transform::mask::{Mask, MaskKey};
use workload::{CapturedServer, DirectoryLock};

use super::lifecycle::{kill_after, noted, part_numbers, statements_at};
use super::*;

fn continued(path: &Path, roll_s: u64) -> SeriesOptions {
    SeriesOptions {
        append: true,
        ..options(path, roll_s)
    }
}

/// Statements at each of these seconds after [`START_US`], with durations in seconds, in the order of their ends.
fn statements_lasting(statements: &[(i64, u64)]) -> Vec<Delivery> {
    let mut all: Vec<(u64, Delivery)> = Vec::new();
    for (id, (second, seconds)) in (0..).zip(statements) {
        let due_us = START_US + second * SECOND_US;
        let sql = format!("select {id}").into();
        let mut statement = event(id, 0, due_us, EventKind::Simple { sql });
        statement.outcome.duration_us = Some(seconds * 1_000_000);
        all.push((*second as u64 + seconds, Delivery::Event(statement)));
    }
    all.sort_by_key(|(end_s, _)| *end_s);
    all.into_iter().map(|(_, delivery)| delivery).collect()
}

pub(super) fn texts(path: &Path) -> Vec<String> {
    let own = events(&WorkloadReader::open(path).unwrap());
    let own = own.iter().filter(|event| !event.prelude);
    let mut texts: Vec<String> = own
        .filter_map(|event| event.kind.sql().map(ToString::to_string))
        .collect();
    texts.sort();
    texts
}

#[test]
fn append_after_a_kill_has_each_statement_that_was_running_once() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let statements = [
        (0, 1),
        (10, 55),
        (20, 2),
        (58, 6),
        (66, 1),
        (66, 1),
        (40, 90),
    ];
    let all = statements_lasting(&statements);
    // The kill is before the end of the last one.
    kill_after(&path, &all[..6], Vec::new());
    let status = record_series(continued(&path, 60), &all);
    assert_eq!(status.repeated_events, 6);
    let expected: Vec<String> = (0..7).map(|id| format!("select {id}")).collect();
    assert_eq!(texts(&path), expected);
}

#[test]
fn append_after_a_kill_has_each_statement_that_ran_past_the_end_of_a_complete_part_once() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let all = statements_lasting(&[(0, 1), (58, 50), (61, 1), (125, 1)]);
    let live = SeriesOptions {
        is_live: true,
        ..options(&path, 60)
    };
    let mut recorder = SeriesRecorder::create(live).unwrap();
    deliver(&mut recorder, &all[..3]);
    recorder.advance(START_US + 119 * SECOND_US).unwrap();
    recorder.checkpoint(i64::MAX / 2).unwrap();
    drop(recorder);
    assert_eq!(part_numbers(&path), [1]);
    let status = record_series(continued(&path, 60), &all);
    assert_eq!(status.repeated_events, 3);
    assert_eq!(texts(&path).len(), 4);
}

#[test]
fn append_of_a_log_with_nothing_new_adds_no_part_and_counts_those_of_the_series() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let all = statements_lasting(&[(0, 1), (58, 5)]);
    record_series(options(&path, 60), &all);
    let sum = || WorkloadReader::open(&path).unwrap().info().clone();
    let before = sum();
    let mut recorder = SeriesRecorder::create(continued(&path, 60)).unwrap();
    deliver(&mut recorder, &all);
    let account = Provenance {
        reconciliation: serde_json::json!({ "lines": 7 }),
        ..Provenance::default()
    };
    let status = recorder.finish(account).unwrap();
    assert_eq!((status.repeated_events, status.events), (2, 0));
    assert_eq!((status.parts_written, status.parts_kept), (0, 1));
    assert!(status.bytes_kept > 0);
    assert_eq!(part_numbers(&path), [1]);
    assert_eq!(sum(), before);
    // The account of a log with one new statement is that of all its lines.
    let mut recorder = SeriesRecorder::create(continued(&path, 60)).unwrap();
    deliver(&mut recorder, &all);
    deliver(&mut recorder, &statements_lasting(&[(70, 1)]));
    let account = Provenance {
        reconciliation: serde_json::json!({ "lines": 9 }),
        ..Provenance::default()
    };
    recorder.finish(account).unwrap();
    assert_eq!(sum().provenance.reconciliation["repeated_events"], 2);
}

#[test]
fn append_with_other_encryption_or_masks_is_refused_and_leaves_the_series_as_it_was() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let identity = workload::Identity::generate();
    let mask = |digit: &str| {
        let key = MaskKey::parse(digit.repeat(64).as_bytes()).unwrap();
        Some(Mask::new(key))
    };
    let protected = |append| SeriesOptions {
        append,
        recipients: vec![identity.to_public()],
        mask: mask("1"),
        ..options(&path, 60)
    };
    record_series(protected(false), &statements_at(&[0, 1]));
    let before = Series::open(&path).unwrap().info;
    let refused = [
        continued(&path, 60),
        SeriesOptions {
            mask: None,
            ..protected(true)
        },
        SeriesOptions {
            mask: mask("2"),
            ..protected(true)
        },
        SeriesOptions {
            recipients: Vec::new(),
            ..protected(true)
        },
        SeriesOptions {
            recipients: vec![workload::Identity::generate().to_public()],
            ..protected(true)
        },
    ];
    for options in refused {
        let error = SeriesRecorder::create(options).err().unwrap().to_string();
        let give = format!("give --encrypt {} --mask FILE", identity.to_public());
        assert!(error.contains(&give), "{error}");
    }
    assert_eq!(Series::open(&path).unwrap().info, before);
    record_series(protected(true), &statements_at(&[70, 71]));
    assert_eq!(part_numbers(&path), [1, 2]);
    let plain = room.path().join("plain.series");
    record_series(options(&plain, 60), &statements_at(&[0, 1]));
    let encrypted = SeriesOptions {
        recipients: vec![identity.to_public()],
        ..continued(&plain, 60)
    };
    let error = SeriesRecorder::create(encrypted).err().unwrap().to_string();
    assert!(error.contains("leave out --encrypt and --mask"), "{error}");
}

#[test]
fn append_with_another_server_or_duration_of_parts_reports_both() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let from = |host: &str, options: SeriesOptions| SeriesOptions {
        provenance: Provenance {
            servers: vec![CapturedServer {
                host: Some(host.to_owned()),
                port: 5432,
                ..CapturedServer::default()
            }],
            ..options.provenance.clone()
        },
        ..options
    };
    record_series(from("db1", options(&path, 60)), &statements_at(&[0, 1]));
    let (again, notes) = noted(from("db2", continued(&path, 120)));
    record_series(again, &statements_at(&[200, 201]));
    let notes = notes.lock().unwrap().join("\n");
    assert!(
        notes.contains("captured from db1:5432, and now from db2:5432"),
        "{notes}"
    );
    assert!(
        notes.contains("parts of 60 s; new ones are of 120 s"),
        "{notes}"
    );
}

#[test]
fn recovery_of_a_part_whose_events_were_captured_again_is_refused() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    kill_after(&path, &statements_at(&[0, 10, 20]), Vec::new());
    let partial = Series::open(&path).unwrap().unfinished.remove(0).path;
    let away = room.path().join(partial.file_name().unwrap());
    std::fs::rename(&partial, &away).unwrap();
    let mut info = Series::open(&path).unwrap().info;
    info.captured_to_us = None;
    info.write(&path).unwrap();
    // The number of the part that is away must not be used again.
    let foreign = path.join("20260101T000000Z.workload.partial");
    std::fs::create_dir(&foreign).unwrap();
    let mut manifest = std::fs::read_to_string(away.join("manifest.json")).unwrap();
    manifest = manifest.replace("\"kind\": \"workload\"", "\"kind\": \"other\"");
    std::fs::write(foreign.join("manifest.json"), manifest).unwrap();
    let mut proxy = Series::open(&path).unwrap().info;
    proxy.source_kind = "proxy".to_owned();
    proxy.write(&path).unwrap();
    let mut again = continued(&path, 60);
    again.provenance.source_kind = "proxy".to_owned();
    record_series(again, &statements_at(&[5, 10, 20, 30]));
    std::fs::rename(&away, &partial).unwrap();
    let mut log = Series::open(&path).unwrap().info;
    log.source_kind = "log".to_owned();
    log.write(&path).unwrap();
    let error = workload::recover(&partial).unwrap_err().to_string();
    assert!(error.contains("were captured again"), "{error}");
    assert!(partial.exists());
    std::fs::rename(&partial, &away).unwrap();
    let (_, info) = workload::recover(&away).unwrap();
    assert_eq!(info.statements, 2);
}

#[test]
fn capture_that_fails_before_its_first_part_leaves_no_series() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    drop(SeriesRecorder::create(options(&path, 60)).unwrap());
    assert!(!path.exists());
    kill_after(&path, &statements_at(&[0, 10]), Vec::new());
    assert!(path.exists());
    drop(SeriesRecorder::create(continued(&path, 60)).unwrap());
    assert!(path.exists());
}

#[test]
fn parts_at_the_end_that_a_killed_capture_has_left_are_reported() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10]));
    let live = SeriesOptions {
        is_live: true,
        ..continued(&path, 60)
    };
    let mut recorder = SeriesRecorder::create(live).unwrap();
    deliver(&mut recorder, &statements_at(&[70, 80]));
    recorder.checkpoint(i64::MAX / 2).unwrap();
    let killed = |range_us: (i64, i64)| {
        let all = WorkloadReader::open(&path).unwrap();
        let gaps = all.within(range_us.0, range_us.1).unwrap().gaps();
        gaps.iter()
            .filter(|gap| gap.contains("its capture was killed"))
            .count()
    };
    let everything = (i64::MIN, i64::MAX);
    assert_eq!(killed(everything), 0);
    drop(recorder);
    assert_eq!(killed(everything), 1);
    assert_eq!(killed((i64::MIN, START_US + 60 * SECOND_US)), 0);
    let until = |second: i64| {
        let all = WorkloadReader::open(&path).unwrap();
        all.within(i64::MIN, START_US + second * SECOND_US)
            .unwrap()
            .gaps()
    };
    assert!(
        until(75)
            .iter()
            .any(|gap| gap.contains("so what is read ends before"))
    );
    assert_eq!(until(10), [] as [String; 0]);
}

#[test]
fn session_of_a_recovered_part_keeps_the_address_of_its_client() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let live = SeriesOptions {
        is_live: true,
        ..options(&path, 60)
    };
    let mut recorder = SeriesRecorder::create(live).unwrap();
    deliver(&mut recorder, &statements_at(&[0, 10, 130]));
    recorder.checkpoint(i64::MAX / 2).unwrap();
    drop(recorder);
    for part in Series::open(&path).unwrap().unfinished {
        workload::recover(&part.path).unwrap();
    }
    let sessions = WorkloadReader::open(&path).unwrap().sessions().unwrap();
    let clients: Vec<String> = sessions
        .map(|session| session.unwrap().client.to_string())
        .collect();
    assert_eq!(clients, ["10.0.0.1"]);
}

#[test]
fn append_to_a_series_without_a_note_of_its_protection_has_that_of_its_newest_part() {
    let room = tempfile::tempdir().unwrap();
    let recipient = workload::Identity::generate().to_public();
    let key = MaskKey::parse("1".repeat(64).as_bytes()).unwrap();
    let with = |path: &Path, recipients: &[Recipient], is_masked: bool| SeriesOptions {
        recipients: recipients.to_vec(),
        mask: is_masked.then(|| Mask::new(key.clone())),
        ..options(path, 60)
    };
    let recipients = [recipient];
    for (recipients, is_masked) in [(&recipients[..], true), (&[], true), (&[], false)] {
        let path = room
            .path()
            .join(format!("{}{is_masked}.series", recipients.len()));
        record_series(with(&path, recipients, is_masked), &statements_at(&[0, 1]));
        let mut info = Series::open(&path).unwrap().info;
        info.protection = None;
        info.write(&path).unwrap();
        let append = |recipients: &[Recipient], is_masked: bool| {
            let append = true;
            SeriesRecorder::create(SeriesOptions {
                append,
                ..with(&path, recipients, is_masked)
            })
        };
        let other = workload::Identity::generate().to_public();
        let refused = [
            append(&[other], is_masked),
            append(&[], recipients.is_empty() != is_masked),
        ];
        for refused in refused {
            let error = refused.err().unwrap().to_string();
            assert!(
                error.contains("this capture would write parts that are"),
                "{error}"
            );
        }
        append(recipients, is_masked).unwrap();
    }
}

#[test]
fn append_after_a_kill_whose_part_has_lost_its_events_is_refused_with_what_to_do() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    kill_after(&path, &statements_at(&[0, 10, 20]), Vec::new());
    let partial = Series::open(&path).unwrap().unfinished.remove(0).path;
    let events = partial.join("events-00000.parquet");
    std::fs::write(&events, [0; 20_000]).unwrap();
    let _ = std::fs::remove_file(partial.join("events-00000.parquet.footer"));
    let refused = SeriesRecorder::create(continued(&path, 60)).err().unwrap();
    let error = refused.to_string();
    assert!(error.contains("has no event that can be read"), "{error}");
    // A part that was killed before its first checkpoint had none, and the log has them.
    std::fs::remove_file(partial.join("checkpoint.json")).unwrap();
    let status = record_series(continued(&path, 60), &statements_at(&[0, 10, 20, 30]));
    assert_eq!((status.statements, status.repeated_events), (3, 0));
}

#[test]
fn recovery_of_a_part_is_refused_while_its_series_is_locked_and_can_be_repeated() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    kill_after(&path, &statements_at(&[0, 10]), Vec::new());
    let partial = Series::open(&path).unwrap().unfinished.remove(0).path;
    let lock = DirectoryLock::try_exclusive(&path).unwrap().unwrap();
    let error = workload::recover(&partial).unwrap_err().to_string();
    assert!(error.contains("recover the part then"), "{error}");
    assert!(partial.exists());
    drop(lock);
    workload::recover(&partial).unwrap();
    let status = record_series(continued(&path, 60), &statements_at(&[0, 10, 20]));
    assert_eq!(status.repeated_events, 2);
}

#[test]
fn first_part_that_a_killed_capture_has_left_and_the_gap_after_it_are_reported() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let proxy = |append: bool| {
        let mut options = options(&path, 60);
        options.provenance.source_kind = "proxy".to_owned();
        SeriesOptions {
            append,
            is_live: true,
            ..options
        }
    };
    let mut recorder = SeriesRecorder::create(proxy(false)).unwrap();
    deliver(&mut recorder, &statements_at(&[0, 10, 70]));
    recorder.advance(START_US + 100 * SECOND_US).unwrap();
    recorder.checkpoint(i64::MAX / 2).unwrap();
    drop(recorder);
    let first = Series::open(&path).unwrap().parts.remove(0).path;
    std::fs::rename(&first, first.with_extension("workload.partial")).unwrap();
    record_series(proxy(true), &statements_at(&[200, 210]));
    assert_eq!(part_numbers(&path), [3]);
    let all = WorkloadReader::open(&path).unwrap();
    let count = |gaps: &[String], text: &str| gaps.iter().filter(|gap| gap.contains(text)).count();
    let gaps = all.gaps();
    assert_eq!(count(&gaps, "its capture was killed"), 2, "{gaps:?}");
    assert_eq!(count(&gaps, "nothing was captured from"), 1, "{gaps:?}");
    let later = all.within(START_US + 205 * SECOND_US, i64::MAX).unwrap();
    assert_eq!(later.gaps(), [] as [String; 0]);
}

#[test]
fn encrypted_series_is_continued_after_its_killed_parts_were_recovered_with_the_key() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let identity = workload::Identity::generate();
    let recipients = vec![identity.to_public()];
    let before = statements_at(&[0, 10, 70]);
    kill_after(&path, &before, recipients.clone());
    let again = || SeriesOptions {
        recipients: recipients.clone(),
        ..continued(&path, 60)
    };
    let refused = SeriesRecorder::create(again()).err().unwrap().to_string();
    assert!(refused.contains("rehearse recover"), "{refused}");
    let keyring = workload::Keyring::new([identity]);
    for part in Series::open(&path).unwrap().unfinished {
        // Another recovery was killed.
        let leftover = part
            .path
            .with_extension("")
            .with_extension("recovering.partial");
        std::fs::create_dir(leftover).unwrap();
        workload::recover_with(&part.path, &keyring).unwrap();
    }
    let status = record_series(again(), &statements_at(&[0, 10, 70, 80]));
    assert_eq!((status.repeated_events, status.statements), (3, 1));
}

#[test]
fn statement_that_ran_at_a_stop_is_not_captured_again_with_its_end() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let all = statements_lasting(&[(0, 1), (10, 100), (20, 1), (130, 1)]);
    let Delivery::Event(mut running) = all[2].clone() else {
        panic!("an event");
    };
    assert_eq!(running.outcome.duration_us, Some(100_000_000));
    running.outcome.duration_us = None;
    let stopped = [all[0].clone(), all[1].clone(), Delivery::Event(running)];
    record_series(options(&path, 60), &stopped);
    for (repeated, new) in [(3, 1), (4, 0)] {
        let status = record_series(continued(&path, 60), &all);
        assert_eq!((status.repeated_events, status.statements), (repeated, new));
    }
    assert_eq!(texts(&path).len(), 4);
}

#[test]
fn recovery_that_was_killed_after_its_note_counts_its_events_once() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    kill_after(&path, &statements_at(&[0, 10]), Vec::new());
    let partial = Series::open(&path).unwrap().unfinished.remove(0).path;
    let away = room.path().join("away.partial");
    std::fs::rename(&partial, &away).unwrap();
    repeated::copy_directory(&away, &partial);
    let (target, _) = workload::recover(&partial).unwrap();
    let running = Series::open(&path).unwrap().info.running;
    assert!(!running.is_empty());
    std::fs::remove_dir_all(&target).unwrap();
    std::fs::rename(&away, &partial).unwrap();
    workload::recover(&partial).unwrap();
    assert_eq!(Series::open(&path).unwrap().info.running, running);
}

#[test]
fn complete_parts_without_a_state_are_continued_by_their_events() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10, 70, 80]));
    let mut info = Series::open(&path).unwrap().info;
    info.state = workload::series::SeriesState::BeingCaptured;
    (info.noted_part, info.captured_to_us) = (0, None);
    info.running.clear();
    info.write(&path).unwrap();
    let all = statements_at(&[0, 10, 70, 80, 130]);
    let status = record_series(continued(&path, 60), &all);
    assert_eq!((status.repeated_events, status.statements), (4, 1));
    // A version without the number of the last part completed them.
    let mut info = Series::open(&path).unwrap().info;
    assert_eq!(info.noted_part, 3);
    info.noted_part = 0;
    info.write(&path).unwrap();
    drop(SeriesRecorder::create(continued(&path, 60)).unwrap());
    assert_eq!(Series::open(&path).unwrap().info.noted_part, 3);
}

#[test]
fn log_of_another_server_is_refused_before_its_events_if_the_series_is_continued() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    record_series(options(&path, 60), &statements_at(&[0, 10]));
    let refuse = |deliveries: &[Delivery]| {
        let mut recorder = SeriesRecorder::create(continued(&path, 60)).unwrap();
        deliver(&mut recorder, deliveries);
        let error = recorder.note_several_servers().unwrap_err().to_string();
        (error, Series::open(&path).unwrap().info.has_several_servers)
    };
    let advice = "give only the log of that server";
    let (error, is_marked) = refuse(&statements_at(&[0, 10]));
    assert!(error.contains(advice) && !is_marked, "{error}");
    record_series(continued(&path, 60), &statements_at(&[0, 10, 60]));
    // These parts can be of the second server, so the advice would be refused.
    let (error, is_marked) = refuse(&statements_at(&[0, 10, 60, 70]));
    assert!(error.contains("cannot be continued"), "{error}");
    assert!(!error.contains(advice) && is_marked, "{error}");
    let refused = SeriesRecorder::create(continued(&path, 60)).err().unwrap();
    assert_eq!(refused.to_string(), error);
}

#[test]
fn series_with_the_logs_of_several_servers_is_not_continued_after_a_kill() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("all.series");
    let mut recorder = SeriesRecorder::create(options(&path, 60)).unwrap();
    deliver(&mut recorder, &statements_at(&[0]));
    recorder.note_several_servers().unwrap();
    deliver(&mut recorder, &statements_at(&[100]));
    // Its first part is completed, and nothing marks the series as complete.
    drop(recorder);
    let refused = SeriesRecorder::create(continued(&path, 60)).err().unwrap();
    let reason = refused.to_string();
    assert!(reason.contains("logs of several servers"), "{reason}");
}
