//! Checks that nothing is lost silently: after any damage to a log, each of its lines is in an
//! event, skipped or unreadable, and the events keep their invariants.

mod normal;
#[allow(dead_code, reason = "other tests need the rest")]
mod wrapping;

use std::path::Path;
use std::sync::LazyLock;

use capture_log::{
    Input, LogError, LogOptions, LogReport, SkipReason, UnreadableReason, capture, capture_bytes,
};
use capture_sink::{EventCollector, EventSink, SinkError};
use normal::{check_laws, normal_form};
use proptest::prelude::*;
use workload::{EventRef, ServerEvent, Session};

const STDERR: &[u8] = include_bytes!("fixtures/both.log");
const CSV: &[u8] = include_bytes!("fixtures/both.csv");
const JSON: &[u8] = include_bytes!("fixtures/both.json");

/// The logs in every format and envelope; and whether a record marks its own end, so that one
/// without a newline after it may be whole.
static ALL: LazyLock<Vec<(Vec<u8>, bool)>> = LazyLock::new(|| {
    use wrapping::*;
    let log = std::str::from_utf8(STDERR).unwrap();
    let reports = reports(log);
    let interleaved = SyslogStyle {
        interleaved: true,
        ..SYSLOG
    };
    let mut all: Vec<(Vec<u8>, bool)> = [STDERR, CSV, JSON]
        .iter()
        .map(|bytes| (bytes.to_vec(), false))
        .collect();
    for text in [
        syslog(&reports, SYSLOG),
        syslog(&reports, interleaved),
        cloudwatch_export(&reports),
    ] {
        all.push((text.into_bytes(), false));
    }
    for text in [
        cloudwatch_json(&reports),
        json_lines(&cloudsql_entries(&reports)),
        printed(&cloudsql_entries(&reports)),
        json_lines(&azure_records(&reports)),
        cnpg_lines(std::str::from_utf8(CSV).unwrap()),
    ] {
        all.push((text.into_bytes(), true));
    }
    all
});

/// Indices of the formats whose records are printed over several lines.
const PRINTED: [usize; 2] = [6, 8];

/// Number of formats.
const FORMATS: usize = 11;

/// The longest entry has nine lines, and a printed record of Cloud Logging has 24; one may be cut
/// at each end. In syslog's format, one may be cut for each of the sessions that write in turn.
const LOST_MOST: u64 = 50;

fn lines(bytes: &[u8]) -> u64 {
    let whole = bytes.iter().filter(|byte| **byte == b'\n').count();
    (whole + usize::from(!bytes.is_empty() && !bytes.ends_with(b"\n"))) as u64
}

