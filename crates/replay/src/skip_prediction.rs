//! Predicts which statements a replay does not send, from the workload and the catalogues of the target.

use run::SkipReason;
use sql::{CapturedIdentifier, UnrestrictedNames};
use workload::Event;

use crate::captured_identifiers::unknown_identifier;
use crate::options::Options;
use crate::portals::Portals;
use crate::read_only_filter::ReadOnlyFilter;

/// Prediction for the events of a replay, which are given in their order.
pub(crate) struct SkipPredictor<'n> {
    portals: Portals,
    read_only: Option<ReadOnlyFilter<'n>>,
}

impl<'n> SkipPredictor<'n> {
    /// Creates a prediction. `unrestricted` has names of the target that a read-only replay must not use.
    pub(crate) fn new(options: &Options, unrestricted: &'n UnrestrictedNames) -> Self {
        SkipPredictor {
            portals: Portals::new(options.fetch_size),
            read_only: (options.read_only.is_on()).then(|| ReadOnlyFilter::new(unrestricted)),
        }
    }

    /// Returns the reason why a statement is not sent; `None` if it is sent, or is no statement. Rewrites one that a
    /// read-only replay sends in another form.
    pub(crate) fn skip_reason(&mut self, event: &mut Event) -> Option<SkipReason> {
        let unreplayable = self.portals.rows_max(event).err();
        if !event.kind.is_statement() {
            return None;
        }
        if let Some(reason) = unreplayable {
            return Some(SkipReason::Unreplayable(reason));
        }
        let read_only = self.read_only.as_mut();
        if read_only.is_some_and(|filter| !filter.keep_from_writing(event)) {
            return Some(SkipReason::ReadOnly);
        }
        unknown_identifier(&event.kind, |_, sql| CapturedIdentifier::find(sql))
    }
}
