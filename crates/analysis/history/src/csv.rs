//! Writes a history as comma-separated values (RFC 4180): a row a run, with a time, attributes, and a column
//! for each measure. Programs that look for change points, such as Apache Otava, read this form.

use clock::rfc3339_text;
use sql::Fingerprint;

use crate::numbers::{RunNumbers, StatementNumbers};
use crate::trend::Measure;

/// Nanoseconds of a millisecond.
const MS_NS: f64 = 1e6;

/// Returns the table. It has columns for all statements together and for those that took the most time in any
/// run; a value that a run does not have is `nan`.
pub fn to_csv(runs: &[RunNumbers], statements_max: usize) -> String {
    let columns = list_columns(runs, statements_max);
    let mut text = String::from("time,run,label,server_version");
    for (fingerprint, measure) in &columns {
        let of = fingerprint.map_or("all".to_owned(), |one| one.to_string());
        text += &format!(",{of}.{}", column_name(*measure));
    }
    text.push('\n');
    for run in runs {
        let time = rfc3339_text(run.started_us);
        let attributes = [&time, &run.run, &run.label, &run.server_version];
        let cells = attributes.iter().map(|cell| quoted(cell));
        let values = columns.iter().map(|(fingerprint, measure)| {
            let numbers = find(run, *fingerprint).and_then(|numbers| measure.of(numbers));
            let scale = if measure.is_time() { MS_NS } else { 1.0 };
            numbers.map_or("nan".to_owned(), |value| format!("{:.6}", value / scale))
        });
        text += &cells.chain(values).collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    text
}

fn find(run: &RunNumbers, fingerprint: Option<Fingerprint>) -> Option<&StatementNumbers> {
    run.statements
        .iter()
        .find(|one| one.fingerprint == fingerprint)
}

/// Lists the columns: the measures of which any run has a value.
fn list_columns(runs: &[RunNumbers], statements_max: usize) -> Vec<(Option<Fingerprint>, Measure)> {
    let mut statements = Vec::new();
    for run in runs {
        for one in run.statements.iter().take(statements_max + 1) {
            if !statements.contains(&one.fingerprint) {
                statements.push(one.fingerprint);
            }
        }
    }
    let all = statements
        .iter()
        .flat_map(|fingerprint| Measure::ALL.map(|measure| (*fingerprint, measure)));
    let is_known = |(fingerprint, measure): &(Option<Fingerprint>, Measure)| {
        let mut values = runs
            .iter()
            .filter_map(|run| measure.of(find(run, *fingerprint)?));
        // A column of zeros, as most failures and temporary blocks are, has no change.
        values.any(|value| value != 0.0)
    };
    all.filter(is_known).collect()
}

fn column_name(measure: Measure) -> &'static str {
    match measure {
        Measure::Service => "service_ms",
        Measure::Execution => "execution_ms",
        Measure::SharedBlocks => "blocks",
        Measure::TemporaryBlocks => "temporary_blocks",
        Measure::WalRecords => "wal_records",
        Measure::Failed => "failures",
    }
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_a_run_has_each_known_measure() {
        let numbers = |fingerprint: Option<u64>, exec_ns| StatementNumbers {
            fingerprint: fingerprint.map(Fingerprint),
            mean_ns: Some(2e6),
            exec_ns,
            ..StatementNumbers::default()
        };
        let run = |started_us, label: &str, statements| RunNumbers {
            run: "r".to_owned(),
            started_us,
            label: label.to_owned(),
            workload: "shop".to_owned(),
            workload_id: "1".to_owned(),
            speed: "1".to_owned(),
            server_version: "17.1".to_owned(),
            statements,
        };
        let runs = [
            run(0, "a, \"b\"", vec![numbers(None, None)]),
            run(
                1_000_000,
                "",
                vec![numbers(None, None), numbers(Some(7), Some(5e5))],
            ),
        ];
        let text = to_csv(&runs, 10);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "time,run,label,server_version,all.service_ms,0000000000000007.service_ms,0000000000000007.execution_ms"
        );
        assert!(
            lines[1].ends_with(",r,\"a, \"\"b\"\"\",17.1,2.000000,nan,nan"),
            "{text}"
        );
        assert!(
            lines[2].ends_with(",r,,17.1,2.000000,2.000000,0.500000"),
            "{text}"
        );
    }
}
