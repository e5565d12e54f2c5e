//! A sink that passes a slice to another sink.

use transform::{SliceError, Slicer};
use workload::series::HeldEvent;
use workload::{EventRef, ServerEvent, Session, SliceAccount};

use crate::sink::{EventSink, SinkError};

/// Passes a slice to another sink; everything, if there is no slicer.
pub struct SliceSink<S> {
    inner: S,
    slicer: Option<Slicer>,
}

impl<S: EventSink> SliceSink<S> {
    /// Creates a sink in front of `inner`.
    pub fn new(inner: S, slicer: Option<Slicer>) -> Self {
        SliceSink { inner, slicer }
    }

    /// Returns the inner sink, and the account of every event.
    ///
    /// # Errors
    /// If the slice is empty.
    pub fn finish(self) -> Result<(S, Option<SliceAccount>), SliceError> {
        let account = self.slicer.map(Slicer::finish).transpose()?;
        Ok((self.inner, account))
    }
}

impl<S: EventSink> EventSink for SliceSink<S> {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        let SliceSink { inner, slicer } = self;
        match slicer {
            None => inner.event(event),
            Some(slicer) => slicer.handle_event(event.to_event(), &mut |event| {
                inner.event(&event.borrowed())
            }),
        }
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        let session = match &mut self.slicer {
            None => Some(session),
            Some(slicer) => slicer.finish_session(session),
        };
        session.map_or(Ok(()), |session| self.inner.session(session))
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        let takes = self
            .slicer
            .as_mut()
            .is_none_or(|slicer| slicer.includes_server_event(event.at_us, event.session));
        match takes {
            true => self.inner.server_event(event),
            false => Ok(()),
        }
    }

    fn needs_held(&self) -> bool {
        self.inner.needs_held()
    }

    fn held(&mut self, held: &mut dyn Iterator<Item = HeldEvent>) {
        self.inner.held(held);
    }

    fn only_counts(&self) -> bool {
        self.slicer.is_none() && self.inner.only_counts()
    }
}
