//! Checks that real servers' logs in the envelopes of services have the events of the logs
//! themselves.

mod normal;
mod wrapping;

use capture_log::{LogError, LogFormat, LogReport, SkipReason, UnreadableReason, capture_bytes};
use capture_sink::EventCollector;
use normal::{check_laws, normal_form};
use workload::EventKind;
use wrapping::*;

/// Settings of several kinds: started and ended lines, cut parameters, and verbose lines with
/// RDS's prefix.
const LOGS: [(&str, &str, &str); 4] = [
    (
        "both",
        include_str!("fixtures/both.log"),
        include_str!("fixtures/both.csv"),
    ),
    (
        "ended",
        include_str!("fixtures/ended.log"),
        include_str!("fixtures/ended.csv"),
    ),
    (
        "cut",
        include_str!("fixtures/cut.log"),
        include_str!("fixtures/cut.csv"),
    ),
    (
        "verbose",
        include_str!("fixtures/verbose.log"),
        include_str!("fixtures/verbose.csv"),
    ),
];

fn lines(text: &str) -> u64 {
    text.split_inclusive('\n').count() as u64
}

fn try_read(
    text: &str,
    format: Option<LogFormat>,
) -> Result<(EventCollector, LogReport), LogError> {
    let mut collected = EventCollector::default();
    let report = capture_bytes(Vec::from(text), format, None, &mut collected)?;
    let account = &report.reconciliation;
    assert_eq!(account.lines, lines(text), "{account:?}");
    assert!(account.adds_up(), "{account:?}");
    assert_eq!(account.events, collected.events.len() as u64);
    check_laws(&collected);
    Ok((collected, report))
}

