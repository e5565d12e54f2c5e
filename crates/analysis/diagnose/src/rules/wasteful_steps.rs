//! Steps of a plan that read much more than they keep.

use plans::{Plan, PlanNode};
use run::RelationFact;

use crate::access_predicates::{access_predicates, btree_shapes};
use crate::evidence::{Evidence, StatementEvidence};
use crate::index_candidates::join_columns;
use crate::index_shape::IndexShape;
use crate::threshold::{Threshold, Thresholds};

pub(crate) const ROWS: Threshold = Threshold {
    name: "missing-index-rows",
    value: 5_000.0,
    unit: "rows of a table",
    decides: "reading all of a smaller table is no matter",
    source: "ours",
};

pub(super) const KEPT: Threshold = Threshold {
    name: "missing-index-kept",
    value: 0.1,
    unit: "share of the rows read",
    decides: "a step that keeps more of what it reads needs no other index",
    source: "ours: about where the planner itself goes from an index to the whole table",
};

pub(super) const BLOCKS: Threshold = Threshold {
    name: "missing-index-blocks",
    value: 50.0,
    unit: "blocks a row",
    decides: "an index scan with a filter that reads so much for a row has the wrong index",
    source: "ours",
};

/// Blocks for each row above which a scan over a range of an index is wasteful, if the index's later column is
/// compared for equality. Rows that an index finds directly take one or two blocks each.
const RANGE_BLOCKS: f64 = 5.0;
/// Blocks for each row above which a bitmap scan is wasteful that keeps few of the rows that its index finds.
const BITMAP_BLOCKS: f64 = 20.0;
/// Blocks that any index scan reads on its way to the first row.
const DESCENT: f64 = 4.0;

/// Reason why a step is wasteful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waste {
    /// It reads many rows that its filter removes.
    Rows,
    /// It reads many blocks for each row.
    Blocks,
    /// It reads a range of an index, because a later column of the index is the one compared for equality.
    Range,
    /// A join above it keeps few of its rows.
    Join,
}

/// Node that reads much and keeps little.
pub(super) struct WastefulStep<'p> {
    pub(super) node: &'p PlanNode,
    pub(super) read: f64,
    pub(super) kept: f64,
    /// Source of these numbers.
    pub(super) from: &'static str,
    /// Sort key of a sort above it.
    pub(super) order: Option<&'p str>,
    /// Whether a limit is above it.
    pub(super) limited: bool,
    pub(super) waste: Waste,
    /// Columns by which a join above it looks for its rows.
    pub(super) joined: Vec<String>,
}

impl WastefulStep<'_> {
    /// Whether the numbers are blocks, not rows.
    pub(super) fn is_of_blocks(&self) -> bool {
        matches!(self.waste, Waste::Blocks | Waste::Range)
    }
}

/// Returns the wasteful steps of a statement's plan.
pub(super) fn wasteful_steps<'p>(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
    plan: &'p Plan,
) -> Vec<WastefulStep<'p>> {
    let mut found = Vec::new();
    // Ancestors of the visited node.
    let mut above: Vec<&PlanNode> = Vec::new();
    plan.root.each(&mut |node, depth| {
        above.truncate(depth);
        if let Some(table) = table_of(evidence, node) {
            let context = Context {
                evidence,
                thresholds,
                one,
                table,
            };
            if let Some((read, kept, from, waste)) = context.waste(node, &above) {
                let sort = above.iter().rev().take_while(|step| !step.is_join());
                let sort = sort.flat_map(|step| &step.conditions);
                let order = sort.into_iter().find(|one| one.label == "Sort Key");
                found.push(WastefulStep {
                    node,
                    read,
                    kept,
                    from,
                    order: order.map(|one| one.text.as_str()),
                    limited: above.iter().any(|step| step.kind == "Limit"),
                    waste,
                    joined: match waste {
                        Waste::Join => join_columns(table, node, &above),
                        _ => Vec::new(),
                    },
                });
            }
        }
        above.push(node);
    });
    found
}

/// Returns the table that a node reads.
pub(super) fn table_of<'e>(evidence: &'e Evidence, node: &PlanNode) -> Option<&'e RelationFact> {
    evidence.table(&(None, node.relation.clone()?))
}

type Numbers = (f64, f64, &'static str, Waste);

const BLOCKS_FROM: &str = "blocks of the statement (pg_stat_statements)";

/// Returns the number by which the planner divided a node's rows, since parallel processes share them.
fn divisor(above: &[&PlanNode]) -> f64 {
    let gathers = above.iter().rev().find(|step| step.workers.is_some());
    gathers.map_or(1.0, |step| step.parallel_divisor())
}

struct Context<'e> {
    evidence: &'e Evidence,
    thresholds: &'e Thresholds,
    one: &'e StatementEvidence,
    table: &'e RelationFact,
}

