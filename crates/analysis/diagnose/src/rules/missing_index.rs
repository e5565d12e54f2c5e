//! Plans that read many rows and keep few, because no index serves the condition or only a part of
//! it.
//!
//! The suggested index has the columns compared for equality first, then the sort columns, then
//! ranges: a B-tree range scan is limited only as far as its leading columns are fixed
//! (documentation, 11.3). Conditions on NULL or booleans without parameters make a partial index,
//! which is a second candidate.

use super::Rule;
use super::suggested_indexes::{candidates_of_step, hot_risk};
use super::unused_index::reasons;
use super::wasteful_steps::{BLOCKS, KEPT, ROWS, Waste, WastefulStep, table_of, wasteful_steps};
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::statement_text::quote_identifier;
use crate::threshold::Thresholds;
use plans::PlanNode;
use run::RelationFact;
use statistics::Unit;

pub(super) const RULE: Rule = Rule {
    name: "missing-index",
    looks_at: "plans: rows read and not kept",
    thresholds: &[ROWS, KEPT, BLOCKS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.plans.clone()?;
    evidence.facts.as_ref().map_err(Clone::clone)?;
    let mut findings: Vec<Finding> = Vec::new();
    for one in &evidence.statements {
        let Some(plan) = &one.plan else { continue };
        for wasteful in wasteful_steps(evidence, thresholds, one, plan) {
            if let Some(finding) = finding(evidence, thresholds, one, &wasteful) {
                findings.push(finding);
            }
        }
    }
    Ok(findings)
}

/// Whether this rule reports a statement's scan of a table.
pub(super) fn reports_scan(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
    table: &str,
) -> bool {
    let Some(plan) = &one.plan else { return false };
    evidence.facts.is_ok()
        && wasteful_steps(evidence, thresholds, one, plan)
            .iter()
            .any(|one| one.node.relation.as_deref() == Some(table))
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
    wasteful: &WastefulStep<'_>,
) -> Option<Finding> {
    let node = wasteful.node;
    let table = table_of(evidence, node)?;
    let name = format!(
        "{}.{}",
        quote_identifier(&table.schema),
        quote_identifier(&table.name)
    );
    let candidates = candidates_of_step(evidence, table, wasteful);
    let share = evidence.share(one.ns);
    let blocks = wasteful.is_of_blocks();
    let (read, kept) = match blocks {
        true => ("blocks read a call", "rows given a call"),
        false => ("rows read each time", "rows kept each time (estimated)"),
    };
    let check = format!(
        "EXPLAIN (ANALYZE, BUFFERS) of the statement: \"Rows Removed by Filter\" below {}",
        node.name()
    );
    let mut facts = vec![
        Fact::new(read, wasteful.read, Unit::Count, wasteful.from).check(check),
        Fact::new(kept, wasteful.kept, Unit::Count, wasteful.from),
        Fact::new(
            "calls",
            one.calls as f64,
            Unit::Count,
            "the statement's own counts",
        ),
        Fact::new(
            "time a call",
            one.ns_per_call(),
            Unit::Nanoseconds,
            "the statement's own times",
        ),
    ];
    if let Some(counted) = one.counted.filter(|counted| counted.calls > 0 && !blocks) {
        let all = (counted.shared_hit + counted.shared_read) as f64;
        facts.push(Fact::new(
            "blocks read a call",
            all / counted.calls as f64,
            Unit::Count,
            "pg_stat_statements",
        ));
    }
    let (changes, severity, risk) = match candidates.is_empty() {
        true => (
            without_candidate(evidence, table, (node, one), &name),
            thresholds.severity(share),
            "none; the plan may change for others too".to_owned(),
        ),
        false => {
            let hot = hot_risk(evidence, table, &candidates);
            (
                candidates.iter().map(|one| one.change(&name)).collect(),
                thresholds.severity(share),
                format!(
                    "every write to {name} keeps it up to date, and takes room; on a live server build it with \
                     CREATE INDEX CONCURRENTLY{hot}"
                ),
            )
        }
    };
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity,
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: match wasteful.waste {
            Waste::Blocks => format!(
                "{} reads many blocks for each row that it keeps",
                node.label()
            ),
            Waste::Range => format!(
                "{} goes through a range of the index, whose later column is compared for equality",
                node.label()
            ),
            Waste::Join => format!("all of {name} is read, and a join keeps few of its rows"),
            Waste::Rows => format!("{} reads many rows of {name} and keeps few", node.name()),
        },
        evidence: facts,
        cost: Some(evidence.cost(one, one.ns)),
        max_gain: Some(share),
        changes,
        risk,
    })
}

