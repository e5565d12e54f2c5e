//! Begins, stops, continues and shortens series.

use workload::DirectoryLock;

use super::*;

/// A session with a statement at each of these seconds after [`START_US`].
fn statements_at(seconds: &[i64]) -> Vec<Delivery> {
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

fn part_numbers(path: &Path) -> Vec<u64> {
    let series = Series::open(path).unwrap();
    series.parts.iter().map(|part| part.member.number).collect()
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