fn read(text: &str) -> (EventCollector, LogReport) {
    try_read(text, None).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that every line is read in that format, into the events of `plain`.
fn same(name: &str, plain: &str, wrapped: &str, format: &str) -> (EventCollector, LogReport) {
    let (collected, report) = read(wrapped);
    assert_eq!(report.sources[0].file.format, format, "{name}");
    let account = &report.reconciliation;
    assert_eq!(account.unreadable.lines, 0, "{name}: {account:?}");
    let (expected, _) = read(plain);
    let (found, expected_form) = (normal_form(&collected), normal_form(&expected));
    for (found, expected) in found.lines().zip(expected_form.lines()) {
        let differs = found
            .bytes()
            .zip(expected.bytes())
            .position(|(a, b)| a != b);
        let around = |text: &str| {
            let from = differs.unwrap_or(0).saturating_sub(40);
            text.chars().skip(from).take(120).collect::<String>()
        };
        assert!(
            found == expected,
            "{name}: found …{}… instead of …{}…",
            around(found),
            around(expected)
        );
    }
    assert_eq!(found.len(), expected_form.len());
    for (a, b) in collected.events.iter().zip(&expected.events) {
        assert_eq!(
            (a.due_us, a.outcome),
            (b.due_us, b.outcome),
            "{name}: {a:?}"
        );
    }
    (collected, report)
}

#[test]
fn fact_23_syslog_of_every_setting_and_daemon() {
    for (name, log, _) in LOGS {
        let reports = reports(log);
        for (header, numbers, split, interleaved) in [
            (SyslogHeader::Rfc3164, true, true, false),
            (SyslogHeader::Iso, true, true, true),
            (SyslogHeader::Rfc5424, false, true, false),
            (SyslogHeader::Rfc3164, false, true, true),
            (SyslogHeader::Iso, true, false, false),
            (SyslogHeader::Rfc5424, false, false, false),
        ] {
            let style = SyslogStyle {
                header,
                numbers,
                split,
                interleaved,
                ..SYSLOG
            };
            let wrapped = syslog(&reports, style);
            let (_, report) = same(&format!("{name} {style:?}"), log, &wrapped, "syslog");
            let prefix = read(log).1.sources[0].prefix.clone();
            assert_eq!(report.sources[0].prefix, prefix);
        }
        let style = SyslogStyle {
            escapes: ["\t", "\n"],
            ..SYSLOG
        };
        same(name, log, &syslog(&reports, style), "syslog");
        let style = SyslogStyle {
            escapes: ["^I", ""],
            ..SYSLOG
        };
        same(name, log, &syslog(&reports, style), "syslog");
    }
}

/// Writes a log of one statement for each session, all at once, with text of several parts.
fn long(sessions: u32) -> String {
    let mut log = String::new();
    let word = |length: usize| "x".repeat(length);
    for session in 0..sessions {
        let pid = 100 + session;
        let start = format!(
            "2026-03-01 09:30:05.{:03} UTC [{pid}] u@d ",
            session % 1_000
        );
        // Words of many lengths, up to ones that fit no part, and umlauts across a part's end.
        let mut sql = "select '".to_owned();
        for index in 0..60 + session % 7 {
            let length = (index * 37 + session * 11) as usize % 150;
            sql.push_str(&word(length));
            sql.push_str(
                [" ", "  ", "\n\t", "\n\t\t\t", "ä", ", "][(index + session) as usize % 6],
            );
        }
        sql.push_str(&word(2_000));
        sql.push_str(&"ü".repeat(1_000));
        sql.push_str("\n\t'");
        log.push_str(&format!(
            "{start}LOG:  duration: 1.000 ms  execute <unnamed>: {sql}\n"
        ));
        log.push_str(&format!(
            "{start}DETAIL:  Parameters: $1 = '{}'\n",
            word(1_500)
        ));
    }
    log
}

#[test]
fn syslogs_parts_are_put_together_though_many_sessions_write_at_once() {
    let log = long(40);
    let reports = reports(&log);
    let style = SyslogStyle {
        interleaved: true,
        ..SYSLOG
    };
    let wrapped = syslog(&reports, style);
    assert!(lines(&wrapped) > 40 * 15);
    let (collected, _) = same("long", &log, &wrapped, "syslog");
    assert_eq!(collected.sessions.len(), 40);
}

#[test]
fn fact_23_cloudwatch_in_each_of_its_shapes() {
    for (name, log, _) in LOGS {
        let reports = reports(log);
        same(name, log, &cloudwatch_export(&reports), "cloudwatch");
        same(name, log, &cloudwatch_tail(&reports), "cloudwatch");
        same(name, log, &cloudwatch_json(&reports), "cloudwatch");
    }
}

#[test]
fn fact_23_cloud_sql_and_alloydb() {
    for (name, log, _) in LOGS {
        let reports = reports(log);
        let entries = cloudsql_entries(&reports);
        same(name, log, &json_lines(&entries), "cloudsql");
        same(name, log, &printed(&entries), "cloudsql");
        let entries = alloydb_entries(&reports);
        same(name, log, &json_lines(&entries), "cloudsql");
    }
}

#[test]
fn cloud_sqls_entries_of_one_millisecond_may_stand_between_each_other() {
    let log = long(2);
    let mut entries = cloudsql_entries(&reports(&log));
    let same_time = |text: &str| text.replace("05.001", "05.000");
    entries.swap(1, 2);
    let wrapped = same_time(&json_lines(&entries));
    same("swapped", &same_time(&log), &wrapped, "cloudsql");
}

#[test]
fn fact_23_azure_has_messages_and_details_and_nothing_else() {
    for (name, log, _) in LOGS {
        let reports = reports(log);
        let plain = as_azure_has_it(&reports);
        let records = azure_records(&reports);
        same(name, &plain, &json_lines(&records), "azure");
        // Event hubs hold several in one.
        let several: String = records
            .chunks(3)
            .map(|records| format!("{}\n", serde_json::json!({"records": records})))
            .collect();
        same(name, &plain, &several, "azure");
    }
}

#[test]
fn fact_23_cloudnativepg_has_csvlogs_columns_by_name() {
    for (name, _, csv) in LOGS {
        let wrapped = cnpg_lines(csv);
        same(name, csv, &wrapped, "cnpg");
        let with_kubectls: String = wrapped
            .lines()
            .map(|line| format!("[pod/shop-1/postgres] {line}\n"))
            .collect();
        same(name, csv, &with_kubectls, "cnpg");
    }
}

#[test]
fn a_window_of_any_size_reads_the_same() {
    // More than one window of a MiB, so that messages lie across its end.
    let log = long(220);
    let reports = reports(&log);
    let style = SyslogStyle {
        interleaved: true,
        ..SYSLOG
    };
    for (wrapped, format) in [
        (syslog(&reports, style), "syslog"),
        (printed(&cloudsql_entries(&reports)), "cloudsql"),
        (cloudwatch_export(&reports), "cloudwatch"),
    ] {
        assert!(wrapped.len() > 1 << 20, "{}", wrapped.len());
        same(format, &log, &wrapped, format);
    }
}

#[test]
fn a_prefix_without_time_or_process_leaves_them_to_the_wrapper() {
    let start = "Mar  1 09:30:0";
    let text = format!(
        "{start}5 db1 postgres[77]: [1-1] LOG:  connection received: host=10.0.0.1 port=5000\n\
         {start}5 db1 postgres[77]: [2-1] LOG:  connection authorized: user=app database=shop\n\
         {start}6 db1 CRON[9]: (root) CMD (true)\n\
         {start}6 db1 postgres[77]: [3-1] LOG:  duration: 1000.000 ms  execute S_1: select $1,\n\
         {start}6 db1 postgres[77]: [3-2] #011  2\n\
         {start}6 db1 postgres[77]: [3-3] DETAIL:  Parameters: $1 = 'a#011b'\n\
         {start}7 db2 postgres[77]: [9-1] LOG:  statement: select 'of another host'\n\
         {start}7 db1 postgres[77]: [4-1] LOG:  disconnection: session time: 0:00:02.000 user=app database=shop host=10.0.0.1 port=5000\n"
    );
    let (collected, report) = read(&text);
    let account = &report.reconciliation;
    assert_eq!(account.unreadable.lines, 0, "{account:?}");
    assert_eq!(account.skipped[&SkipReason::OtherProgram].lines, 1);
    assert_eq!(account.skipped[&SkipReason::OtherServer].lines, 1);
    assert_eq!(account.skipped[&SkipReason::OtherServer].first.line, 7);
    assert_eq!(report.sources[0].prefix.as_deref(), Some(""));
    assert_eq!(collected.sessions.len(), 1);
    let due: Vec<i64> = collected
        .events
        .iter()
        .map(|event| (event.due_us - collected.events[0].due_us) / 1_000_000)
        .collect();
    assert_eq!(due, [0, 0, 2]);
    let statement = &collected.events[1];
    assert_eq!(
        statement.kind.sql().map(|sql| &**sql),
        Some("select $1,\n  2")
    );
    assert_eq!((statement.source, statement.line), (0, 4));
    let notes = report.sources[0].notes.join("\n");
    assert!(notes.contains("neither year nor zone"), "{notes}");
}

#[test]
fn what_a_wrapper_knows_is_not_guessed_from_the_prefix() {
    // Without a time, with the process once more, or with names only.
    for (own, prefix) in [
        ("[77] ", "[%p] "),
        ("app@shop ", "%q%u@%d "),
        ("user=app,db=shop ", "user=%u,db=%d "),
        ("2026-03-01 09:30:05.123 UTC ", "%m "),
    ] {
        let text = format!(
            "2026-03-01T09:30:05.200000+00:00 db1 postgres[77]: [1-1] {own}LOG:  connection authorized: user=app database=shop\n\
             2026-03-01T09:30:05.300000+00:00 db1 postgres[77]: [2-1] {own}LOG:  statement: select 1\n\
             2026-03-01T09:30:05.300000+00:00 db1 postgres[77]: [3-1] {own}LOG:  statement: select 2\n"
        );
        let (collected, report) = read(&text);
        assert_eq!(report.sources[0].prefix.as_deref(), Some(prefix));
        assert_eq!(collected.sessions.len(), 1, "{prefix}");
        assert_eq!(collected.events.len(), 3, "{prefix}");
        let session = &collected.sessions[0];
        assert_eq!((&*session.user, &*session.database), ("app", "shop"));
        assert!(collected.events[2].due_us > 1_772_357_405_000_000);
    }
}

/// Returns the place of and the reason for unreadable lines.
fn unreadable(text: &str) -> Vec<(u64, u64, UnreadableReason)> {
    let first = read(text).1.reconciliation.unreadable.first;
    first
        .iter()
        .map(|line| (line.at.line, line.lines, line.reason))
        .collect()
}

#[test]
fn a_missing_part_spoils_its_message_and_no_other() {
    let log = long(3);
    let whole = syslog(&reports(&log), SYSLOG);
    let all: Vec<&str> = whole.split_inclusive('\n').collect();
    let of = |pid: u32| {
        all.iter()
            .filter(|line| line.contains(&format!("[{pid}]")))
            .count()
    };
    let without = |missing: usize| {
        let mut all = all.clone();
        all.remove(missing);
        all.concat()
    };
    // The first of its parts, one in the middle, and then a whole message.
    assert_eq!(
        unreadable(&without(of(100))),
        [(
            of(100) as u64 + 1,
            of(101) as u64 - 1,
            UnreadableReason::LooseContinuation
        )]
    );
    assert_eq!(
        unreadable(&without(of(100) + 3)),
        [(
            of(100) as u64 + 1,
            of(101) as u64 - 1,
            UnreadableReason::PartMissing
        )]
    );
    let (collected, _) = read(&without(of(100) + 3));
    assert_eq!(collected.sessions.len(), 2);
    // Cut within the last part: its message is incomplete, and no other.
    let cut = &whole[..whole.len() - 3];
    assert_eq!(
        unreadable(cut),
        [(
            (of(100) + of(101)) as u64 + 1,
            of(102) as u64,
            UnreadableReason::CutAtEnd
        )]
    );
}

#[test]
fn newlines_within_syslogs_later_parts_are_folded_as_in_the_first() {
    let line =
        |part: u32, text: &str| format!("Mar  1 09:30:05 db1 postgres[7]: [3-{part}] {text}\n");
    let log = [
        line(
            1,
            "2026-03-01 09:30:05.000 UTC [7] LOG:  statement: select 1,",
        ),
        line(2, "#0112,#0123,"),
        line(
            3,
            "#0114#0122026-03-01 09:30:05.000 UTC [7] LOG:  is no entry here",
        ),
    ];
    let (collected, report) = read(&log.concat());
    let sql = match &collected.events[1].kind {
        EventKind::Simple { sql } => &**sql,
        other => panic!("{other:?}"),
    };
    let forged = "2026-03-01 09:30:05.000 UTC [7] LOG:  is no entry here";
    assert_eq!(sql, format!("select 1,\n2,\n3,\n4\n{forged}"));
    assert_eq!(report.reconciliation.lines_in_events, 3);
}

#[test]
fn damaged_records_are_unreadable_alone() {
    let reports = reports(LOGS[0].1);
    let entries = cloudsql_entries(&reports);
    let azure = azure_records(&reports);
    for (text, format) in [
        (json_lines(&entries), "cloudsql"),
        (json_lines(&azure), "azure"),
        (cnpg_lines(LOGS[0].2), "cnpg"),
    ] {
        let mut all: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        let count = all.len();
        all[20].truncate(30);
        all[20].push('\n');
        all.insert(30, "no JSON\n".to_owned());
        all.insert(40, "{\"a\":1}\n".to_owned());
        let (_, report) = read(&all.concat());
        assert_eq!(report.sources[0].file.format, format);
        let account = &report.reconciliation;
        assert_eq!(account.lines, count as u64 + 2);
        let lines: Vec<u64> = account
            .unreadable
            .first
            .iter()
            .map(|line| line.at.line)
            .collect();
        assert_eq!(lines, [21, 31, 41], "{format}: {:?}", account.unreadable);
    }
    // An object of a printed document without its end.
    let text = printed(&entries).replacen("\n  },", "\n  ", 1);
    let (_, report) = read(&text);
    let account = &report.reconciliation.unreadable;
    assert_eq!(account.first[0].at.line, 2, "{account:?}");
    assert!(account.lines < 50, "{account:?}");
}

#[test]
fn other_programs_and_servers_are_skipped_and_said() {
    let reports = reports(LOGS[1].1);
    let mut entries = cloudsql_entries(&reports);
    entries[5]["logName"] = "projects/p/logs/cloudsql.googleapis.com%2Fpostgres-audit.log".into();
    entries[6]["resource"]["labels"]["database_id"] = "p:other".into();
    let (_, report) = read(&json_lines(&entries));
    let skipped = &report.reconciliation.skipped;
    assert_eq!(skipped[&SkipReason::OtherProgram].lines, 1);
    assert_eq!(skipped[&SkipReason::OtherServer].first.line, 7);
    let mut lines: Vec<String> = cnpg_lines(LOGS[1].2).lines().map(str::to_owned).collect();
    lines[3] = "{\"level\":\"info\",\"ts\":\"x\",\"logger\":\"instance-manager\",\"msg\":\"m\"}"
        .to_owned();
    lines[4] = lines[4].replace("shop-1", "shop-2");
    lines[5] = lines[5].replace("\"logger\":\"postgres\"", "\"logger\":\"pgaudit\"");
    let (_, report) = read(&(lines.join("\n") + "\n"));
    let skipped = &report.reconciliation.skipped;
    assert_eq!(skipped[&SkipReason::OtherProgram].first.line, 4);
    assert_eq!(skipped[&SkipReason::OtherServer].first.line, 5);
    assert_eq!(skipped[&SkipReason::Audit].first.line, 6);
}

#[test]
fn newest_first_is_refused_with_what_to_do() {
    let reports = reports(LOGS[0].1);
    let mut entries = cloudsql_entries(&reports);
    entries.reverse();
    for text in [printed(&entries), json_lines(&entries)] {
        let error = try_read(&text, None).unwrap_err().to_string();
        assert!(error.contains("--order=asc"), "{error}");
        assert!(!error.contains('\n'));
    }
}

#[test]
fn fact_19_a_translated_log_is_refused_in_every_wrapper() {
    let german = |log: &str| {
        log.replace("LOG:  duration: ", "LOG:  Dauer: ")
            .replace("ERROR:  ", "FEHLER:  ")
            .replace("STATEMENT:  ", "ANWEISUNG:  ")
    };
    let reports = reports(LOGS[1].1);
    let german_json = |text: String| {
        text.replace("LOG:  duration: ", "LOG:  Dauer: ")
            .replace("\"ERROR\"", "\"FEHLER\"")
    };
    for text in [
        german(&syslog(&reports, SYSLOG)),
        german(&cloudwatch_export(&reports)),
        german(&cloudwatch_json(&reports)),
        german(&printed(&cloudsql_entries(&reports))),
        german_json(json_lines(&azure_records(&reports))),
        german_json(cnpg_lines(LOGS[1].2)),
        cnpg_lines(LOGS[1].2).replace("\"duration: ", "\"Dauer: "),
    ] {
        let error = try_read(&text, None).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("{}", &text[..1_000]));
        assert!(error.contains("lc_messages = 'C'"), "{error}");
    }
}

