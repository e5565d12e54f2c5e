//! A sink in front of a sink that masks what passes.

use transform::mask::Masker;
use workload::{EventRef, MaskNote, ServerEvent, Session};

use crate::sink::{EventSink, SinkError};

/// Masks events on their way to another sink; lets them through as they are, where there is no
/// masker. A [`crate::slice::SliceSink`] goes before it: what to keep is told by the values as they were.
pub struct MaskSink<S> {
    inner: S,
    masker: Option<Masker>,
}

impl<S: EventSink> MaskSink<S> {
    /// In front of `inner`.
    pub fn new(inner: S, masker: Option<Masker>) -> Self {
        MaskSink { inner, masker }
    }

    /// The sink behind it.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The sink behind it, and what became of every value, for a manifest.
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
            Some(masker) => masker.event(event, |event| inner.event(event)),
        }
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        let session = match &mut self.masker {
            None => session,
            Some(masker) => masker.session(session),
        };
        self.inner.session(session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        let event = match &mut self.masker {
            None => event,
            Some(masker) => masker.server_event(event),
        };
        self.inner.server_event(event)
    }

    fn only_counts(&self) -> bool {
        self.masker.is_none() && self.inner.only_counts()
    }
}
