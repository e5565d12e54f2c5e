//! Parallel processing of statements.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies a function to each item on several threads, and returns the results in the items' order.
pub(super) fn map_in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let one_thread = || {
        let mut results = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return results;
            };
            results.push((at, work(item)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one_thread)).collect();
        let mut results = one_thread();
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
