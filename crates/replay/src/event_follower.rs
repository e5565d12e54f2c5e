//! Follows the generated values and the dependencies of a workload's events, in captured time.

use std::sync::Arc;

use sql::Fingerprint;
use workload::Event;

use crate::dependencies::DependencyTracker;
use crate::followed_values::FollowedValues;
use crate::generated::{KeyColumns, PlacesCache, StatementPlaces, Tracked, ValueTracker};
use crate::inference::InferredResults;

/// State of what is followed. It takes all events in order.
#[derive(Default)]
pub(crate) struct EventFollower<'v> {
    /// Keys of the target, if generated values are followed.
    keys: Option<&'v KeyColumns>,
    /// Results of a capture that has none.
    pub(crate) inferred: Option<&'v InferredResults>,
    places: PlacesCache,
    pub(crate) values: Option<ValueTracker<'v>>,
    pub(crate) dependencies: Option<DependencyTracker<'v>>,
}

impl<'v> EventFollower<'v> {
    /// Creates the state. `with_dependencies`: statements wait for those of other sessions.
    pub(crate) fn new(values: Option<&'v FollowedValues>, with_dependencies: bool) -> Self {
        EventFollower {
            keys: values.map(|values| &values.keys),
            inferred: values.and_then(|values| values.inferred.as_ref()),
            places: PlacesCache::default(),
            values: values
                .map(|values| ValueTracker::new(&values.provenance, values.time_precision_us)),
            dependencies: values
                .filter(|_| with_dependencies)
                .map(DependencyTracker::new),
        }
    }

    /// Follows the generated values of an event.
    pub(crate) fn track_values(
        &mut self,
        event: &mut Event,
        fingerprint: Option<Fingerprint>,
    ) -> (Option<Arc<StatementPlaces>>, Tracked) {
        if let Some(inferred) = self.inferred {
            inferred.add_to(event);
        }
        let dependencies = self.dependencies.as_ref();
        let transaction = dependencies.map_or(0, |tracker| tracker.transaction(event.session));
        let keys = self.keys;
        let places = keys.and_then(|keys| self.places.get(event, fingerprint, keys));
        let mut tracked = Tracked::default();
        if let (Some(values), Some(places)) = (&mut self.values, &places) {
            values.widen_numbers(event, places);
            tracked = values.track(event, fingerprint, places, transaction);
        }
        (places, tracked)
    }
}