/// Captures, and checks the invariants; `None` if nothing of a log is left.
fn checked(bytes: Vec<u8>) -> Option<(EventCollector, LogReport)> {
    let count = lines(&bytes);
    let mut collected = EventCollector::default();
    let report = match capture_bytes(bytes, None, None, &mut collected) {
        Ok(report) => report,
        Err(
            LogError::NotALog { .. }
            | LogError::NotThatFormat { .. }
            | LogError::NoOnePrefix { .. }
            | LogError::Unsupported { .. }
            | LogError::PrefixUndecided { .. }
            | LogError::PrefixLacks { .. }
            // A damaged letter of UTC.
            | LogError::Zone { .. }
            | LogError::Binary { .. },
        ) => return None,
        Err(error) => panic!("{error}"),
    };
    let account = &report.reconciliation;
    assert_eq!(account.lines, count);
    assert!(account.adds_up(), "{account:?}");
    assert_eq!(account.events, collected.events.len() as u64);
    assert_eq!(
        account.unreadable.reasons.values().sum::<u64>(),
        account.unreadable.lines
    );
    check_laws(&collected);
    Some((collected, report))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_support::cases(300)))]

    #[test]
    fn cutting_a_log_anywhere_loses_at_most_the_cut_entry_and_says_so(format in 0..FORMATS, from in 0usize..20_000, to in 0usize..200_000) {
        let (whole, ends_by_itself) = &ALL[format];
        let to = to % whole.len() + 1;
        let from = from.min(to);
        let cut = whole[from..to].to_vec();
        // A missing indentation is not noticed; nor, in a list printed over lines, the end of a
        // record; nor a record of which only its newline is left.
        let spare: &[u8] = if PRINTED.contains(&format) { b" }]," } else { b" " };
        let before = whole[..from].rsplit(|byte| *byte == b'\n').next();
        let starts_whole = before.is_none_or(|before| before.iter().all(|byte| spare.contains(byte)))
            || cut.trim_ascii_start().first().is_some_and(|first| spare.contains(first))
            || cut.starts_with(b"\n");
        let ends_whole = cut.ends_with(b"\n");
        if let Some((_, report)) = checked(cut) {
            let unreadable = &report.reconciliation.unreadable;
            prop_assert!(unreadable.lines <= LOST_MOST, "{:?}", unreadable);
            if !starts_whole || !(ends_whole || *ends_by_itself) {
                prop_assert!(unreadable.lines > 0);
            }
        }
    }

    #[test]
    fn garbage_between_lines_is_counted_and_ends_nothing(
        format in 0..FORMATS,
        garbage in prop::collection::vec((0usize..400, prop_oneof!["[ -~]{0,40}", ".{0,40}", Just("\"".to_owned()), Just("\t\"x".to_owned())]), 1..12),
    ) {
        let mut all: Vec<Vec<u8>> = ALL[format].0.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for (place, line) in &garbage {
            let place = place % all.len();
            let mut line = line.replace('\n', " ").into_bytes();
            line.push(b'\n');
            all.insert(place, line);
        }
        let (collected, _) = checked(all.concat()).expect("most of the log is left");
        prop_assert!(collected.events.len() > 20);
    }

    #[test]
    fn shuffled_and_damaged_bytes_keep_the_account(format in 0..FORMATS, damage in prop::collection::vec((0usize..60_000, any::<u8>()), 1..20)) {
        let mut bytes = ALL[format].0.clone();
        for (place, byte) in damage {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        checked(bytes);
    }
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> Input {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    Input::Path(path)
}

fn captured(inputs: Vec<Input>) -> Result<(EventCollector, LogReport), LogError> {
    let mut collected = EventCollector::default();
    let options = LogOptions {
        inputs,
        ..LogOptions::default()
    };
    let report = capture(options, &mut collected)?;
    assert!(report.reconciliation.adds_up());
    check_laws(&collected);
    Ok((collected, report))
}

/// Splits at a line that starts an entry, about in the middle.
fn halves() -> (&'static [u8], &'static [u8]) {
    let text = std::str::from_utf8(STDERR).unwrap();
    let cut = text.find("LOG:  statement: COMMIT").unwrap();
    let cut = text[..cut].rfind('\n').unwrap() + 1;
    STDERR.split_at(cut)
}

#[test]
fn fact_23_rotated_and_compressed_files_are_read_in_the_order_of_their_times() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = halves();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, second).unwrap();
    let inputs = vec![
        write(directory.path(), "a.log", &gzip.finish().unwrap()),
        write(
            directory.path(),
            "b.log.gz",
            &zstd::encode_all(first, 1).unwrap(),
        ),
        write(directory.path(), "c.log", b""),
    ];
    let (collected, report) = captured(inputs).unwrap();
    let mut whole = EventCollector::default();
    capture_bytes(STDERR, None, None, &mut whole).unwrap();
    assert_eq!(normal_form(&collected), normal_form(&whole));
    let formats: Vec<&str> = report
        .sources
        .iter()
        .map(|source| source.file.format.as_str())
        .collect();
    assert_eq!(formats, ["empty", "stderr", "stderr"]);
    assert!(report.sources[1].file.name.ends_with("b.log.gz"));
    assert_eq!(report.sources[1].file.bytes, first.len() as u64);
}

#[test]
fn files_that_cannot_be_captured_are_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let empty = write(directory.path(), "empty.log", b"");
    let foreign = write(directory.path(), "photo.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF");
    for (inputs, words) in [
        (vec![], "no log was given"),
        (vec![empty], "is empty"),
        (vec![foreign], "no PostgreSQL log"),
        (
            vec![Input::Path(directory.path().join("none.log"))],
            "cannot read",
        ),
        (
            vec![Input::Path(directory.path().to_owned())],
            "cannot read",
        ),
    ] {
        let error = captured(inputs).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn an_entry_of_a_hundred_megabytes_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let value = "x".repeat(100 << 20);
    let start = "2026-03-01 09:00:00.000 UTC [7] ";
    let text =
        format!("{start}LOG:  statement: select '{value}'\n{start}LOG:  statement: select 1\n");
    let (collected, _) =
        captured(vec![write(directory.path(), "big.log", text.as_bytes())]).unwrap();
    assert_eq!(collected.events.len(), 3);
    assert_eq!(
        collected.events[1].kind.sql().unwrap().len(),
        value.len() + 9
    );
}

