//! Proposes indexes for the expensive scans of a plan, to be decided by experiment.

use plans::{Plan, PlanNode};
use sql::Fingerprint;

use super::evidence::Evidence;
use super::finding::{Change, Form};
use super::index_candidates::{IndexCandidates, add_step_candidates};
use super::rules::suggested_indexes;

/// Index that may serve an expensive scan.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedIndex {
    /// The change that creates it.
    pub change: Change,
    /// Label of the scan.
    pub scan: String,
    /// Table of the scan, in SQL.
    pub table: String,
}

/// Proposes indexes for the scans that are expensive, the most promising of each scan first: those that the rules
/// suggest, then other orders of the columns, then covering ones.
pub fn proposed_indexes(
    evidence: &Evidence,
    fingerprint: Fingerprint,
    plan: &Plan,
    is_expensive: &dyn Fn(&PlanNode) -> bool,
) -> Vec<ProposedIndex> {
    let mut all: Vec<ProposedIndex> = Vec::new();
    let mut above: Vec<&PlanNode> = Vec::new();
    plan.root.each(&mut |node, depth| {
        above.truncate(depth);
        if node.is_scan() && is_expensive(node) {
            for proposed in of_scan(evidence, fingerprint, node, &above) {
                if !all
                    .iter()
                    .any(|one| one.change.form == proposed.change.form)
                {
                    all.push(proposed);
                }
            }
        }
        above.push(node);
    });
    all
}

fn of_scan(
    evidence: &Evidence,
    fingerprint: Fingerprint,
    node: &PlanNode,
    above: &[&PlanNode],
) -> Vec<ProposedIndex> {
    let relation = (None, node.relation.clone().unwrap_or_default());
    let Some(table) = evidence.table(&relation) else {
        return Vec::new();
    };
    // An index of a partitioned table is created for all partitions.
    let parent = table.partition_of.as_ref().and_then(|name| {
        let (schema, name) = name.split_once('.')?;
        evidence.table(&(Some(schema.to_owned()), name.to_owned()))
    });
    let table = parent.unwrap_or(table);
    let sort = above.iter().rev().take_while(|step| !step.is_join());
    let sort = sort.flat_map(|step| &step.conditions);
    let sort = sort.into_iter().find(|one| one.label == "Sort Key");
    let sort = sort.map(|one| one.text.as_str());
    let limited = above.iter().any(|step| step.kind == "Limit");
    let mut made = IndexCandidates::default();
    if let Some(one) = evidence.statement(fingerprint) {
        add_step_candidates(evidence, one, table, node, above, &mut made);
    }
    let name = super::statement_text::qualified_name(&table.schema, &table.name);
    let suggested = suggested_indexes(evidence, table, node, sort, limited);
    let suggested = suggested.iter().map(|one| one.change(&name));
    let suggested = suggested.filter(|change| matches!(change.form, Form::Sql(_)));
    let orders = made.candidates.iter().map(|one| {
        let words = format!("an index on {}", one.shape());
        Change::sql(words, format!("{};", one.sql()))
    });
    suggested
        .chain(orders)
        .map(|change| ProposedIndex {
            change,
            scan: node.label(),
            table: name.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement, table};
    use plans::read_plan;

    /// Returns the definitions of the indexes that are proposed for a plan with one table.
    fn proposed(sql: &str, columns: &[&str], plan: &str) -> Vec<String> {
        let made = EvidenceBuilder::new()
            .statement(statement(1, sql).took(10, 9.0))
            .table(table("orders", 100_000, columns))
            .evidence();
        let plan = read_plan(plan).unwrap();
        proposed_indexes(&made, Fingerprint(1), &plan, &|_| true)
            .into_iter()
            .filter_map(|one| one.change.form.text())
            .map(|sql| sql.replace("CREATE INDEX ON public.orders ", ""))
            .collect()
    }

    #[test]
    fn classical_order_comes_first_then_others_then_covering() {
        let plan = r#"[{"Plan": {"Node Type": "Seq Scan", "Relation Name": "orders", "Alias": "orders",
            "Plan Rows": 20, "Filter": "((customer = 5) AND (placed > '2026-01-01'::date))"}}]"#;
        assert_eq!(
            proposed(
                "select total from orders where customer = $1 and placed > $2",
                &["customer int", "placed date", "total int"],
                plan
            ),
            [
                "(customer, placed);",
                "(placed, customer);",
                "(customer);",
                "(placed);",
                "(customer, placed) INCLUDE (total);",
                "(placed, customer) INCLUDE (total);",
            ]
        );
    }

    #[test]
    fn column_of_another_table_is_a_value() {
        let plan = r#"[{"Plan": {"Node Type": "Seq Scan", "Relation Name": "orders", "Alias": "o",
            "Plan Rows": 20, "Filter": "(o.customer = c.id)"}}]"#;
        assert_eq!(
            proposed(
                "select (select max(total) from orders o where o.customer = c.id) from customers c",
                &["id int", "customer int", "total int"],
                plan
            ),
            ["(customer);"]
        );
    }

    #[test]
    fn inner_side_of_a_nested_loop_is_searched_by_the_join_filter() {
        let plan = r#"[{"Plan": {"Node Type": "Nested Loop", "Join Filter": "(o.customer = c.id)", "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "customers", "Alias": "c"},
            {"Node Type": "Seq Scan", "Relation Name": "orders", "Alias": "o", "Plan Rows": 20}]}}]"#;
        assert_eq!(
            proposed(
                "select * from orders o join customers c on o.customer = c.id",
                &["id int", "customer int"],
                plan
            ),
            ["(customer);"]
        );
    }

    #[test]
    fn conditions_that_a_btree_of_columns_does_not_serve_have_their_own_indexes() {
        let columns = [
            "attrs jsonb",
            "tags text[]",
            "name text",
            "at timestamp",
            "body tsvector",
        ];
        for (filter, expected) in [
            (
                "(attrs @> '{\"a\": 1}'::jsonb)",
                vec!["USING gin (attrs jsonb_path_ops);", "USING gin (attrs);"],
            ),
            ("(attrs ? 'a'::text)", vec!["USING gin (attrs);"]),
            ("(tags && '{a,b}'::text[])", vec!["USING gin (tags);"]),
            (
                "((at)::date >= '2026-01-01'::date)",
                vec!["(((at)::date));"],
            ),
            (
                "(date_trunc('day'::text, at) = '2026-01-01'::timestamp)",
                vec!["((date_trunc('day'::text, at)));"],
            ),
            (
                "(name = 'x'::text COLLATE \"C\")",
                vec!["(name);", "(name COLLATE \"C\");"],
            ),
            ("(body @@ '''a'''::tsquery)", vec!["USING gin (body);"]),
        ] {
            let filter = filter.replace('"', "\\\"");
            let plan = format!(
                r#"[{{"Plan": {{"Node Type": "Seq Scan", "Relation Name": "orders", "Alias": "orders",
                "Plan Rows": 20, "Filter": "{filter}"}}}}]"#
            );
            let made = proposed("select * from orders where …", &columns, &plan);
            assert_eq!(made, expected, "{filter}");
        }
    }
}
