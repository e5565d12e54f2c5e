//! Pages that are reached by reading all rows before them: `OFFSET`.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::statement_text::words;
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;

const BLOCKS: Threshold = Threshold {
    name: "paging-blocks",
    value: 10.0,
    unit: "blocks a row",
    decides: "a page that reads so much for a row skips many rows",
    source: "ours: rows found by an index take one or two blocks each",
};

pub(super) const RULE: Rule = Rule {
    name: "deep-paging",
    looks_at: "blocks that statements with OFFSET read for each row that they give",
    thresholds: &[BLOCKS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.counted.clone()?;
    let all = evidence.statements.iter();
    Ok(all
        .filter_map(|one| finding(evidence, thresholds, one))
        .collect())
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<Finding> {
    let words = words(&one.sql);
    let skips = words
        .windows(2)
        .any(|two| two[0] == "offset" && two[1].starts_with('$'));
    // Without a limit it is no page: `OFFSET 0` keeps a subquery apart.
    let is_page =
        words.contains(&"order") && (words.contains(&"limit") || words.contains(&"fetch"));
    if !skips || words.first() != Some(&"select") || !is_page {
        return None;
    }
    let counted = one.counted.filter(|counted| counted.calls > 0)?;
    let blocks = (counted.shared_hit + counted.shared_read) as f64;
    let each = blocks / counted.rows.max(counted.calls) as f64;
    if each < thresholds.of(&BLOCKS) {
        return None;
    }
    let won_ns = one.ns * evidence.execution_share(one);
    let share = evidence.share(won_ns);
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: format!("OFFSET reads and drops all rows before a page: {each:.0} blocks for each row given"),
        evidence: vec![
            Fact::new("blocks for each row given", each, Unit::Count, "pg_stat_statements")
                .check("SELECT (shared_blks_hit + shared_blks_read) / greatest(rows, calls), query FROM pg_stat_statements ORDER BY 1 DESC"),
            Fact::new("time a call", one.ns_per_call(), Unit::Nanoseconds, "the statement's own times"),
        ],
        cost: Some(evidence.cost(one, won_ns)),
        max_gain: Some(share),
        changes: vec![Change::manual(
            "page by key: begin after the last row of the page before, WHERE (keys of ORDER BY) > (their last values) ORDER BY … \
             LIMIT …, with an index on these keys",
        )],
        risk: "pages are reached one after the other only, not by their number; the keys must be unique together".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(sql: &str, blocks: u64) -> Vec<Finding> {
        EvidenceBuilder::new()
            .statement(
                statement(1, sql)
                    .took(100, 9.0)
                    .with_rows(2_500)
                    .with_counted(|counted| counted.shared_hit = 100 * blocks),
            )
            .findings(&RULE)
    }

    #[test]
    fn offset_that_reads_many_blocks_for_each_row_is_found() {
        let sql = "select * from invoice order by filed, id limit $1 offset $2";
        let found = with(sql, 995);
        assert_eq!(found[0].severity, Severity::Problem);
        assert!(found[0].changes[0].words.contains("last row"));
        // The first pages read little.
        assert_eq!(with(sql, 30), []);
        // The beginning of the list by a bad index is no matter of paging.
        assert_eq!(
            with("select * from invoice order by filed limit $1", 995),
            []
        );
        let fence = "select count(*) from (select * from invoice order by filed offset $1) i";
        assert_eq!(with(fence, 99_500), []);
    }
}
