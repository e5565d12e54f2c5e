//! Comma-separated values of a comparison and of a workload: a row for each statement, and for each value of a context
//! (RFC 4180, but with a line feed at the end of a line).
//!
//! `docs/reference/csv.md` documents the columns.

use compare::{
    Comparison, ContextComparison, StatementChange, StatementComparison, StatementRole,
    TimesComparison, WorkPerCall,
};
use inspect::{ContextStats, Inspection, StatementStats};
use sql::ContextKey;
use statistics::LatencySummary;

/// First columns of every table, by which a file of this kind is recognised.
pub(crate) const START: &str = "scope,value,fingerprint,statement,class,";

/// Columns of a comparison after [`START`].
const COMPARED: [&str; 37] = [
    "role",
    "finding",
    "change",
    "direction",
    "measure",
    "ratio",
    "ratio_low",
    "ratio_high",
    "p_value",
    "added_ms",
    "calls_before",
    "calls_after",
    "errors_before",
    "errors_after",
    "skipped_before",
    "skipped_after",
    "mean_before_ms",
    "mean_after_ms",
    "p50_before_ms",
    "p50_after_ms",
    "p95_before_ms",
    "p95_after_ms",
    "p99_before_ms",
    "p99_after_ms",
    "max_before_ms",
    "max_after_ms",
    "execution_before_ms",
    "execution_after_ms",
    "rows_before",
    "rows_after",
    "shared_blocks_before",
    "shared_blocks_after",
    "temporary_blocks_before",
    "temporary_blocks_after",
    "wal_records_before",
    "wal_records_after",
    "plan",
];

/// Columns of a workload after [`START`].
const INSPECTED: [&str; 13] = [
    "calls",
    "errors",
    "rows",
    "total_ms",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "max_ms",
    "temporary_files",
    "temporary_bytes",
    "lock_waits",
    "lock_waited_ms",
];

/// Nanoseconds of a millisecond.
const MS_NS: f64 = 1e6;
/// Microseconds of a millisecond.
const MS_US: f64 = 1e3;

/// Returns all statements of a comparison, in its order, then the values of its context if it has one.
pub fn comparison_csv(view: &Comparison) -> String {
    let mut table = Table::new(&COMPARED);
    for one in &view.statements {
        table.row(statement_row(one));
    }
    if let Some(contexts) = &view.contexts {
        for value in &contexts.values {
            table.row(context_row(contexts.key, value));
        }
    }
    table.finish()
}

/// Returns the statements of a workload, in its order, then the values of a context; at most `most` of each.
pub fn workload_csv(view: &Inspection, by: Option<ContextKey>, most: Option<usize>) -> String {
    let most = most.unwrap_or(usize::MAX);
    let mut table = Table::new(&INSPECTED);
    for one in view.by_statement.iter().take(most) {
        table.row(inspected_row(one));
    }
    let contexts = view.contexts.iter().filter(|one| Some(one.key) == by);
    for context in contexts {
        for value in context.values.iter().take(most) {
            table.row(inspected_context_row(context.key, value));
        }
    }
    table.finish()
}

struct Table(csv::Writer<Vec<u8>>);

