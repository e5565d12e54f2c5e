//! Executions of one or several archives, in the order in which they ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use archive::{Archive, ArchiveError};

use crate::execution::Execution;
use crate::table::{EXECUTION, read_execution};

type Item = Result<Execution, ArchiveError>;

/// Returns the executions of an archive, in the order in which they ended. Holds one batch in memory.
///
/// # Errors
/// If the first file cannot be read. Later damage is an item of the iterator.
pub(crate) fn archive_executions(
    archive: &Archive,
) -> Result<impl Iterator<Item = Item> + use<>, ArchiveError> {
    let path = archive.path().to_owned();
    let table = archive.table("executions", EXECUTION)?;
    Ok(table.rows(move |batch, row| {
        read_execution(batch, row).map_err(|reason| ArchiveError::Damaged {
            path: path.clone(),
            reason,
        })
    }))
}

/// Merges executions of several sources, each in the order in which its executions ended.
pub(crate) struct MergedExecutions<I> {
    sources: Vec<Source<I>>,
    /// Time and number of the sources that have a next execution, the earliest first.
    order: BinaryHeap<Reverse<(i64, usize)>>,
}

struct Source<I> {
    rows: I,
    next: Option<Item>,
    /// End of the last execution, in nanoseconds from the start. One that was not sent follows the one before it.
    ended_ns: i64,
}

impl<I: Iterator<Item = Item>> MergedExecutions<I> {
    pub(crate) fn new(sources: Vec<I>) -> Self {
        let mut merged = MergedExecutions {
            sources: Vec::new(),
            order: BinaryHeap::new(),
        };
        for (number, rows) in sources.into_iter().enumerate() {
            merged.sources.push(Source {
                rows,
                next: None,
                ended_ns: i64::MIN,
            });
            merged.advance(number);
        }
        merged
    }

    /// Reads the next execution of a source.
    fn advance(&mut self, number: usize) {
        let source = &mut self.sources[number];
        source.next = source.rows.next();
        match &source.next {
            None => return,
            Some(Ok(execution)) => {
                let ended_ns = execution.done_ns.unwrap_or(source.ended_ns);
                source.ended_ns = source.ended_ns.max(ended_ns);
            }
            Some(Err(_)) => {}
        }
        self.order.push(Reverse((source.ended_ns, number)));
    }
}

impl<I: Iterator<Item = Item>> Iterator for MergedExecutions<I> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let [only] = &mut self.sources[..] {
            let next = only.next.take();
            only.next = only.rows.next();
            return next;
        }
        let Reverse((_, number)) = self.order.pop()?;
        let next = self.sources[number].next.take();
        self.advance(number);
        next
    }
}
