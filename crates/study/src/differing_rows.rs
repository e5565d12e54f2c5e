//! Counts the executions whose rows differ, and names their columns, by reading the runs once more.

use archive::ArchiveError;
use compare::{ColumnPairs, Comparison, ExecutionPairs, Side};
use run::RunReader;

/// Counts the differing executions of the statements whose rows differ or may differ, and names their columns. Each run
/// before is compared with the corresponding one after. Reads nothing if no statement's rows may differ.
///
/// # Errors
/// If a run cannot be read.
pub(crate) fn count_differing_rows(
    comparison: &mut Comparison,
    before: &[RunReader],
    after: &[RunReader],
) -> Result<(), ArchiveError> {
    if comparison.rows.statements_to_count().is_empty() {
        return Ok(());
    }
    let (mut pairs, mut columns) = (Vec::new(), Vec::new());
    for (before, after) in before.iter().zip(after) {
        let (rows, their_columns) = pair(comparison, before, after)?;
        pairs.push(rows);
        columns.push(their_columns);
    }
    if !comparison.rows.ignored_columns.is_empty() {
        let windows = before.windows(2).chain(after.windows(2));
        let within: Result<Vec<_>, _> = windows
            .map(|runs| pair(comparison, &runs[0], &runs[1]))
            .collect();
        comparison.rows.recheck_unsteady(&within?);
    }
    comparison.rows.count(&pairs, &columns);
    Ok(())
}

/// Pairs the executions of two runs.
fn pair(
    comparison: &Comparison,
    before: &RunReader,
    after: &RunReader,
) -> Result<(ExecutionPairs, ColumnPairs), ArchiveError> {
    let statements = comparison.rows.statements_to_count();
    let mut pairs = ExecutionPairs::new(statements.clone());
    alternately(
        [before.executions()?, after.executions()?],
        |side, execution| {
            pairs.add(side, &execution);
        },
    )?;
    let ignored = comparison.rows.ignored_columns.iter();
    let ignored = ignored.map(|ignored| ignored.column.clone()).collect();
    let mut columns = ColumnPairs::new(statements, ignored, comparison.literals);
    let sides = [before.result_columns()?, after.result_columns()?];
    alternately(sides, |side, result| columns.add(side, result))?;
    Ok((pairs, columns))
}

/// Takes the items of both sides by turns.
fn alternately<T>(
    mut sides: [impl Iterator<Item = Result<T, ArchiveError>>; 2],
    mut take: impl FnMut(Side, T),
) -> Result<(), ArchiveError> {
    loop {
        let mut ended = 0;
        for (side, items) in [Side::Before, Side::After].into_iter().zip(&mut sides) {
            match items.next() {
                Some(item) => take(side, item?),
                None => ended += 1,
            }
        }
        if ended == sides.len() {
            return Ok(());
        }
    }
}
