//! Chooses the executions whose rows are kept: a sample of each statement that is the same in every replay.

use std::collections::HashMap;

use run::ResultColumns;
use sql::Fingerprint;

use crate::event_stream::mix;

/// Executions of a statement that are kept before the sample is halved.
const EXECUTIONS: u32 = 1_024;
/// Maximum bytes of all kept rows.
const BYTES_MAX: usize = 64 << 20;

/// Sample of executions. An execution is in it if the hash of its session and sequence is below a limit, which halves
/// whenever as many were kept again. So it is spread over the whole replay, and the executions below the lower limit of
/// two replays are in both samples. A statement of n executions keeps rows of at most EXECUTIONS · log2(n) of them.
#[derive(Debug)]
pub(crate) struct RowSample {
    left_bytes: usize,
    statements: HashMap<Option<Fingerprint>, StatementSample>,
}

#[derive(Debug, Clone, Copy)]
struct StatementSample {
    below: u64,
    kept: u32,
}

impl RowSample {
    /// Creates a sample. `keeps`: whether rows may be kept at all.
    pub(crate) fn new(keeps: bool) -> Self {
        RowSample {
            left_bytes: if keeps { BYTES_MAX } else { 0 },
            statements: HashMap::new(),
        }
    }

    /// Removes the rows if the execution is not in the sample.
    pub(crate) fn limit(&mut self, columns: &mut ResultColumns) {
        let bytes = columns.kept_bytes();
        let hash = mix(mix(columns.session).wrapping_add(columns.sequence));
        let sample = self
            .statements
            .entry(columns.fingerprint)
            .or_insert(StatementSample {
                below: u64::MAX,
                kept: 0,
            });
        if hash >= sample.below || bytes > self.left_bytes {
            columns.kept_rows.clear();
            return;
        }
        self.left_bytes -= bytes;
        sample.kept += 1;
        if sample.kept == EXECUTIONS {
            (sample.below, sample.kept) = (sample.below / 2, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn kept(sample: &mut RowSample, sequences: impl Iterator<Item = u64>) -> BTreeSet<u64> {
        let in_sample = |sequence: &u64| {
            let mut columns = ResultColumns {
                sequence: *sequence,
                kept_rows: vec![[0; 10].into()],
                ..ResultColumns::default()
            };
            sample.limit(&mut columns);
            !columns.kept_rows.is_empty()
        };
        sequences.filter(in_sample).collect()
    }

    #[test]
    fn samples_of_two_orders_have_executions_of_the_whole_replay_in_common() {
        let many = 100_000;
        let one = kept(&mut RowSample::new(true), 0..many);
        let other = kept(&mut RowSample::new(true), (0..many).rev());
        assert!(one.len() < 10 * EXECUTIONS as usize, "{}", one.len());
        let common: Vec<_> = one.intersection(&other).collect();
        assert!(common.len() > EXECUTIONS as usize / 4, "{}", common.len());
        for part in 0..4 {
            let range = part * many / 4..(part + 1) * many / 4;
            assert!(common.iter().any(|one| range.contains(one)), "{part}");
        }
    }

    #[test]
    fn no_row_is_kept_if_none_may_be() {
        assert!(kept(&mut RowSample::new(false), 0..10).is_empty());
    }
}
