//! Compares the answers of a statement on both servers, and explains a difference by collations.

use observe::Example;

use super::planning_state::PlanningState;
use super::result::{RegressionRemedy, RegressionSign, RemedyKind};
use crate::cause_experiments::TrialConnection;

/// Difference between the answers of both servers.
#[derive(Debug)]
pub(super) struct AnswerDifference {
    pub(super) sign: RegressionSign,
    pub(super) cause: String,
    /// Remedy that gave the answer of the old server.
    pub(super) remedy: Option<RegressionRemedy>,
}

/// Compares the answers for each parameter set. Returns the first difference that lasts.
///
/// # Errors
/// If a server refuses the statement.
pub(super) fn compare_answers(
    (old, new): (&mut TrialConnection<'_>, &mut TrialConnection<'_>),
    states: (&PlanningState, &PlanningState),
    sets: &[Example],
) -> Result<Option<AnswerDifference>, String> {
    for example in sets {
        let (before, again) = (answer(old, &[], example)?, answer(old, &[], example)?);
        let after = answer(new, &[], example)?;
        // An answer that differs on one server depends on the time or on chance.
        if before == after || before != again {
            continue;
        }
        let found = match before.rows != after.rows {
            true => Some(explain_rows(new, states.1, example, &before)?),
            false => explain_order(states, example),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Number and checksum of the rows, and a checksum of their order.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    rows: [Option<String>; 2],
    order: Option<String>,
}

/// Executes a query in a transaction that is rolled back, after these statements. The server needs no memory for the rows: it sums
/// their hashes, and the products of hash and position.
fn answer(
    connection: &mut TrialConnection<'_>,
    setup: &[String],
    example: &Example,
) -> Result<Answer, String> {
    let sql = example.sql.trim_end().trim_end_matches(';');
    let question = format!(
        "SELECT count(*)::text, sum(hash)::text, sum(hash::numeric * number)::text FROM (SELECT \
         ('x' || substr(md5((rehearse_answer.*)::text), 1, 16))::bit(64)::bigint AS hash, row_number() OVER () AS number \
         FROM (\n{sql}\n) rehearse_answer) hashes"
    );
    connection.begin()?;
    let prepared = setup
        .iter()
        .try_for_each(|statement| connection.query(statement).map(drop));
    let rows = prepared.and_then(|()| connection.query_as(&question, example));
    connection.roll_back()?;
    let row = rows?.into_iter().next().unwrap_or_default();
    let text = |column: usize| {
        row.get(column)
            .cloned()
            .flatten()
            .map(|one| one.to_string())
    };
    Ok(Answer {
        rows: [text(0), text(1)],
        order: text(2),
    })
}

/// Explains other rows: an index that another collation ordered, if the new server gives the old answer without it.
fn explain_rows(
    new: &mut TrialConnection<'_>,
    state: &PlanningState,
    example: &Example,
    expected: &Answer,
) -> Result<AnswerDifference, String> {
    let without_indexes = ["indexscan", "indexonlyscan", "bitmapscan"]
        .map(|method| format!("SET LOCAL enable_{method} = off"));
    let mut found = AnswerDifference {
        sign: RegressionSign::OtherRows,
        cause: "The answers differ, and no difference of indexes explains it.".to_owned(),
        remedy: None,
    };
    if answer(new, &without_indexes, example)?.rows != expected.rows {
        return Ok(found);
    }
    new.begin()?;
    let plan = new.plan(example, crate::cause_experiments::PlanningMode::Custom);
    new.roll_back()?;
    let mut names = Vec::new();
    plan?
        .root
        .each(&mut |node, _| names.extend(node.index.clone()));
    let indexes = state
        .indexes
        .iter()
        .filter(|one| names.contains(&one.plain));
    let statements: Vec<String> = indexes
        .map(|one| format!("REINDEX INDEX {}", one.name))
        .collect();
    found.cause = format!(
        "The index {} gives other rows than the table has: its order is that of another collation. Without it, the answer is \
         that of the old server.",
        names.join(", ")
    );
    if !statements.is_empty() && answer(new, &statements, example)?.rows == expected.rows {
        found.remedy = Some(RegressionRemedy {
            kind: RemedyKind::Reindex,
            cause: found.cause.clone(),
            statements,
            setting: None,
            role: None,
            risk: "It blocks writes to the table while the index is built; REINDEX CONCURRENTLY does not. Search all text \
                   indexes with amcheck, too."
                .to_owned(),
        });
    }
    Ok(found)
}

/// Explains another order of the same rows. Without ORDER BY, and with equal keys, any order is right.
fn explain_order(
    (old, new): (&PlanningState, &PlanningState),
    example: &Example,
) -> Option<AnswerDifference> {
    let is_sorted = example.sql.to_ascii_lowercase().contains("order by");
    (is_sorted && new.collation.differs(&old.collation)).then(|| AnswerDifference {
        sign: RegressionSign::OtherOrder,
        cause: format!(
            "The order of texts depends on the collation: {} on the old server, {} on the new one. Create the new database \
             with the old collation, or add COLLATE to the ORDER BY.",
            old.collation.description(),
            new.collation.description()
        ),
        remedy: None,
    })
}