impl Context<'_> {
    /// Returns what a node reads and keeps in each execution if that is wasteful.
    fn waste(&self, node: &PlanNode, above: &[&PlanNode]) -> Option<Numbers> {
        let is_filtered = node.conditions.iter().any(|one| one.label == "Filter");
        match node.kind.as_str() {
            "Seq Scan" => self
                .filtered(node, above)
                .filter(|_| is_filtered)
                .or_else(|| self.joined(node, above)),
            "Bitmap Heap Scan" => {
                let read = node
                    .children
                    .iter()
                    .map(|below| below.rows)
                    .fold(0.0, f64::max);
                let kept = (node.rows * divisor(above)).min(read);
                let by_rows = (read, kept, "plan (EXPLAIN)", Waste::Rows);
                let is_selective = kept <= read * self.thresholds.of(&KEPT);
                let is_wasteful = is_selective
                    && (read >= self.thresholds.of(&ROWS)
                        || self.reads_many_blocks(kept, BITMAP_BLOCKS));
                is_wasteful
                    .then_some(by_rows)
                    .filter(|_| is_filtered)
                    .or_else(|| self.range(node))
            }
            "Index Scan" | "Index Only Scan" => {
                let (blocks, rows) = self.blocks_and_rows()?;
                let is_wasteful = blocks / rows.max(1.0) >= self.thresholds.of(&BLOCKS);
                (is_filtered && is_wasteful)
                    .then_some((blocks, rows, BLOCKS_FROM, Waste::Blocks))
                    .or_else(|| self.range(node))
            }
            _ => None,
        }
    }

    fn filtered(&self, node: &PlanNode, above: &[&PlanNode]) -> Option<Numbers> {
        let read = self.table.rows? as f64;
        let kept = (node.rows * divisor(above)).min(read);
        let is_wasteful =
            read >= self.thresholds.of(&ROWS) && kept <= read * self.thresholds.of(&KEPT);
        is_wasteful.then_some((read, kept, "plan (EXPLAIN) and pg_class", Waste::Rows))
    }

    /// Returns the blocks and rows of each call. Blocks belong to the plan that ran, which is not always the known
    /// one.
    fn blocks_and_rows(&self) -> Option<(f64, f64)> {
        let counted = self.one.counted.filter(|counted| counted.calls > 0)?;
        let blocks = (counted.shared_hit + counted.shared_read) as f64 / counted.calls as f64;
        let rows = counted.rows as f64 / counted.calls as f64;
        (!self.one.exceeds_its_plan()).then_some((blocks, rows))
    }

    /// Whether the statement reads this number of blocks for each row that it gives, or that a step keeps.
    fn reads_many_blocks(&self, kept: f64, blocks_each: f64) -> bool {
        self.blocks_and_rows()
            .is_some_and(|(blocks, rows)| blocks / rows.max(kept).max(1.0) >= blocks_each)
    }

    /// Judges a scan over a range of an index.
    fn range(&self, node: &PlanNode) -> Option<Numbers> {
        if !self.has_equality_after_range(node) {
            return None;
        }
        let (blocks, rows) = self.blocks_and_rows()?;
        let is_wasteful = blocks >= RANGE_BLOCKS * (rows.max(node.rows) + DESCENT);
        is_wasteful.then_some((blocks, rows, BLOCKS_FROM, Waste::Range))
    }

    /// Whether the index that a node reads begins with a column that is compared with a range, and a later column of
    /// it is compared for equality.
    fn has_equality_after_range(&self, node: &PlanNode) -> bool {
        let scans = std::iter::once(node).chain(node.children.iter().filter(|one| one.is_part()));
        scans.filter_map(|scan| scan.index.as_deref()).any(|name| {
            let all = self.evidence.indexes(self.table).into_iter();
            let shape = all.filter(|index| index.name == name);
            let Some(shape) = shape.map(IndexShape::parse).next() else {
                return false;
            };
            let asked = access_predicates(self.evidence, self.table, node, None);
            let keys = shape.columns();
            let is_equal = |key: &&str| asked.equal.iter().any(|column| column == key);
            let leading = keys.first();
            shape.method == "btree"
                && leading
                    .is_some_and(|key| !is_equal(key) && asked.range.iter().any(|one| one == key))
                && keys.iter().skip(1).any(is_equal)
        })
    }

    /// Judges a scan of a whole table, most of whose rows a join above it does not keep.
    fn joined(&self, node: &PlanNode, above: &[&PlanNode]) -> Option<Numbers> {
        let read = self.table.rows? as f64;
        let place = above.iter().rposition(|step| step.is_join())?;
        let (join, kept) = (above[place], above[place].rows * divisor(&above[..place]));
        let is_wasteful =
            read >= self.thresholds.of(&ROWS) && kept <= read * self.thresholds.of(&KEPT);
        if !is_wasteful
            || join.join.as_deref() != Some("Inner") && join.join.as_deref() != Some("Left")
        {
            return None;
        }
        let columns = join_columns(self.table, node, above);
        let shapes = btree_shapes(self.evidence, self.table);
        let is_indexed = |column: &String| {
            let mut all = shapes.iter();
            all.any(|shape| shape.columns().first() == Some(&column.as_str()))
        };
        (!columns.is_empty() && !columns.iter().any(is_indexed)).then_some((
            read,
            kept,
            "plan (EXPLAIN) and pg_class",
            Waste::Join,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::missing_index::RULE;
    use crate::synthetic::{EvidenceBuilder, statement, table};

    /// Changes for a statement that reads these blocks for 20 rows in each of 10 calls.
    fn suggested(plan: &str, blocks: u64, indexes: &[&str]) -> Vec<String> {
        let mut made = EvidenceBuilder::new()
            .statement(
                statement(1, "select id from novel where region = $1 and stage = $2")
                    .took(10, 9.0)
                    .with_rows(200)
                    .with_counted(|counted| counted.shared_hit = 10 * blocks)
                    .with_plan(&format!("[{{\"Plan\": {plan}}}]")),
            )
            .table(table(
                "novel",
                100_000,
                &[
                    "id int8",
                    "region int4",
                    "stage int4",
                    "arrived timestamptz",
                ],
            ))
            .table(table("chapter", 10_000, &["id int8", "grp int4"]));
        for index in indexes {
            made = made.index(index);
        }
        let found = made.findings(&RULE);
        let changes = found.iter().flat_map(|one| &one.changes);
        changes
            .map(|one| one.form.text().unwrap_or_else(|| one.words.clone()))
            .collect()
    }

    const ON_REGION: &str = "CREATE INDEX r ON public.novel USING btree (region)";

    #[test]
    fn bitmap_scan_with_many_blocks_for_each_row_needs_another_index() {
        let plan = r#"{"Node Type": "Bitmap Heap Scan", "Relation Name": "novel", "Plan Rows": 30, "Total Cost": 1700,
            "Recheck Cond": "(region = 5)", "Filter": "(stage = 7)", "Plans": [{"Node Type": "Bitmap Index Scan",
            "Parent Relationship": "Outer", "Index Name": "r", "Plan Rows": 4000, "Index Cond": "(region = 5)"}]}"#;
        let found = suggested(plan, 1_600, &[ON_REGION]);
        assert!(
            found[0].starts_with("CREATE INDEX ON public.novel ("),
            "{found:?}"
        );
        assert!(found[0].contains("region") && found[0].contains("stage"));
        assert_eq!(suggested(plan, 200, &[ON_REGION]), [""; 0]);
    }

    #[test]
    fn range_before_equality_in_an_index_is_turned_round() {
        let plan = r#"{"Node Type": "Index Scan", "Relation Name": "novel", "Index Name": "a", "Plan Rows": 20,
            "Total Cost": 900, "Index Cond": "((arrived > now()) AND (region = 5))"}"#;
        let index = "CREATE INDEX a ON public.novel USING btree (arrived, region)";
        assert_eq!(
            suggested(plan, 220, &[index]),
            ["CREATE INDEX ON public.novel (region, arrived);"]
        );
        // As many blocks as rows.
        assert_eq!(suggested(plan, 40, &[index]), [""; 0]);
        let other = "CREATE INDEX a ON public.novel USING btree (region, arrived)";
        assert_eq!(suggested(plan, 220, &[other]), [""; 0]);
    }

    #[test]
    fn table_of_which_a_join_keeps_little_needs_an_index() {
        let plan = |rows: u64| {
            format!(
                r#"{{"Node Type": "Hash Join", "Join Type": "Inner", "Plan Rows": {rows}, "Total Cost": 2500,
                "Hash Cond": "(n.region = c.id)", "Plans": [
                {{"Node Type": "Seq Scan", "Relation Name": "novel", "Alias": "n", "Plan Rows": 100000}},
                {{"Node Type": "Hash", "Plans": [{{"Node Type": "Index Scan", "Relation Name": "chapter", "Alias": "c",
                "Index Name": "g", "Index Cond": "(grp = 4)", "Plan Rows": 4}}]}}]}}"#
            )
        };
        assert_eq!(
            suggested(&plan(40), 1_300, &[]),
            ["CREATE INDEX ON public.novel (region);"]
        );
        assert_eq!(suggested(&plan(40), 1_300, &[ON_REGION]), [""; 0]);
        assert_eq!(suggested(&plan(40_000), 1_300, &[]), [""; 0]);
    }

    #[test]
    fn alternatives_overlap_and_collation_have_indexes_of_their_kind() {
        let scan = |filter: &str| {
            format!(
                r#"{{"Node Type": "Seq Scan", "Relation Name": "novel", "Plan Rows": 20, "Total Cost": 2500, "Filter": "{filter}"}}"#
            )
        };
        let either = scan("((region = 5) OR (stage = 5))");
        assert_eq!(
            suggested(&either, 1_300, &[ON_REGION]),
            ["CREATE INDEX ON public.novel (stage);"]
        );
        // An alternative that is no comparison of a column would still read the whole table.
        let found = suggested(
            &scan("((region = 5) OR (stage % 7 = 5))"),
            1_300,
            &[ON_REGION],
        );
        assert!(!found[0].starts_with("CREATE"), "{found:?}");
        let collated = scan("(region = 5 COLLATE \\\"en-x-icu\\\")");
        assert_eq!(
            suggested(&collated, 1_300, &[ON_REGION])[0],
            "CREATE INDEX ON public.novel (region COLLATE \"en-x-icu\");"
        );
    }
}
