//! Extent of the comparison that a decision rests on.

use compare::proof::Effect;
use compare::targets::Detail;
use compare::{
    Comparison, Finding, InconclusiveReason, RowsReason, ServerDependence, server_dependence,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::proof::{ProofJournal, ProofSideReport};
use crate::upgrade_remedies::SearchCoverage;

/// Bytes of temporary files that count as none.
const TEMPORARY_BYTES_FEW: u64 = 1 << 20;

/// Extent of the comparison of both versions, and the measurements that support an effect on time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct RehearsalEvidence {
    /// Statements whose times could be judged.
    pub judged: u64,
    /// Statements with too few executions, or too much noise.
    pub unjudged: u64,
    /// Executions whose numbers of rows were compared.
    pub answers: u64,
    /// Executions whose values were compared by checksum.
    pub checksums: u64,
    /// Statements whose rows also differ between runs of one version. They do not count as other rows.
    pub unsteady: Vec<String>,
    /// Statements of which some executions could not be compared.
    pub incomplete: u64,
    /// Statements with other rows that read only catalogues, settings or the version of the server. They do not count as
    /// other rows.
    pub rows_of_server: Vec<String>,
    /// Statements with other rows that also have a value of the server, such as `ctid`, or that leave their rows open, such as
    /// LIMIT without ORDER BY. Either may be the reason, in brackets. They do not count as other rows.
    pub rows_of_unknown_reason: Vec<String>,
    /// Number of the other statements with other rows or values.
    #[serde(skip)]
    pub(super) other_rows: u64,
    /// Reason why the comparison of statements is inconclusive; `null` if it is not.
    pub inconclusive: Option<InconclusiveReason>,
    /// Whether the servers' counters exclude that statements with most of the time take twice as long.
    pub excludes_doubling: bool,
    /// Processor time of the server, new / old; `null` if it was not measured.
    pub processor_time: Option<Effect>,
    /// Differences between the builds of the servers: packager, compiler, options, JIT library.
    pub builds: Vec<Detail>,
    /// Whether this program stalled in a run, so that the interval of the response time shows nothing.
    pub is_disturbed: bool,
    /// Mean bytes of temporary files of a run, new / old; `null` if they were not measured.
    pub temporary_files: Option<f64>,
    /// Extent of the search of remedies, which executes statements alone; `null` for replays with remedies.
    pub search: Option<SearchCoverage>,
}

impl RehearsalEvidence {
    /// Collects the evidence of a proof whose only side is the new version.
    pub(super) fn new(
        journal: &ProofJournal,
        side: Option<&ProofSideReport>,
        comparison: Option<&Comparison>,
    ) -> Self {
        let mut evidence = comparison.map(Self::of_comparison).unwrap_or_default();
        let mut numbers = side.iter().flat_map(|side| &side.numbers);
        evidence.processor_time = numbers
            .find(|one| one.name == "cpu")
            .and_then(|one| one.effect);
        evidence.temporary_files = temporary_files(journal);
        evidence.is_disturbed = side.is_some_and(|side| journal.has_disturbed_run(1, side.blocks));
        evidence
    }

    fn of_comparison(comparison: &Comparison) -> Self {
        let is_judged = |finding: Finding| !matches!(finding, Finding::InsufficientData { .. });
        let all = comparison.statements.len();
        let statements = comparison.statements.iter();
        let judged = statements
            .filter(|one| is_judged(one.service.finding))
            .count();
        let rows = &comparison.rows;
        let targets = comparison.targets.as_ref();
        let changes = rows.changes.iter();
        let mut evidence = RehearsalEvidence {
            judged: judged as u64,
            unjudged: (all - judged) as u64,
            answers: rows.compared,
            checksums: rows.digests,
            unsteady: (changes.filter(|change| change.unsteady))
                .map(|change| change.sql.clone().unwrap_or_default())
                .collect(),
            incomplete: rows.incomplete as u64,
            inconclusive: match comparison.verdict {
                compare::Verdict::Inconclusive { reason, .. } => Some(reason),
                _ => None,
            },
            excludes_doubling: comparison.excludes_doubling(),
            builds: targets.map_or_else(Vec::new, |targets| targets.build.clone()),
            ..RehearsalEvidence::default()
        };
        for change in rows.changes.iter().filter(|change| !change.unsteady) {
            evidence.add_other_rows(change.sql.as_deref().unwrap_or_default(), &change.reasons);
        }
        evidence
    }

    /// Adds a statement whose rows differ between both versions, and not between runs of one.
    fn add_other_rows(&mut self, sql: &str, reasons: &[RowsReason]) {
        let reason = match server_dependence(sql) {
            Some(ServerDependence::Whole) => {
                self.rows_of_server.push(sql.to_owned());
                return;
            }
            Some(ServerDependence::Part(name)) => Some(name),
            None => reasons.iter().find_map(open_rows).map(str::to_owned),
        };
        match reason {
            Some(reason) => {
                let statement = format!("{sql} ({reason})");
                self.rows_of_unknown_reason.push(statement);
            }
            None => self.other_rows += 1,
        }
    }

    /// Returns the number of statements of the comparison.
    pub fn statements(&self) -> u64 {
        self.judged + self.unjudged
    }
}

/// Describes a reason that lets each plan return other rows, all of them right.
fn open_rows(reason: &RowsReason) -> Option<&'static str> {
    match reason {
        RowsReason::LimitWithoutOrder => Some("LIMIT without ORDER BY"),
        RowsReason::Ties => Some("LIMIT, and perhaps equal keys in ORDER BY"),
        RowsReason::AggregateOrder { .. } => Some("an aggregate without ORDER BY"),
        RowsReason::FloatSum => Some("a sum of floating-point numbers"),
        _ => None,
    }
}

/// Returns the ratio of the mean bytes of temporary files of a run.
fn temporary_files(journal: &ProofJournal) -> Option<f64> {
    let mean = |side: usize| {
        let records = journal.records().filter(|one| one.trial.side == side);
        let bytes: Option<Vec<u64>> = records.map(|one| one.numbers.temporary_bytes).collect();
        let bytes = bytes.filter(|bytes| !bytes.is_empty())?;
        let few = |bytes: &u64| (*bytes).max(TEMPORARY_BYTES_FEW) as f64;
        Some(bytes.iter().map(few).sum::<f64>() / bytes.len() as f64)
    };
    Some(mean(1)? / mean(0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_rows_of_the_server_itself_do_not_count_and_those_that_may_be_are_listed() {
        let mut evidence = RehearsalEvidence::default();
        for sql in [
            "select version()",
            "select oid from pg_type",
            "select ctid, id from orders",
            "select id from orders",
            "",
        ] {
            evidence.add_other_rows(sql, &[]);
        }
        let open = [RowsReason::Generated, RowsReason::LimitWithoutOrder];
        evidence.add_other_rows("select a from t limit $1", &open);
        evidence.add_other_rows("insert into t values ($1) returning id", &open[..1]);
        assert_eq!(evidence.rows_of_server.len(), 2);
        assert_eq!(
            evidence.rows_of_unknown_reason,
            [
                "select ctid, id from orders (ctid)",
                "select a from t limit $1 (LIMIT without ORDER BY)"
            ]
        );
        assert_eq!(evidence.other_rows, 3);
    }
}
