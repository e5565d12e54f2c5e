//! A sink in front of a sink that lets a slice through.

use workload::rewrite::{SliceError, Slicer};
use workload::{EventRef, ServerEvent, Session, SliceAccount};

use crate::sink::{EventSink, SinkError};

/// Lets a slice through to another sink; everything, where there is no slicer.
pub struct SliceSink<S> {
    inner: S,
    slicer: Option<Slicer>,
}

impl<S: EventSink> SliceSink<S> {
    /// In front of `inner`.
    pub fn new(inner: S, slicer: Option<Slicer>) -> Self {
        SliceSink { inner, slicer }
    }

    /// The sink behind it, and what became of every event.
    ///
    /// # Errors
    /// Where the slice is empty.
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
            Some(slicer) => slicer.event(event.to_event(), &mut |event| {
                inner.event(&event.borrowed())
            }),
        }
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        let session = match &mut self.slicer {
            None => Some(session),
            Some(slicer) => slicer.session(session),
        };
        session.map_or(Ok(()), |session| self.inner.session(session))
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        let takes = self
            .slicer
            .as_mut()
            .is_none_or(|slicer| slicer.takes_server_event(event.at_us, event.session));
        match takes {
            true => self.inner.server_event(event),
            false => Ok(()),
        }
    }

    fn only_counts(&self) -> bool {
        self.slicer.is_none() && self.inner.only_counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{LogFormat, capture_bytes};
    use crate::sink::Collected;
    use workload::rewrite::{Moment, Slice};

    const LOG: &str = "\
2026-03-01 09:00:00.000 UTC [7] LOG:  connection authorized: user=app database=shop
2026-03-01 09:00:01.000 UTC [7] LOG:  statement: SET search_path = a
2026-03-01 09:00:02.000 UTC [8] LOG:  connection authorized: user=idle database=shop
2026-03-01 09:00:03.000 UTC [7] LOG:  statement: SELECT 1
2026-03-01 09:00:03.500 UTC [7] LOG:  disconnection: session time: 0:00:03.500 user=app database=shop host=[local]
2026-03-01 09:00:04.000 UTC [8] LOG:  statement: SELECT 2
";

    #[test]
    fn a_log_is_sliced_as_it_is_read() {
        let slice = Slice {
            from: Some(Moment::parse("+2s").unwrap()),
            to: Some(Moment::parse("2026-03-01 09:00:04").unwrap()),
            ..Slice::default()
        };
        let mut sink = SliceSink::new(Collected::default(), Some(Slicer::new(slice, None)));
        let report =
            capture_bytes(LOG, Some(LogFormat::Stderr), Some("%m [%p] "), &mut sink).unwrap();
        assert!(report.reconciliation.adds_up());
        assert_eq!(report.reconciliation.events, 6);
        let (collected, account) = sink.finish().unwrap();
        let account = account.unwrap();
        assert!(account.adds_up());
        assert_eq!((account.events, account.kept, account.prelude), (6, 3, 2));
        let texts: Vec<String> = collected
            .events
            .iter()
            .map(|event| {
                format!(
                    "{} {}",
                    event.kind.name(),
                    event.kind.sql().map_or("", |sql| sql)
                )
            })
            .collect();
        assert_eq!(
            texts,
            [
                "connect ",
                "connect ",
                "simple SET search_path = a",
                "simple SELECT 1",
                "disconnect "
            ]
        );
        assert_eq!(collected.sessions.len(), 2);
        assert!(collected.sessions[0].end_seen);
    }
}
