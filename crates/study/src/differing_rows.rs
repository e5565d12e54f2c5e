//! Counts the executions whose rows differ, by reading the runs once more.

use archive::ArchiveError;
use compare::{Comparison, ExecutionPairs, Side};
use run::RunReader;

/// Counts the differing executions of the statements whose rows differ or may differ. Each run before is compared with
/// the corresponding one after. Reads nothing if no statement's rows may differ.
///
/// # Errors
/// If a run cannot be read.
pub(crate) fn count_differing_rows(
    comparison: &mut Comparison,
    before: &[RunReader],
    after: &[RunReader],
) -> Result<(), ArchiveError> {
    let statements = comparison.rows.statements_to_count();
    if statements.is_empty() {
        return Ok(());
    }
    let mut all = Vec::new();
    for (before, after) in before.iter().zip(after) {
        let mut pairs = ExecutionPairs::new(statements.clone());
        let mut sides = [before.executions()?, after.executions()?];
        loop {
            let mut ended = 0;
            for (side, executions) in [Side::Before, Side::After].into_iter().zip(&mut sides) {
                match executions.next() {
                    Some(execution) => pairs.add(side, &execution?),
                    None => ended += 1,
                }
            }
            if ended == sides.len() {
                break;
            }
        }
        all.push(pairs);
    }
    comparison.rows.count(&all);
    Ok(())
}