/// Returns what to do if no b-tree of columns serves the condition, or such an index is there.
fn without_candidate(
    evidence: &Evidence,
    table: &RelationFact,
    (node, one): (&PlanNode, &StatementEvidence),
    name: &str,
) -> Vec<Change> {
    let mut changes = reasons(evidence, table, node, one);
    if !changes.is_empty() {
        return changes;
    }
    changes.push(Change::manual(
        "an index for these columns is there and is not taken, or a b-tree of columns does not answer this condition: compare \
         the types and collations of columns and values, and look for functions, casts, OR and patterns in the condition",
    ));
    if evidence.has_stale_statistics(table) {
        changes.insert(
            0,
            Change::sql(
                "the planner's statistics are stale",
                format!("ANALYZE {name};"),
            ),
        );
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Form, Severity};
    use crate::synthetic::{EvidenceBuilder, statement, table};

    const CLAIM: &str = "update image_links set queued_at = now() from (select id from image_links where \
        queued_at is null and download_after < now() order by download_after limit $1 for update skip locked) \
        as c where image_links.id = c.id returning image_links.id";

    /// Claim of a queue, planned without an index.
    fn claim(rows: u64, kept: u64) -> EvidenceBuilder {
        let plan = format!(
            r#"[{{"Plan": {{"Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "image_links",
            "Plans": [{{"Node Type": "Limit", "Plan Rows": 100, "Plans": [{{"Node Type": "Sort",
            "Sort Key": ["image_links_1.download_after"], "Plans": [{{"Node Type": "Seq Scan",
            "Relation Name": "image_links", "Alias": "image_links_1", "Plan Rows": {kept},
            "Filter": "((queued_at IS NULL) AND (download_after < now()) AND (referenced_at > (now() - '36:00:00'::interval)))"
            }}]}}]}}]}}}}]"#
        );
        EvidenceBuilder::new()
            .statement(statement(1, CLAIM).took(100, 9.0).with_plan(&plan))
            .statement(statement(2, "select $1").took(100, 1.0))
            .table(table(
                "image_links",
                rows,
                &[
                    "id int8",
                    "download_after timestamptz",
                    "queued_at timestamptz",
                    "referenced_at timestamptz",
                ],
            ))
    }

    #[test]
    fn composite_and_partial_index_of_a_queue_are_suggested() {
        let found = claim(1_000_000, 479).findings(&RULE);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].max_gain, Some(0.9));
        let sql: Vec<&Form> = found[0].changes.iter().map(|change| &change.form).collect();
        let is = |sql: &str| Form::Sql(sql.to_owned());
        assert_eq!(
            sql,
            [
                &is("CREATE INDEX ON public.image_links (download_after, referenced_at);"),
                &is(
                    "CREATE INDEX ON public.image_links (download_after, referenced_at) WHERE queued_at IS NULL;"
                ),
            ]
        );
        assert!(
            found[0]
                .risk
                .contains("updates of queued_at can no longer be HOT"),
            "{}",
            found[0].risk
        );
    }

    #[test]
    fn small_tables_and_unselective_scans_need_no_index() {
        assert_eq!(claim(1_000, 4).findings(&RULE), []);
        assert_eq!(claim(1_000_000, 400_000).findings(&RULE), []);
    }

    #[test]
    fn existing_index_is_not_suggested() {
        let found = claim(1_000_000, 479)
            .index("CREATE INDEX a ON public.image_links USING btree (download_after, referenced_at)")
            .index("CREATE INDEX b ON public.image_links USING btree (download_after, referenced_at) WHERE (queued_at IS NULL)")
            .findings(&RULE);
        // It remains a problem by its share, and statistics are not known to be stale.
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(found[0].changes.len(), 1);
        assert_eq!(found[0].changes[0].form, Form::ByHand);
    }

    #[test]
    fn blocks_of_another_plan_are_not_credited_to_the_known_one() {
        let with = |cost: u32| {
            let plan = format!(
                r#"[{{"Plan": {{"Node Type": "Index Scan", "Relation Name": "part_no", "Index Name": "part_no_code_idx",
                "Index Cond": "(code >= 'AB'::text)", "Filter": "(code ~~ 'AB%'::text)", "Plan Rows": 1,
                "Total Cost": {cost}}}}}]"#
            );
            EvidenceBuilder::new()
                .statement(
                    statement(1, "select * from part_no where code like $1")
                        .took(10, 9.0)
                        .with_rows(10)
                        .with_counted(|counted| counted.shared_hit = 49_190)
                        .with_plan(&plan),
                )
                .table(table("part_no", 400_000, &["code text"]))
                .findings(&RULE)
        };
        assert_eq!(with(8), []);
        assert_eq!(with(8_000).len(), 1);
    }

    #[test]
    fn index_that_begins_with_another_replaces_it() {
        let found = EvidenceBuilder::new()
            .statement(
                statement(1, "select id from mail_outbox where not_before <= now() and locked_until <= now() \
                    order by not_before limit $1 for update skip locked")
                    .took(100, 9.0)
                    .with_rows(1_000)
                    .with_counted(|counted| counted.shared_hit = 441_600)
                    .with_plan(
                        r#"[{"Plan": {"Node Type": "Limit", "Total Cost": 10761, "Plans": [{"Node Type": "LockRows", "Plans": [
                        {"Node Type": "Index Scan", "Relation Name": "mail_outbox", "Index Name": "mail_outbox_due",
                        "Index Cond": "(not_before <= now())", "Filter": "(locked_until <= now())", "Plan Rows": 10}]}]}}]"#,
                    ),
            )
            .table(table("mail_outbox", 400_000, &["id int8", "not_before timestamptz", "locked_until timestamptz"]))
            .index("CREATE INDEX mail_outbox_due ON public.mail_outbox USING btree (not_before)")
            .findings(&RULE);
        let sql: Vec<_> = found[0]
            .changes
            .iter()
            .filter_map(|one| one.form.text())
            .collect();
        assert_eq!(
            sql,
            [
                "CREATE INDEX ON public.mail_outbox (not_before, locked_until);\nDROP INDEX public.mail_outbox_due;",
                "CREATE INDEX ON public.mail_outbox (locked_until, not_before);\nDROP INDEX public.mail_outbox_due;",
            ]
        );
    }

    #[test]
    fn condition_on_an_expression_has_an_index_of_its_kind() {
        let suggested = |filter: &str| -> Vec<String> {
            let plan = format!(
                r#"[{{"Plan": {{"Node Type": "Seq Scan", "Relation Name": "member", "Alias": "m", "Plan Rows": 1000,
                "Total Cost": 9000, "Filter": "{filter}"}}}}]"#
            );
            let found = EvidenceBuilder::new()
                .statement(
                    statement(1, "select * from member m where lower(m.email) = $1")
                        .took(100, 9.0)
                        .with_rows(100)
                        .with_plan(&plan),
                )
                .table(table(
                    "member",
                    200_000,
                    &[
                        "id bigint",
                        "email text",
                        "customer bigint",
                        "attrs jsonb",
                        "tags text[]",
                        "code character varying(20)",
                    ],
                ))
                .index("CREATE INDEX e ON public.member USING btree (email)")
                .index("CREATE INDEX c ON public.member USING btree (customer)")
                .findings(&RULE);
            assert_eq!(found[0].severity, Severity::Problem, "{filter}");
            found[0]
                .changes
                .iter()
                .map(|one| one.form.text().unwrap_or_else(|| one.words.clone()))
                .collect()
        };
        let index = |keys: &str| format!("CREATE INDEX ON public.member {keys};");
        assert_eq!(
            suggested("(lower(m.email) = 'a@b'::text)"),
            [index("((lower(email)))")]
        );
        let cast = suggested("((customer)::numeric = '5'::numeric)");
        assert_eq!(cast[0], index("(((customer)::numeric))"));
        assert!(cast[1].contains("customer is bigint"), "{cast:?}");
        assert_eq!(
            suggested("(attrs @> '{\\\"a\\\": 1}'::jsonb)"),
            [
                index("USING gin (attrs jsonb_path_ops)"),
                index("USING gin (attrs)")
            ]
        );
        assert_eq!(
            suggested("((attrs ->> 'color'::text) = 'red'::text)"),
            [index("((attrs ->> 'color'::text))")]
        );
        assert_eq!(
            suggested("(email ~~ 'ab%'::text)"),
            [index("(email text_pattern_ops)")]
        );
        assert_eq!(
            suggested("((code)::text ~~ 'ab%'::text)"),
            [index("(code varchar_pattern_ops)")]
        );
        let pattern = suggested("(email ~~* '%smith%'::text)");
        assert_eq!(
            pattern,
            [
                "CREATE EXTENSION IF NOT EXISTS pg_trgm;\nCREATE INDEX ON public.member USING gin (email gin_trgm_ops);"
            ]
        );
        let any = suggested("('x'::text = ANY (tags))");
        assert!(any[0].contains("tags @> ARRAY"), "{any:?}");
        // A cast that changes no bytes is no expression.
        assert_eq!(suggested("((code)::text = 'x'::text)"), [index("(code)")]);
    }

    #[test]
    fn index_scan_with_many_reads_per_row_needs_another_index() {
        let with = |hit| {
            EvidenceBuilder::new()
                .statement(
                    statement(1, "select * from orders where customer = $1 and state = $2")
                        .took(10, 9.0)
                        .with_rows(20)
                        .with_counted(|counted| counted.shared_hit = hit)
                        .with_plan(
                            r#"[{"Plan": {"Node Type": "Index Scan", "Relation Name": "orders", "Index Name": "i",
                            "Index Cond": "(customer = 5)", "Filter": "(state = 'x'::text)", "Plan Rows": 2}}]"#,
                        ),
                )
                .table(table("orders", 1_000_000, &["customer int", "state text"]))
                .index("CREATE INDEX i ON public.orders USING btree (customer)")
                .findings(&RULE)
        };
        let found = with(100_000);
        assert_eq!(
            found[0].changes[0].form,
            Form::Sql("CREATE INDEX ON public.orders (customer, state);".to_owned())
        );
        // A claim of an empty queue returns no row, but reads no less.
        assert_eq!(with(9_000).len(), 1);
        assert_eq!(with(300), []);
    }
}
