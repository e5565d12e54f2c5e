//! Values that the server generated in the capture (sequence numbers, UUIDs, snapshots), and the values that it
//! generates in the replay.
//!
//! ```text
//! workload ─► Provenance (one pass) ─► ValueTracker (dispatcher) ─► Job: expected values, used values
//!                                                                      │              │
//!                                                         answer ─► ReplayedValues ─► messages to send
//! ```
//!
//! A value is followed by its *origin*: the column of the result in which it came. [`Provenance`] decides, for each
//! place of each statement, which origins its values have. [`ValueTracker`] finds the execution that a used value comes
//! from, in any session. So a quantity of 1,001 stays as it is if the order number 1,001 became 6,001.
//!
//! The first row of a result is known, and all rows of `INSERT … RETURNING`. Values are followed into the elements of arrays
//! and the members of JSON documents that are parameters ([`parts`]), not into longer texts, and not into literals of arrays
//! and documents.

mod array_elements;
mod event_values;
mod expected_rows;
mod key_columns;
mod parts;
mod provenance;
mod replayed_values;
mod rewrite;
mod tracker;
mod value;

pub(crate) use event_values::{
    PlacesCache, StatementPlaces, add_elements_at, add_result_texts, add_text_at,
};
pub(crate) use expected_rows::{ExpectedRows, READ_BYTES_MAX, ReplayedValue};
pub(crate) use key_columns::KeyColumns;
pub(crate) use provenance::{Provenance, ProvenancePass};
pub(crate) use replayed_values::{ReplayedValues, VALUES_MAX};
pub(crate) use rewrite::replace_values;
pub(crate) use tracker::{Tracked, UsedValue, ValueSource, ValueTracker};
pub(crate) use value::Value;

use connect::Target;
use workload::{ArchiveError, WorkloadReader};

use crate::connect::Dialer;
use crate::dependencies::{LockOrder, LockOrderPass};
use crate::options::{Options, SendOrder};

/// Keys of the target, and the origins of the values of a workload.
#[derive(Debug, Default)]
pub(crate) struct FollowedValues {
    pub(crate) keys: KeyColumns,
    pub(crate) provenance: Provenance,
    /// Order of locks; empty if statements do not wait for it.
    pub(crate) locks: LockOrder,
}

impl FollowedValues {
    /// Loads them if the options ask to follow generated values.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(crate) fn load_if_followed(
        reader: &WorkloadReader,
        dialer: &Dialer,
        target: &Target,
        options: &Options,
    ) -> Result<Option<Self>, ArchiveError> {
        match options.follows_values() {
            true => Self::load(reader, dialer, target, options).map(Some),
            false => Ok(None),
        }
    }

    /// Asks the target for its keys, and learns the origins from the workload.
    ///
    /// # Errors
    /// If the workload cannot be read.
    fn load(
        reader: &WorkloadReader,
        dialer: &Dialer,
        target: &Target,
        options: &Options,
    ) -> Result<Self, ArchiveError> {
        let keys = KeyColumns::load(reader, dialer, target, &options.logins)?;
        let mut origins = ProvenancePass::default();
        let mut locks = (options.order == SendOrder::Dependencies).then(LockOrderPass::default);
        let mut cache = PlacesCache::default();
        for item in reader.events()? {
            let (event, fingerprint) = item?;
            let Some(places) = cache.get(&event, fingerprint, &keys) else {
                continue;
            };
            if let Some(fingerprint) = fingerprint {
                origins.add(&event, fingerprint, &places);
            }
            if let Some(locks) = &mut locks {
                locks.add(&event, &places, &keys);
            }
        }
        let provenance = origins.decide(&keys);
        let locks = locks.map(LockOrderPass::finish).unwrap_or_default();
        Ok(FollowedValues {
            keys,
            provenance,
            locks,
        })
    }
}

#[cfg(test)]
mod tests;
