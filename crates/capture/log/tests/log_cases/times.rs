//! Times of which the log does not tell the zone or the year.

use super::files::{Files, read};

/// The time of the first statement, in hours since midnight UTC, and the notes.
fn hour(log: &str, time_zone: Option<&str>) -> (f64, String) {
    let captured = Files::one(log).try_read_in(time_zone).unwrap();
    let statement = captured
        .events
        .iter()
        .find(|event| event.kind.is_statement());
    let due_us = statement.unwrap().due_us.rem_euclid(86_400_000_000);
    (
        (due_us / 36_000_000) as f64 / 100.0,
        captured.report.sources[0].notes.join("; "),
    )
}

#[test]
fn an_abbreviation_of_several_countries_is_resolved_or_reported() {
    let plain = |time: &str| {
        format!(
            "2026-11-26 {time} [31] alice@shop LOG:  connection authorized: user=alice database=shop\n2026-11-26 {time} [31] alice@shop LOG:  statement: select 1\n"
        )
    };
    let (found, notes) = hour(&plain("08:18:06.000 CST"), None);
    assert_eq!(found, 14.3);
    assert!(
        notes.contains("China") && notes.contains("--log-timezone"),
        "{notes}"
    );
    for (time, zone, wanted) in [
        ("08:18:06.000 CST", "Asia/Shanghai", 0.3),
        ("08:18:06.000 IST", "Asia/Kolkata", 2.8),
        ("08:18:06.000 PST", "+08", 0.3),
    ] {
        assert_eq!(
            hour(&plain(time), Some(zone)),
            (wanted, String::new()),
            "{time}"
        );
    }
    // %c has the session's start in UTC: 2026-11-26 00:18:00.
    let with_start = |time: &str| {
        format!("2026-11-26 {time} [31] 6a264c48.1f alice@shop LOG:  statement: select 1\n")
    };
    let start = 1_795_652_280u64;
    let log = with_start("08:18:06.000 CST").replace("6a264c48", &format!("{start:x}"));
    let (found, notes) = hour(&log, None);
    assert_eq!(found, 0.3, "{notes}");
    assert!(notes.contains("China"), "{notes}");
    // log_timezone = 'GMT+3'
    let log = log
        .replace("08:18:06.000 CST", "21:18:06.000 GMT")
        .replace("11-26 21", "11-25 21");
    assert_eq!(hour(&log, None).0, 0.3);
    let refused = Files::one(&plain("08:18:06.000 CST")).try_read_in(Some("Mars/Base"));
    assert!(refused.err().unwrap().to_string().contains("Asia/Kolkata"));
}

#[test]
fn irelands_summer_time_goes_on() {
    let log = "\
2026-03-29 00:59:58.000 GMT [77] alice@shop LOG:  connection authorized: user=alice database=shop
2026-03-29 00:59:58.000 GMT [77] alice@shop LOG:  statement: select 1
2026-03-29 00:59:59.000 GMT [77] alice@shop LOG:  statement: select 2
2026-03-29 02:00:01.000 IST [77] alice@shop LOG:  statement: select 3
2026-03-29 02:00:02.000 IST [77] alice@shop LOG:  statement: select 4
";
    let captured = read(log);
    assert_eq!(captured.pauses_ms(), [1_000, 2_000, 1_000]);
    assert!(captured.report.sources[0].notes.is_empty());
    // Times that go back are reported.
    let back = log.replace("IST", "EEST");
    let notes = read(&back).report.sources[0].notes.join("; ");
    assert!(notes.contains("2 of its messages"), "{notes}");
}

#[test]
fn times_without_a_zone_follow_the_given_one() {
    let log = "\
Oct 25 02:59:58 db1 postgres[901]: [1-1] user=app,db=shop LOG:  statement: select 1
Oct 25 02:00:01 db1 postgres[901]: [2-1] user=app,db=shop LOG:  statement: select 2
Oct 25 02:00:02 db1 postgres[901]: [3-1] user=app,db=shop LOG:  statement: select 3
";
    let captured = Files::one(log).try_read_in(Some("Europe/Berlin")).unwrap();
    assert_eq!(captured.pauses_ms(), [3_000, 1_000]);
}

#[test]
fn february_29_in_a_syslog_decides_the_year() {
    let log = "\
Feb 28 23:59:58 db1 postgres[901]: [1-1] user=app,db=shop LOG:  duration: 1.000 ms  statement: select 1
Feb 29 00:00:01 db1 postgres[901]: [2-1] user=app,db=shop LOG:  duration: 1.000 ms  statement: select 2
Mar  1 00:00:01 db1 postgres[901]: [3-1] user=app,db=shop LOG:  duration: 1.000 ms  statement: select 3
";
    let captured = read(log);
    assert_eq!(captured.pauses_ms(), [3_000, 86_400_000]);
}
