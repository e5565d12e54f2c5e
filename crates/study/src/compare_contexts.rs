//! Compares runs by a part of the context that comments of statements name.

use std::path::PathBuf;

use archive::ArchiveError;
use compare::{CompareOptions, Comparison, ContextGrouper, ContextsComparison, RunStats, Runs};
use run::{RunReader, ToolStall};
use sql::ContextKey;

use crate::common_stalls::common_stalls;
use crate::failure::Failure;

/// Reads the runs before, after and for the noise once more, with their executions grouped by the values of `key`.
/// `comparison` is that of the same runs by statement.
///
/// # Errors
/// If a run cannot be read.
pub(crate) fn compare_contexts(
    key: ContextKey,
    paths: [&[PathBuf]; 3],
    options: CompareOptions,
    comparison: &Comparison,
) -> Result<ContextsComparison, Failure> {
    let open = |paths: &[PathBuf]| -> Result<Vec<RunReader>, ArchiveError> {
        paths.iter().map(|path| RunReader::open(path)).collect()
    };
    let [before, after, noise] = paths.map(open);
    let (before, after, noise) = (before?, after?, noise?);
    let readers: Vec<&RunReader> = before.iter().chain(&after).chain(&noise).collect();
    let stalls = common_stalls(&readers);
    let read = |side: &[RunReader]| -> Result<(Vec<RunStats>, Vec<ContextGrouper>), ArchiveError> {
        let runs = side.iter();
        let runs = runs.map(|reader| read_grouped(key, reader, stalls.as_deref()));
        Ok(runs.collect::<Result<Vec<_>, _>>()?.into_iter().unzip())
    };
    let (before, before_groups) = read(&before)?;
    let (after, after_groups) = read(&after)?;
    let (noise, _) = read(&noise)?;
    let runs = Runs {
        before,
        after,
        noise,
    };
    let groups = [&before_groups[..], &after_groups];
    Ok(compare::compare_contexts(
        key, runs, groups, options, comparison,
    ))
}

fn read_grouped(
    key: ContextKey,
    reader: &RunReader,
    stalls: Option<&[ToolStall]>,
) -> Result<(RunStats, ContextGrouper), ArchiveError> {
    let mut grouper = ContextGrouper::new(key, reader.contexts()?)?;
    let texts = grouper.texts().into_iter().map(Ok);
    let executions = reader.executions()?;
    let stats = RunStats::collect_outside(
        stalls.unwrap_or(&reader.info().tool_stalls).to_vec(),
        reader.info().clone(),
        executions.map(|execution| Ok(grouper.regroup(execution?))),
        texts,
    )?;
    Ok((stats, grouper))
}
