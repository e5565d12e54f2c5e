//! N+1 queries: a statement returns a list, and the session then fetches each element with a
//! separate statement and round trip.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use sql::StatementClass;
use statistics::Unit;

const SERIES: Threshold = Threshold {
    name: "n-plus-one-series",
    value: 5.0,
    unit: "series of calls",
    decides: "fewer are chance",
    source: "ours",
};

const MATCHING: Threshold = Threshold {
    name: "n-plus-one-matching",
    value: 0.5,
    unit: "share of series",
    decides: "this share of series is as long as the statement before them had rows; without rows it is a note",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "n-plus-one",
    looks_at: "statements that sessions send repeatedly after another one",
    thresholds: &[SERIES, MATCHING],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    // Without an order of statements there are no sessions either.
    evidence.transactions.clone()?;
    let all = evidence.statements.iter();
    Ok(all
        .filter(|one| one.class == StatementClass::Select)
        .filter_map(|one| finding(evidence, thresholds, one))
        .collect())
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<Finding> {
    let series = one.repetition;
    let preceding_statement = evidence.statement(series.preceding?)?;
    if (series.series as f64) < thresholds.of(&SERIES) || !preceding_statement.is_work() {
        return None;
    }
    let matching = series.one_for_each_row as f64 / series.series as f64;
    let rows_known = one.rows.is_some() && preceding_statement.rows.is_some();
    if rows_known && matching < thresholds.of(&MATCHING) {
        return None;
    }
    // The first call of each series is needed in any case.
    let saved = 1.0 - series.series as f64 / series.calls as f64;
    let ns = one.ns_per_call() * series.calls as f64 * saved;
    let share = evidence.share(ns);
    let severity = match rows_known {
        true => thresholds.severity(share),
        false => Severity::Note,
    };
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity,
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: format!(
            "rows are fetched one by one: {:.0} calls each time after {}",
            series.calls as f64 / series.series as f64,
            preceding_statement.fingerprint
        ),
        evidence: vec![
            Fact::new("series of calls", series.series as f64, Unit::Count, "the order of statements in sessions")
                .check("the session's statements in the run's executions, by session and sequence"),
            Fact::new("calls in them", series.calls as f64, Unit::Count, "the order of statements in sessions"),
            Fact::new("the longest", series.longest as f64, Unit::Count, "the order of statements in sessions"),
            Fact::new("as long as the list before them", matching, Unit::Share, "rows of the statement before"),
            Fact::new("from first to last of all series", series.ns, Unit::Nanoseconds, "clients' clocks"),
        ],
        cost: Some(evidence.cost(one, ns)),
        max_gain: Some(share),
        changes: vec![Change::manual(
            "fetch them together: a join, or WHERE … = ANY ($1) with all keys; most object mappers have an option for it",
        )],
        risk: "one statement with many keys may be planned otherwise; what the application does between the calls is not \
               in this share and is saved too where it waits for the network"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Repetition;
    use crate::synthetic::{EvidenceBuilder, statement};
    use sql::Fingerprint;

    fn with(one_for_each_row: u64, preceding_statement: Option<u64>) -> EvidenceBuilder {
        let mut many = statement(1, "select * from items where order_id = $1")
            .took(1_000, 9.0)
            .with_rows(3_000);
        many.repetition = Repetition {
            series: 100,
            calls: 1_000,
            longest: 20,
            ns: 15e9,
            rows: 3_000,
            preceding: preceding_statement.map(Fingerprint),
            one_for_each_row,
        };
        EvidenceBuilder::new().statement(many).statement(
            statement(2, "select id from orders where customer = $1")
                .took(100, 1.0)
                .with_rows(1_000),
        )
    }

    #[test]
    fn statement_for_each_row_is_found() {
        let found = with(95, Some(2)).findings(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert!((found[0].max_gain.unwrap() - 0.81).abs() < 1e-9);
    }

    #[test]
    fn constantly_repeated_statement_is_no_finding() {
        assert_eq!(with(3, Some(2)).findings(&RULE), []);
        assert_eq!(with(0, None).findings(&RULE), []);
    }
}