impl Table {
    fn new(columns: &[&str]) -> Self {
        let mut table = Table(csv::Writer::from_writer(Vec::new()));
        let start = START.trim_end_matches(',').split(',');
        table.row(
            start
                .chain(columns.iter().copied())
                .map(str::to_owned)
                .collect(),
        );
        table
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has another number of cells than the head: an error of this module.
    fn row(&mut self, cells: Vec<String>) {
        self.0
            .write_record(&cells)
            .expect("a row as wide as the head");
    }

    fn finish(self) -> String {
        let bytes = self.0.into_inner().expect("memory");
        String::from_utf8(bytes).expect("cells are text")
    }
}

/// Formats a text from outside. A text that a spreadsheet would execute as a formula gets an apostrophe before it
/// (OWASP, *CSV Injection*).
fn text(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

/// Formats a number with six digits after the point at most; empty if it is unknown.
fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return String::new();
    };
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

fn milliseconds(ns: Option<f64>) -> String {
    number(ns.map(|ns| ns / MS_NS))
}

fn statement_row(one: &StatementComparison) -> Vec<String> {
    let mut row = vec![
        "statement".to_owned(),
        String::new(),
        one.fingerprint.to_string(),
        text(one.sql.as_deref().unwrap_or_default()),
        one.class
            .map_or_else(String::new, |class| class.name().to_owned()),
        match one.role {
            StatementRole::Application => "application",
            StatementRole::Catalogue => "catalogue",
            StatementRole::Dump => "dump",
        }
        .to_owned(),
    ];
    row.extend(finding_cells(&one.service, &one.change));
    row.extend(
        [
            one.calls_before,
            one.calls_after,
            one.errors_before,
            one.errors_after,
            one.skipped_before,
            one.skipped_after,
        ]
        .map(|count| count.to_string()),
    );
    row.extend(time_cells(&one.service));
    row.extend(work_cells(one));
    let plans = one
        .plans
        .as_ref()
        .and_then(|plans| plans.comparison.as_ref());
    row.push(match plans {
        None => String::new(),
        Some(plans) if plans.same => "same".to_owned(),
        Some(_) => "changed".to_owned(),
    });
    row
}

fn context_row(key: ContextKey, one: &ContextComparison) -> Vec<String> {
    let unknown = String::new;
    let mut row = vec![key.name().to_owned(), text(&one.value)];
    row.extend([unknown(), unknown(), unknown(), unknown()]);
    row.extend(finding_cells(&one.service, &one.change));
    let counts = [
        one.calls_before,
        one.calls_after,
        one.errors_before,
        one.errors_after,
    ];
    row.extend(counts.map(|count| count.to_string()));
    row.extend([unknown(), unknown()]);
    row.extend(time_cells(&one.service));
    row.extend(std::array::from_fn::<String, 11, _>(|_| unknown()));
    row
}

/// Returns the columns from `finding` to `added_ms`.
fn finding_cells(times: &TimesComparison, change: &StatementChange) -> [String; 9] {
    let kind = match change {
        StatementChange::None => "none",
        StatementChange::Independent { .. } => "independent",
        StatementChange::Along { .. } => "along",
        StatementChange::Unproven { .. } => "unproven",
    };
    let direction = change.direction().map_or("", |direction| direction.name());
    let measure = times.measure();
    let ratio = times.ratio(measure);
    let interval = ratio.and_then(|ratio| ratio.interval);
    [
        times.finding.name().to_owned(),
        kind.to_owned(),
        direction.to_owned(),
        measure.name().to_owned(),
        number(ratio.map(|ratio| ratio.value)),
        number(interval.map(|interval| interval.low)),
        number(interval.map(|interval| interval.high)),
        number(times.p_value),
        milliseconds(times.added_ns),
    ]
}

/// Returns the columns from `mean_before_ms` to `max_after_ms`.
fn time_cells(times: &TimesComparison) -> Vec<String> {
    let measures: [fn(&LatencySummary) -> f64; 5] = [
        |one| one.mean_ns,
        |one| one.p50_ns as f64,
        |one| one.p95_ns as f64,
        |one| one.p99_ns as f64,
        |one| one.max_ns as f64,
    ];
    let cells = measures.iter().flat_map(|measure| {
        [&times.before, &times.after].map(|side| milliseconds(side.as_ref().map(measure)))
    });
    cells.collect()
}

/// Returns the columns from `execution_before_ms` to `wal_records_after`: means of an execution.
fn work_cells(one: &StatementComparison) -> Vec<String> {
    let measures: [fn(&WorkPerCall) -> Option<f64>; 5] = [
        |work| Some(work.exec_ns / MS_NS),
        |work| Some(work.rows),
        |work| Some(work.shared_blocks),
        |work| Some(work.temp_blocks),
        |work| work.wal_records,
    ];
    let sides = [
        one.work.as_ref().map(|work| &work.before),
        one.work.as_ref().map(|work| &work.after),
    ];
    let cells = measures
        .iter()
        .flat_map(|measure| sides.map(|side| number(side.and_then(measure))));
    cells.collect()
}

fn inspected_row(one: &StatementStats) -> Vec<String> {
    let captured = one.captured.as_ref();
    let time = |of: fn(&LatencySummary) -> f64| milliseconds(captured.map(of));
    vec![
        "statement".to_owned(),
        String::new(),
        one.fingerprint.to_string(),
        text(one.sql.as_deref().unwrap_or_default()),
        one.class
            .map_or_else(String::new, |class| class.name().to_owned()),
        one.calls.to_string(),
        one.errors.to_string(),
        one.rows.map_or_else(String::new, |rows| rows.to_string()),
        time(|times| times.total_ns),
        time(|times| times.mean_ns),
        time(|times| times.p50_ns as f64),
        time(|times| times.p95_ns as f64),
        time(|times| times.p99_ns as f64),
        time(|times| times.max_ns as f64),
        one.temporary_files.to_string(),
        one.temporary_bytes.to_string(),
        one.lock_waits.to_string(),
        number(Some(one.lock_waited_us as f64 / MS_US)),
    ]
}

fn inspected_context_row(key: ContextKey, one: &ContextStats) -> Vec<String> {
    let unknown = String::new;
    let slowest = one
        .slowest
        .map(|slowest| slowest.duration_us as f64 / MS_US);
    let mut row = vec![key.name().to_owned(), text(&one.value)];
    row.extend([unknown(), unknown(), unknown()]);
    row.extend([one.calls.to_string(), one.errors.to_string(), unknown()]);
    row.push(number(slowest.map(|_| one.time_us as f64 / MS_US)));
    row.extend(std::array::from_fn::<String, 4, _>(|_| unknown()));
    row.push(number(slowest));
    row.extend(std::array::from_fn::<String, 4, _>(|_| unknown()));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_begins_like_a_formula_gets_an_apostrophe() {
        for formula in ["=1+1", "+1", "-1", "@sum(a)", "\t=1", "\r=1"] {
            assert_eq!(text(formula), format!("'{formula}"));
        }
        assert_eq!(text("select -1"), "select -1");
    }

    #[test]
    fn number_has_a_point_and_no_needless_zeros() {
        assert_eq!(number(Some(-1_234.5)), "-1234.5");
        assert_eq!(number(Some(100.0)), "100");
        assert_eq!(number(Some(0.000_000_4)), "0");
        assert_eq!(number(Some(f64::INFINITY)), "");
        assert_eq!(milliseconds(Some(1_500.0)), "0.0015");
        assert_eq!(milliseconds(None), "");
    }
}
