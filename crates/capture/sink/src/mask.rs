//! A sink that masks events for another sink.

use transform::mask::Masker;
use workload::{EventRef, MaskNote, ServerEvent, Session};

use crate::sink::{EventSink, SinkError};

/// Masks events on their way to another sink; passes them unchanged, if there is no masker. A
/// [`crate::slice::SliceSink`] goes before it, since filters apply to the original values.
pub struct MaskSink<S> {
    inner: S,
    masker: Option<Masker>,
}

impl<S: EventSink> MaskSink<S> {
    /// Creates a sink in front of `inner`.
    pub fn new(inner: S, masker: Option<Masker>) -> Self {
        MaskSink { inner, masker }
    }

    /// Returns the inner sink.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner sink, and the account of every value, for a manifest.
    pub fn finish(self) -> (S, Option<MaskNote>) {
        let note = self.masker.as_ref().map(Masker::note);
        (self.inner, note)
    }
}

impl<S: EventSink> EventSink for MaskSink<S> {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        let MaskSink { inner, masker } = self;
        match masker {
            None => inner.event(event),
            Some(masker) => masker.mask_event(event, |event| inner.event(event)),
        }
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        let session = match &mut self.masker {
            None => session,
            Some(masker) => masker.mask_session(session),
        };
        self.inner.session(session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        let event = match &mut self.masker {
            None => event,
            Some(masker) => masker.mask_server_event(event),
        };
        self.inner.server_event(event)
    }

    fn only_counts(&self) -> bool {
        self.masker.is_none() && self.inner.only_counts()
    }
}
