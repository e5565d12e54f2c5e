//! Checks that a log cut anywhere, at its beginning or its end, in stderr, csvlog or jsonlog, gives
//! the events of the log without the cut entry, and that the account shows the cut.

mod normal;

use capture_log::{LogError, LogFormat, Reconciliation, capture_bytes};
use capture_sink::EventCollector;
use normal::{check_laws, normal_form};
use proptest::prelude::*;

const PREFIX: &str = "%m [%p] %c %l %u@%d %e %r %a ";

const LOGS: [(LogFormat, &[u8]); 3] = [
    (LogFormat::Stderr, include_bytes!("fixtures/both.log")),
    (LogFormat::Csv, include_bytes!("fixtures/both.csv")),
    (LogFormat::Json, include_bytes!("fixtures/both.json")),
];

/// The events, and the account; neither if the rest is refused as no log.
fn read(format: LogFormat, bytes: &'static [u8]) -> (String, Option<Reconciliation>) {
    let mut collected = EventCollector::default();
    let prefix = (format == LogFormat::Stderr).then_some(PREFIX);
    let read = capture_bytes(bytes, Some(format), prefix, &mut collected);
    let report = match read {
        Err(
            LogError::NotALog { .. }
            | LogError::NotThatFormat { .. }
            | LogError::PrefixMatchesNothing { .. },
        ) => {
            return (String::new(), None);
        }
        read => read.unwrap(),
    };
    let account = report.reconciliation;
    let whole = bytes.iter().filter(|byte| **byte == b'\n').count();
    let lines = whole + usize::from(!bytes.is_empty() && !bytes.ends_with(b"\n"));
    assert_eq!(account.lines, lines as u64);
    assert!(account.adds_up(), "{account:?}");
    check_laws(&collected);
    (normal_form(&collected), Some(account))
}

/// Positions of the entries, and the log's end.
fn starts(format: LogFormat, log: &[u8]) -> Vec<usize> {
    let (mut starts, mut at, mut quotes) = (Vec::new(), 0, 0);
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        let begins = match format {
            LogFormat::Stderr => !line.starts_with(b"\t") && !is_part(line),
            LogFormat::Csv => quotes % 2 == 0,
            _ => true,
        };
        if begins {
            starts.push(at);
        }
        quotes += line.iter().filter(|byte| **byte == b'"').count();
        at += line.len();
    }
    starts.push(at);
    starts
}

/// Whether a line of stderr belongs to the entry before it.
fn is_part(line: &[u8]) -> bool {
    let labels: [&[u8]; 4] = [b" DETAIL:  ", b" HINT:  ", b" CONTEXT:  ", b" STATEMENT:  "];
    let has = |label: &&[u8]| line.windows(label.len()).any(|window| window == *label);
    labels.iter().any(has)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_support::cases(600)))]

    #[test]
    fn an_end_anywhere_loses_the_cut_entry_and_says_so(log in 0usize..3, to in 0usize..1_000_000) {
        let (format, whole) = LOGS[log];
        let to = to % (whole.len() + 1);
        let starts = starts(format, whole);
        let last = *starts.iter().rev().find(|start| **start <= to).unwrap();
        let (cut, account) = read(format, &whole[..to]);
        let (left, before) = read(format, &whole[..last]);
        let unreadable = |account: &Option<Reconciliation>| {
            account.as_ref().map(|account| account.unreadable.lines)
        };
        let (found, wanted) = (unreadable(&account), unreadable(&before));
        // A cut between two lines of one stderr entry looks like its end and cannot be detected.
        let between = format == LogFormat::Stderr && to > last && whole[to - 1] == b'\n';
        if !between {
            // The whole lines of a stderr entry are kept if the text after them is no part of it
            // yet.
            let line = whole[..to].iter().rposition(|byte| *byte == b'\n');
            let same = cut == left || cut == read(format, &whole[..line.map_or(0, |at| at + 1)]).0;
            prop_assert!(same, "{} at {to}: {cut}\nbut\n{left}", format.name());
            let says = found.is_none() || found > wanted;
            prop_assert!(says || to == last, "{} at {to}: {account:?}", format.name());
        }
    }

    #[test]
    fn a_beginning_anywhere_loses_the_cut_entry_and_says_so(log in 0usize..3, from in 0usize..1_000_000) {
        let (format, whole) = LOGS[log];
        let from = from % whole.len();
        let starts = starts(format, whole);
        let next = *starts.iter().find(|start| **start >= from).unwrap();
        let (cut, account) = read(format, &whole[from..]);
        let (left, rest) = read(format, &whole[next..]);
        prop_assert!(cut == left, "{} at {from}: {cut}\nbut\n{left}", format.name());
        // Whole lines that belong to a missing entry are skipped with that reason.
        let said = |account: &Option<Reconciliation>| {
            account.as_ref().map(|account| account.unreadable.lines + account.lines_skipped())
        };
        let says = said(&account).is_none() || said(&account) > said(&rest);
        prop_assert!(says || from == next, "{} at {from}: {account:?}", format.name());
    }
}
