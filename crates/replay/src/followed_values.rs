//! Values of a workload that are followed to the replay: what the dispatcher must know of the whole workload beforehand.

use connect::Target;
use workload::{ArchiveError, EventKind, WorkloadReader};

use crate::connect::Dialer;
use crate::dependencies::{LockOrder, LockOrderPass};
use crate::generated::{KeyColumns, PlacesCache, Provenance, ProvenancePass};
use crate::inference::{GeneratedColumns, InferencePass, InferredResults};
use crate::options::{Options, SendOrder};
use crate::progress::{Observer, WorkloadPass};
use crate::target_databases::TargetDatabases;

/// Number of events between two reports of a pass's progress.
const EVENTS_PER_REPORT: u64 = 1 << 16;

/// Keys of the target, and the origins of the values of a workload.
#[derive(Debug, Default)]
pub(crate) struct FollowedValues {
    pub(crate) keys: KeyColumns,
    pub(crate) provenance: Provenance,
    /// Order of locks; empty if statements do not wait for it.
    pub(crate) locks: LockOrder,
    /// Results of a capture that has none.
    pub(crate) inferred: Option<InferredResults>,
    /// Databases whose generated columns are unknown for the inference, each with the reason.
    pub(crate) generated_columns_unknown: Vec<String>,
    /// Precision of the capture's times, in microseconds.
    pub(crate) time_precision_us: i64,
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
        observer: &mut dyn Observer,
    ) -> Result<Option<Self>, ArchiveError> {
        match options.follows_values() {
            true => Self::load(reader, dialer, target, options, observer).map(Some),
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
        observer: &mut dyn Observer,
    ) -> Result<Self, ArchiveError> {
        let databases = TargetDatabases::read(reader, target, &options.logins)?;
        let keys = KeyColumns::load(&databases, dialer);
        let mut generated_columns_unknown = Vec::new();
        let inferred = match has_results(reader) {
            true => None,
            false => {
                let mut columns = GeneratedColumns::load(&databases, dialer);
                generated_columns_unknown = std::mem::take(&mut columns.unknown);
                let pass = InferencePass::new(&keys, &columns);
                let pass = read_inference(reader, pass, &keys, observer)?;
                let dialer = options.previous_run.is_none().then_some(dialer);
                Some(pass.finish(dialer, log_precision_us(reader)))
            }
        };
        let mut origins = ProvenancePass::default();
        let time_precision_us = match inferred {
            Some(_) => log_precision_us(reader),
            None => 0,
        };
        let waits = options.order == SendOrder::Dependencies;
        let mut locks = waits.then(|| LockOrderPass::new(time_precision_us));
        let mut cache = PlacesCache::default();
        let mut progress = PassProgress::new(WorkloadPass::Origins, reader);
        for item in reader.events()? {
            let (mut event, fingerprint) = item?;
            progress.add_event(observer);
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
            generated_columns_unknown,
            time_precision_us,
        })
    }
}

/// Returns the precision of a log's times, in microseconds: a second if a `log_line_prefix` of the capture has whole
/// seconds only, else a millisecond.
fn log_precision_us(reader: &WorkloadReader) -> i64 {
    let prefixes = &reader.info().provenance.reconciliation["tallies"]["prefixes"];
    let mut prefixes = prefixes.as_array().into_iter().flatten();
    match prefixes.any(|prefix| prefix.as_str().is_some_and(has_whole_seconds)) {
        true => 1_000_000,
        false => 1_000,
    }
}

/// Whether lines with this `log_line_prefix` have times in whole seconds (`%t`) only, without `%m` and `%n`.
fn has_whole_seconds(prefix: &str) -> bool {
    let mut escapes = Vec::new();
    let mut rest = prefix.chars();
    while rest.any(|letter| letter == '%') {
        // A number for padding may precede the letter.
        escapes.extend(rest.find(|letter| *letter != '-' && !letter.is_ascii_digit()));
    }
    escapes.contains(&'t') && !escapes.iter().any(|letter| matches!(letter, 'm' | 'n'))
}

/// Whether the capture has results of statements.
fn has_results(reader: &WorkloadReader) -> bool {
    reader.info().provenance.source_kind != "log"
}

/// Reads a capture without results into the pass that infers them.
///
/// # Errors
/// If the workload cannot be read.
fn read_inference<'k>(
    reader: &WorkloadReader,
    mut pass: InferencePass<'k>,
    keys: &KeyColumns,
    observer: &mut dyn Observer,
) -> Result<InferencePass<'k>, ArchiveError> {
    let mut cache = PlacesCache::default();
    let mut progress = PassProgress::new(WorkloadPass::Inference, reader);
    for item in reader.events()? {
        let (event, fingerprint) = item?;
        progress.add_event(observer);
        if event.kind == EventKind::Disconnect {
            pass.end_session(event.session);
        } else if let Some(places) = cache.get(&event, fingerprint, keys) {
            pass.add(&event, &places);
        }
    }
    Ok(pass)
}

/// Progress of a pass over the workload.
struct PassProgress {
    pass: WorkloadPass,
    read: u64,
    all: u64,
}

impl PassProgress {
    fn new(pass: WorkloadPass, reader: &WorkloadReader) -> Self {
        PassProgress {
            pass,
            read: 0,
            all: reader.info().events,
        }
    }

    /// Counts an event, and reports the progress now and then.
    fn add_event(&mut self, observer: &mut dyn Observer) {
        self.read += 1;
        if self.read.is_multiple_of(EVENTS_PER_REPORT) {
            observer.on_workload_pass(self.pass, self.read, self.all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_prefix_are_in_whole_seconds_without_milliseconds_or_epoch() {
        for (prefix, expected) in [
            // That of Amazon RDS.
            ("%t:%r:%u@%d:[%p]:", true),
            ("%-20t [%p] ", true),
            ("%m [%p] ", false),
            ("%t %n [%p] ", false),
            ("%%t %m [%p] ", false),
            ("[%p] %%t ", false),
        ] {
            assert_eq!(has_whole_seconds(prefix), expected, "{prefix}");
        }
    }
}
