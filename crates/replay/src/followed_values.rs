//! Values of a workload that are followed to the replay: what the dispatcher must know of the whole workload beforehand.

use connect::Target;
use workload::{ArchiveError, WorkloadReader};

use crate::connect::Dialer;
use crate::dependencies::{LockOrder, LockOrderPass};
use crate::generated::{KeyColumns, PlacesCache, Provenance, ProvenancePass};
use crate::inference::{GeneratedColumns, InferencePass, InferredResults};
use crate::options::{Options, SendOrder};

/// Keys of the target, and the origins of the values of a workload.
#[derive(Debug, Default)]
pub(crate) struct FollowedValues {
    pub(crate) keys: KeyColumns,
    pub(crate) provenance: Provenance,
    /// Order of locks; empty if statements do not wait for it.
    pub(crate) locks: LockOrder,
    /// Results of a capture that has none.
    pub(crate) inferred: Option<InferredResults>,
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

    /// Queries the keys of the target, and finds the origins in the workload.
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
        let inferred = match has_results(reader) {
            true => None,
            false => Some(infer_results(reader, dialer, target, options, &keys)?),
        };
        let mut origins = ProvenancePass::default();
        let precision_us = precision_us(inferred.as_ref());
        let waits = options.order == SendOrder::Dependencies;
        let mut locks = waits.then(|| LockOrderPass::new(precision_us));
        let mut cache = PlacesCache::default();
        for item in reader.events()? {
            let (mut event, fingerprint) = item?;
            if let Some(inferred) = &inferred {
                inferred.add_to(&mut event);
            }
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
        let provenance = origins.decide(&keys, inferred.as_ref().map(InferredResults::carriers));
        let locks = locks.map(LockOrderPass::finish).unwrap_or_default();
        Ok(FollowedValues {
            keys,
            provenance,
            locks,
            inferred,
        })
    }

    /// Returns the precision of the capture's times, in microseconds.
    pub(crate) fn time_precision_us(&self) -> i64 {
        precision_us(self.inferred.as_ref())
    }
}

/// Precision of a log's times, in microseconds.
const LOG_PRECISION_US: i64 = 1_000;

/// Returns the precision of a capture's times, in microseconds. The lines of a log are taken to
/// have the time to a millisecond (`%m`), although those with `%t` have whole seconds.
fn precision_us(inferred: Option<&InferredResults>) -> i64 {
    match inferred {
        Some(_) => LOG_PRECISION_US,
        None => 0,
    }
}

/// Whether the capture has results of statements.
fn has_results(reader: &WorkloadReader) -> bool {
    reader.info().provenance.source_kind != "log"
}

/// Infers the values that the server generated in a capture without results.
///
/// # Errors
/// If the workload cannot be read.
fn infer_results(
    reader: &WorkloadReader,
    dialer: &Dialer,
    target: &Target,
    options: &Options,
    keys: &KeyColumns,
) -> Result<InferredResults, ArchiveError> {
    let columns = GeneratedColumns::load(reader, dialer, target, &options.logins)?;
    let mut pass = InferencePass::new(keys, &columns);
    let mut cache = PlacesCache::default();
    for item in reader.events()? {
        let (event, fingerprint) = item?;
        if let Some(places) = cache.get(&event, fingerprint, keys) {
            pass.add(&event, &places);
        }
    }
    let dialer = options.previous_run.is_none().then_some(dialer);
    Ok(pass.finish(dialer, LOG_PRECISION_US))
}