#[test]
fn the_format_can_be_given_and_must_then_be_that() {
    let reports = reports(LOGS[0].1);
    let text = syslog(&reports, SYSLOG);
    let (_, report) = try_read(&text, Some(LogFormat::Syslog)).unwrap();
    assert_eq!(report.sources[0].file.format, "syslog");
    for format in [LogFormat::Azure, LogFormat::Cnpg, LogFormat::CloudSql] {
        let error = try_read(&text, Some(format)).unwrap_err().to_string();
        assert!(
            error.contains(&format!("--format {}", format.name())),
            "{error}"
        );
    }
    let mut collected = EventCollector::default();
    let prefix = "%m [%p] %c %l %u@%d %e %r %a ";
    let report = capture_bytes(text.clone(), None, Some(prefix), &mut collected).unwrap();
    assert_eq!(report.sources[0].file.format, "syslog");
    let wrong = capture_bytes(text, None, Some("[%p]: "), &mut collected).unwrap_err();
    assert!(wrong.to_string().contains("look as if"), "{wrong}");
    for format in LogFormat::ALL {
        assert_eq!(LogFormat::from_name(format.name()), Some(format));
        let json = serde_json::to_string(&format).unwrap();
        assert_eq!(json, format!("\"{}\"", format.name()));
    }
}