#[test]
fn an_entry_that_is_too_long_is_skipped_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let start = "2026-03-01 09:00:00.000 UTC [7] ";
    let long = "x".repeat(300 << 20);
    for (name, rest) in [("line", long.clone()), ("tail", format!("y\n\t{long}"))] {
        let text = format!(
            "{start}LOG:  statement: select 1\n{start}LOG:  statement: select '{rest}'\n{start}LOG:  statement: select 2\n"
        );
        let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
        assert!(packed.len() < 100_000);
        let (collected, report) = captured(vec![write(directory.path(), name, &packed)]).unwrap();
        let statements: Vec<&std::sync::Arc<str>> = collected
            .events
            .iter()
            .filter_map(|event| event.kind.sql())
            .collect();
        assert_eq!(statements, [&"select 1".into(), &"select 2".into()]);
        let account = &report.reconciliation;
        assert!(account.adds_up());
        let reason = account.unreadable.first[0].reason;
        assert_eq!(reason, UnreadableReason::TooLong);
        assert_eq!(account.unreadable.lines, text.lines().count() as u64 - 2);
    }
}

#[test]
fn lines_of_a_quoted_text_that_is_too_long_are_no_entries() {
    let record = |number: u32, message: &str| {
        format!(
            "2026-03-01 09:00:00.000 UTC,\"app\",\"shop\",7,\"[local]\",69a3f0f0.7,{number},\"SELECT\",2026-03-01 09:00:00 UTC,3/1,0,LOG,00000,{message},,,,,,,,,\"psql\",\"client backend\",,0\n"
        )
    };
    // Quotes in a text are doubled, so what is forged has none.
    let forged = record(8, "statement: drop table customers").replace('"', "");
    let long = format!(
        "\"statement: select 'x\n{forged}{}\n{forged}y'\"",
        "x".repeat(300 << 20)
    );
    let directory = tempfile::tempdir().unwrap();
    let first = record(1, "\"statement: select 1\"") + &record(2, &long);
    let last = record(3, "\"statement: select 2\"");
    let quoted_end = first.rfind("y'\"").unwrap();
    for (text, expected) in [
        (first.clone() + &last, vec!["select 1", "select 2"]),
        // The file ends within the text: at the end of a line, and within one.
        (first[..quoted_end].to_owned(), vec!["select 1"]),
        (first[..quoted_end - 5].to_owned(), vec!["select 1"]),
    ] {
        let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
        let input = write(directory.path(), "a.csv", &packed);
        let (collected, report) = captured(vec![input]).unwrap();
        let statements = collected.events.iter().filter_map(|event| event.kind.sql());
        let statements: Vec<&str> = statements.map(|sql| &**sql).collect();
        assert_eq!(statements, expected);
        let account = &report.reconciliation;
        assert!(account.adds_up());
        let lines = text.lines().count() as u64;
        assert_eq!(account.lines, lines);
        assert_eq!(account.unreadable.lines, lines - expected.len() as u64);
    }
}

#[test]
fn the_last_line_without_its_end_is_unreadable_and_skips_are_located() {
    let (_, report) = checked(STDERR[..STDERR.len() - 5].to_vec()).unwrap();
    let account = &report.reconciliation;
    assert_eq!(account.unreadable.lines, 1);
    assert_eq!(
        account.unreadable.first[0].reason,
        UnreadableReason::CutAtEnd
    );
    assert_eq!(account.unreadable.first[0].at.line, account.lines);
    assert!(account.skipped[&SkipReason::Forged].first.line > 1);
}

struct Full;

impl EventSink for Full {
    fn event(&mut self, _: &EventRef<'_>) -> Result<(), SinkError> {
        Err(SinkError::new("the disk is full"))
    }

    fn session(&mut self, _: Session) -> Result<(), SinkError> {
        Ok(())
    }

    fn server_event(&mut self, _: ServerEvent) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn an_unreadable_line_is_told_with_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = [STDERR, b"noise\n"].concat();
    let input = write(directory.path(), "noisy.log", &bytes);
    let name = input.name();
    let (_, report) = captured(vec![input]).unwrap();
    let first = &report.reconciliation.unreadable.first;
    assert_eq!((&first[0].file, first[0].at.line), (&name, lines(&bytes)));
    assert_eq!(first[0].reason, UnreadableReason::NoPrefix);
}

#[test]
fn a_sink_that_refuses_ends_the_capture_with_its_own_words() {
    let error = capture_bytes(STDERR, None, None, &mut Full).unwrap_err();
    assert_eq!(error.to_string(), "the disk is full");
}
