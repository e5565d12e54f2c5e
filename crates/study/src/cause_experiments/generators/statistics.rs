//! Proposes statistics for nodes whose rows the planner estimates wrongly: ANALYZE, extended statistics of several columns, a greater
//! target for one. The last two include ANALYZE, so that it is tried alone before.

use diagnose::{Change, condition_columns};
use plans::PlanNode;
use run::RelationFact;

use super::super::intervention::{Action, Intervention, MeasuredStatement};

/// Factor by which an estimate is wrong.
const WRONG: f64 = 5.0;
/// Rows on either side from which it matters.
const ROWS: f64 = 50.0;
/// Statistics target that is tried.
const TARGET: u32 = 1_000;

/// Proposes statistics for the tables of the scans that are estimated wrongly, and ANALYZE for those that are stale by the server's
/// counters.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Vec<Intervention> {
    let mut all: Vec<Intervention> = Vec::new();
    let mut add = |intervention: Intervention| {
        if !all
            .iter()
            .any(|one| one.change.form == intervention.change.form)
        {
            all.push(intervention);
        }
    };
    statement.plan().root.each(&mut |node, _| {
        let Some(table) = table_of(statement, node) else {
            return;
        };
        let name = diagnose::qualified_name(&table.schema, &table.name);
        let is_stale = statement.evidence.has_stale_statistics(table);
        let is_wrong = is_wrong(node);
        if is_stale || is_wrong {
            let cause = match is_stale {
                true => format!("the planner's statistics of {name} are stale"),
                false => format!("the planner's statistics of {name} do not fit its rows, although few were changed since"),
            };
            add(Intervention {
                cause,
                change: Change::sql("new statistics", format!("ANALYZE {name};")),
                action: Action::OnPlan,
                risk: "the plans of other statements may change too".to_owned(),
            });
        }
        if !is_wrong {
            return;
        }
        let columns = condition_columns(node, table);
        match columns.as_slice() {
            [] => {}
            [column] => add(Intervention {
                cause: format!("the values of {column} in {name} are too uneven for the planner's statistics"),
                change: Change::sql(
                    format!("more statistics of {column}"),
                    format!("ALTER TABLE {name} ALTER COLUMN {column} SET STATISTICS {TARGET};\nANALYZE {name};"),
                ),
                action: Action::OnPlan,
                risk: "ANALYZE and planning take longer".to_owned(),
            }),
            several => {
                let columns = several.join(", ");
                let statistics = format!("{}_{}", table.name, several.join("_")).replace('"', "");
                let statistics = diagnose::qualified_name(&table.schema, &format!("{statistics}_stat"));
                add(Intervention {
                    cause: format!(
                        "{columns} of {name} hang together, and the planner takes them for independent"
                    ),
                    change: Change::sql(
                        "statistics of the columns together",
                        format!("CREATE STATISTICS {statistics} ON {columns} FROM {name};\nANALYZE {name};"),
                    ),
                    action: Action::OnPlan,
                    risk: "ANALYZE takes longer".to_owned(),
                });
            }
        }
    });
    all
}

fn table_of<'s>(statement: &'s MeasuredStatement<'_>, node: &PlanNode) -> Option<&'s RelationFact> {
    statement.evidence.table(&(None, node.relation.clone()?))
}

/// Whether a scan had many times more or fewer rows than the planner expected.
fn is_wrong(node: &PlanNode) -> bool {
    let Some(work) = node.actual.as_ref().filter(|work| work.loops > 0.0) else {
        return false;
    };
    let rows = work.rows / work.loops;
    let (least, most) = (rows.min(node.rows).max(1.0), rows.max(node.rows));
    node.is_scan() && most >= ROWS && most / least >= WRONG
}
