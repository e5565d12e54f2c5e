//! Reasons why an index of the compared columns is there and is not used.

use plans::PlanNode;
use run::{FunctionFact, RelationFact};

use crate::access_predicates::{access_predicates, btree_shapes, has_index};
use crate::evidence::{Evidence, StatementEvidence};
use crate::finding::Change;
use crate::statement_text::quote_identifier;

/// Value of `random_page_cost` for data that are in memory or on flash.
const CACHED_PAGE_COST: &str = "1.1";
/// Value from which an index scan is thought much more costly than it is for cached data.
const COSTLY_PAGE: f64 = 2.0;
/// Share of the blocks that are not in the server's buffers, up to which the data are cached.
const MISSED: f64 = 0.01;

/// Returns what to change so that an existing index may be used, as far as the reason is known.
pub(super) fn reasons(
    evidence: &Evidence,
    table: &RelationFact,
    node: &PlanNode,
    one: &StatementEvidence,
) -> Vec<Change> {
    let mut changes = volatile_functions(evidence, node);
    if changes.is_empty() && has_plain_index(evidence, table, node) && is_cached(one) {
        let page_cost = evidence.setting("random_page_cost");
        let page_cost = page_cost.and_then(|value| value.parse::<f64>().ok());
        if page_cost.is_some_and(|cost| cost >= COSTLY_PAGE) {
            changes.push(Change::setting(
                "an index for these columns is there and is thought too costly, although all blocks were in memory: reading \
                 a random page costs little more than the next one",
                "random_page_cost",
                CACHED_PAGE_COST,
            ));
        }
    }
    changes
}

fn has_plain_index(evidence: &Evidence, table: &RelationFact, node: &PlanNode) -> bool {
    // An index under another collation does not serve the condition.
    let is_collated = |one: &plans::Condition| one.text.contains(" COLLATE ");
    if node.conditions.iter().any(is_collated) {
        return false;
    }
    let asked = access_predicates(evidence, table, node, None);
    let shapes = btree_shapes(evidence, table);
    let mut columns = asked.equal.iter().chain(&asked.range);
    columns.any(|column| has_index(&shapes, std::slice::from_ref(column), false))
}

fn is_cached(one: &StatementEvidence) -> bool {
    one.counted.is_some_and(|counted| {
        let all = counted.shared_hit + counted.shared_read;
        all > 0 && (counted.shared_read as f64) <= MISSED * all as f64
    })
}

/// Returns a change for each function in the filter that is volatile: it is executed for each row, and its result is
/// no index condition.
fn volatile_functions(evidence: &Evidence, node: &PlanNode) -> Vec<Change> {
    let Ok(facts) = &evidence.facts else {
        return Vec::new();
    };
    let filters = node.conditions.iter().filter(|one| one.label == "Filter");
    let filters: Vec<&str> = filters.map(|one| one.text.as_str()).collect();
    let is_called = |function: &FunctionFact| {
        let call = format!("{}(", quote_identifier(&function.name));
        filters.iter().any(|text| {
            text.match_indices(&call).any(|(at, _)| {
                let before = text[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '"'))
            })
        })
    };
    let all = facts.functions.iter();
    all.filter(|function| function.definition.split_whitespace().any(|word| word == "volatile"))
        .filter(|function| is_called(function))
        .map(|function| {
            let name = format!(
                "{}.{}({})",
                quote_identifier(&function.schema),
                quote_identifier(&function.name),
                function.arguments
            );
            Change::sql(
                format!(
                    "{} is volatile, so it is executed for each row and no index serves it: declare it stable if it changes \
                     nothing and gives the same result within a statement",
                    function.name
                ),
                format!("ALTER FUNCTION {name} STABLE;"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::missing_index::RULE;
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement, table};

    /// The first change for a scan although there is an index.
    fn first(filter: &str, page_cost: &str, read: u64) -> Change {
        let plan = format!(
            r#"[{{"Plan": {{"Node Type": "Seq Scan", "Relation Name": "violin", "Plan Rows": 11, "Total Cost": 30000,
            "Filter": "{filter}"}}}}]"#
        );
        let mut made = EvidenceBuilder::new()
            .statement(
                statement(1, "select id from violin where branch = $1")
                    .took(10, 9.0)
                    .with_rows(110)
                    .with_counted(|counted| {
                        counted.shared_hit = 17_000;
                        counted.shared_read = read;
                    })
                    .with_plan(&plan),
            )
            .table(table("violin", 120_000, &["id int8", "branch int4"]))
            .index("CREATE INDEX b ON public.violin USING btree (branch)")
            .setting("random_page_cost", page_cost);
        for (name, volatility) in [("current_crew", "volatile"), ("own_crew", "stable")] {
            made.facts().functions.push(FunctionFact {
                database: "shop".to_owned(),
                schema: "public".to_owned(),
                name: name.to_owned(),
                arguments: "integer".to_owned(),
                definition: format!("function returns integer language plpgsql {volatility}"),
                source_hash: String::new(),
            });
        }
        made.findings(&RULE)[0].changes[0].clone()
    }

    #[test]
    fn volatile_function_in_a_condition_is_named() {
        let change = first("(branch = current_crew(5))", "1.1", 0);
        let sql = change.form.text().unwrap();
        assert_eq!(sql, "ALTER FUNCTION public.current_crew(integer) STABLE;");
        for other in ["own_crew(5)", "not_current_crew(5)"] {
            let change = first(&format!("(branch = {other})"), "1.1", 0);
            assert!(change.form.text().is_none(), "{other}: {change:?}");
        }
    }

    #[test]
    fn cached_table_whose_index_is_too_costly_is_a_matter_of_the_page_cost() {
        let option = |page_cost, read| first("(branch = 5)", page_cost, read).option();
        assert_eq!(option("4", 0).unwrap(), "--set 'random_page_cost=1.1'");
        assert_eq!(option("1.1", 0), None);
        assert_eq!(option("4", 9_000), None);
    }
}
