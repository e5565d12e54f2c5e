//! Batches of events in a few large allocations. No event has an allocation of its own.

use std::sync::Arc;

use crate::event::{Outcome, Sqlstate, Unreplayable};
use crate::event_ref::{EventRef, KindRef, PackedValues, Parameters, ValueEnd, push_binary};
use crate::parameter::Parameter;
use crate::redactor::Redactor;
use crate::wire_details::WireDetails;

/// Key of the time order: due time, session, sequence.
pub(crate) type Key = (i64, u64, u64);

/// A batch of events in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct EventBatch {
    heads: Vec<EventHead>,
    text: String,
    binary: Vec<u8>,
    ends: Vec<Option<ValueEnd>>,
    /// Wire details; empty for events of a log.
    particulars: Vec<Arc<WireDetails>>,
    particulars_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Connect,
    Simple,
    Prepare,
    Execute,
    Fetch,
    FunctionCall,
    Cancel,
    Disconnect,
}

/// All fields of an event except its texts. It is compact, since there are millions, and a cache miss is
/// expensive.
#[derive(Debug, Clone, Copy)]
struct EventHead {
    session: u64,
    sequence: u64,
    due_us: i64,
    line: u64,
    duration_us: u64,
    rows: u64,
    bytes: u64,
    source: u32,
    /// Offsets of the event's data in the batch, each at most [`OFFSET_MAX`].
    text_at: u32,
    binary_at: u32,
    ends_at: u32,
    /// Lengths of the texts of the kind, at most three.
    lengths: [u32; 3],
    values_length: u32,
    binary_length: u32,
    ends_count: u32,
    /// Index of the wire details, from 1; 0 if there are none.
    particulars: u32,
    sqlstate: Option<Sqlstate>,
    unreplayable: Option<Unreplayable>,
    kind: Kind,
    prelude: bool,
    /// Whether duration, rows and bytes are known.
    known: [bool; 3],
}

/// Maximum offset at which an event's data may start.
const OFFSET_MAX: usize = u32::MAX as usize;

impl EventBatch {
    /// Number of events.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Bytes used.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.heads.len() * size_of::<EventHead>()
            + self.text.len()
            + self.binary.len()
            + self.ends.len() * size_of::<Option<ValueEnd>>()
            + self.particulars_bytes
    }

    /// Bytes allocated.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<EventHead>()
            + self.text.capacity()
            + self.binary.capacity()
            + self.ends.capacity() * size_of::<Option<ValueEnd>>()
            + self.particulars.capacity() * size_of::<Arc<WireDetails>>()
    }

    /// Removes all events and retains the allocations.
    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.text.clear();
        self.binary.clear();
        self.ends.clear();
        self.particulars.clear();
        self.particulars_bytes = 0;
    }

    /// Whether an event has details that only a wire capture records.
    #[inline]
    pub(crate) fn is_from_wire(&self) -> bool {
        !self.particulars.is_empty() || !self.binary.is_empty()
    }

    /// Redacts all events. Secrets stay in memory until the batch is cleared, but no event refers to them.
    pub(crate) fn redact(&mut self, redactor: &mut dyn Redactor) {
        for index in 0..self.len() {
            if let Some(redacted) = redactor.redact_event(&self.get(index)) {
                self.replace(index, &redacted.borrowed());
            }
        }
    }

    /// Replaces an event. The data of the old one stay in memory until the batch is cleared.
    fn replace(&mut self, index: usize, event: &EventRef<'_>) {
        self.push(event);
        self.heads.swap_remove(index);
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: &EventRef<'_>) {
        let none = Parameters::NONE;
        let (kind, texts, values) = match event.kind {
            KindRef::Connect {
                database,
                user,
                application,
            } => (Kind::Connect, [database, user, application], none),
            KindRef::Simple { sql } => (Kind::Simple, [sql, "", ""], none),
            KindRef::Prepare { statement, sql } => (Kind::Prepare, [sql, statement, ""], none),
            KindRef::Execute {
                statement,
                portal,
                sql,
                parameters,
            } => (Kind::Execute, [sql, statement, portal], parameters),
            KindRef::Fetch {
                statement,
                portal,
                sql,
            } => (Kind::Fetch, [sql, statement, portal], none),
            KindRef::FunctionCall {
                function,
                sql,
                parameters,
            } => (Kind::FunctionCall, [sql, function, ""], parameters),
            KindRef::Cancel => (Kind::Cancel, [""; 3], none),
            KindRef::Disconnect => (Kind::Disconnect, [""; 3], none),
        };
        let length = |text: &str| u32::try_from(text.len()).expect("a text has 1 GiB at most");
        let (text_at, ends_at) = (self.text.len(), self.ends.len());
        let at = |at: usize| {
            assert!(at <= OFFSET_MAX, "who fills it sends it on long before");
            at as u32
        };
        for text in texts {
            self.text.push_str(text);
        }
        let (values_at, binary_at) = (self.text.len(), self.binary.len());
        match values {
            Parameters::Packed(packed) => {
                let (text, binary, ends) = packed.parts();
                self.text.push_str(text);
                self.binary.extend_from_slice(binary);
                self.ends.extend_from_slice(ends);
            }
            Parameters::Values(values) => {
                for value in values {
                    let end = value.as_ref().map(|value| match value {
                        Parameter::Text(text) => {
                            self.text.push_str(text);
                            ValueEnd::of_text(self.text.len() - values_at)
                        }
                        Parameter::Binary(bytes) => push_binary(&mut self.binary, bytes, binary_at),
                    });
                    self.ends.push(end);
                }
            }
        }
        if let Some(particulars) = event.wire_details
            // Most events share the details of the event before.
            && !(self.particulars.last()).is_some_and(|last| Arc::ptr_eq(last, particulars))
        {
            self.particulars_bytes += particulars.bytes();
            self.particulars.push(particulars.clone());
        }
        let Outcome {
            duration_us,
            rows,
            bytes,
            sqlstate,
        } = event.outcome;
        self.heads.push(EventHead {
            session: event.session,
            sequence: event.sequence,
            due_us: event.due_us,
            line: event.line,
            duration_us: duration_us.unwrap_or(0),
            rows: rows.unwrap_or(0),
            bytes: bytes.unwrap_or(0),
            source: event.source,
            text_at: at(text_at),
            binary_at: at(binary_at),
            ends_at: at(ends_at),
            lengths: texts.map(length),
            values_length: length(&self.text[values_at..]),
            binary_length: (self.binary.len() - binary_at) as u32,
            ends_count: (self.ends.len() - ends_at) as u32,
            particulars: match event.wire_details {
                Some(_) => self.particulars.len() as u32,
                None => 0,
            },
            sqlstate,
            unreplayable: event.unreplayable,
            kind,
            prelude: event.prelude,
            known: [duration_us.is_some(), rows.is_some(), bytes.is_some()],
        });
    }

    /// Returns the key of the event at `index`.
    #[inline]
    pub(crate) fn key(&self, index: usize) -> Key {
        let head = &self.heads[index];
        (head.due_us, head.session, head.sequence)
    }

    /// Prefetches the head of an event, which [`Self::get`] reads first.
    #[inline]
    pub(crate) fn prefetch_head(&self, index: usize) {
        prefetch(&self.heads, index);
    }

    /// Prefetches the texts and value ends that the head refers to.
    #[inline]
    pub(crate) fn prefetch_texts(&self, index: usize) {
        let head = &self.heads[index];
        let length: u32 = head.lengths.iter().sum();
        let from = head.text_at as usize;
        let until = from + (length + head.values_length) as usize;
        for at in (from..until)
            .step_by(CACHE_LINE_BYTES)
            .take(PREFETCH_LINES_MAX)
        {
            prefetch(self.text.as_bytes(), at);
        }
        prefetch(&self.ends, head.ends_at as usize);
    }

    /// Returns the event at `index`.
    pub(crate) fn get(&self, index: usize) -> EventRef<'_> {
        let head = &self.heads[index];
        let mut at = head.text_at as usize;
        let (binary_at, ends_at) = (head.binary_at as usize, head.ends_at as usize);
        let mut next = |length: u32| {
            let start = at;
            at += length as usize;
            &self.text[start..at]
        };
        let [first, second, third] = head.lengths;
        let (first, second, third) = (next(first), next(second), next(third));
        let parameters = Parameters::Packed(PackedValues::new(
            next(head.values_length),
            &self.binary[binary_at..binary_at + head.binary_length as usize],
            &self.ends[ends_at..ends_at + head.ends_count as usize],
        ));
        let kind = match head.kind {
            Kind::Connect => KindRef::Connect {
                database: first,
                user: second,
                application: third,
            },
            Kind::Simple => KindRef::Simple { sql: first },
            Kind::Prepare => KindRef::Prepare {
                statement: second,
                sql: first,
            },
            Kind::Execute => KindRef::Execute {
                statement: second,
                portal: third,
                sql: first,
                parameters,
            },
            Kind::Fetch => KindRef::Fetch {
                statement: second,
                portal: third,
                sql: first,
            },
            Kind::FunctionCall => KindRef::FunctionCall {
                function: second,
                sql: first,
                parameters,
            },
            Kind::Cancel => KindRef::Cancel,
            Kind::Disconnect => KindRef::Disconnect,
        };
        EventRef {
            session: head.session,
            sequence: head.sequence,
            due_us: head.due_us,
            kind,
            outcome: Outcome {
                duration_us: head.known[0].then_some(head.duration_us),
                rows: head.known[1].then_some(head.rows),
                bytes: head.known[2].then_some(head.bytes),
                sqlstate: head.sqlstate,
            },
            unreplayable: head.unreplayable,
            source: head.source,
            line: head.line,
            prelude: head.prelude,
            wire_details: (head.particulars > 0)
                .then(|| &self.particulars[head.particulars as usize - 1]),
        }
    }
}

/// Size of a cache line, in bytes.
const CACHE_LINE_BYTES: usize = 64;
/// Maximum number of lines to prefetch. The processor's own prefetcher continues with longer texts.
const PREFETCH_LINES_MAX: usize = 6;

/// Prefetches the cache lines of a value, if the processor supports it. It does not wait.
#[inline]
fn prefetch<T>(all: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if index < all.len() {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for at in (0..size_of::<T>()).step_by(CACHE_LINE_BYTES) {
            // SAFETY: the address is within one of the values, and a prefetch has no visible effect.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(all.as_ptr().add(index).byte_add(at).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (all, index);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_ref::PackedParameters;

    #[test]
    fn batched_events_are_read_back() {
        let mut packed_values = PackedParameters::default();
        packed_values.push_text("a");
        packed_values.end_value();
        packed_values.push_null();
        packed_values.push_text("ü");
        packed_values.end_value();
        packed_values.push_binary(b"\0\xff");
        let own_values = [
            Some("x".into()),
            None,
            Some(Parameter::from(&b"\0\x01"[..])),
            Some("".into()),
            Some(Parameter::from(&b"\xfe"[..])),
        ];
        let particulars = Arc::new(WireDetails {
            rows_max: Some(7),
            ..WireDetails::default()
        });
        let (statement, portal, sql) = ("s", "p", "select 'ä'");
        let kinds = [
            KindRef::Connect {
                database: "d",
                user: "ü",
                application: "",
            },
            KindRef::Simple { sql },
            KindRef::Prepare { statement, sql },
            KindRef::Execute {
                statement,
                portal,
                sql,
                parameters: packed_values.borrowed(),
            },
            KindRef::Execute {
                statement,
                portal,
                sql,
                parameters: Parameters::Values(&own_values),
            },
            KindRef::Fetch {
                statement,
                portal,
                sql,
            },
            KindRef::Cancel,
            KindRef::Disconnect,
        ];
        let events = kinds.map(|kind| EventRef {
            session: 7,
            sequence: 9,
            due_us: -3,
            kind,
            outcome: Outcome {
                duration_us: Some(5),
                rows: None,
                bytes: Some(1),
                sqlstate: Sqlstate::parse("23505"),
            },
            unreplayable: Some(Unreplayable::PortalFetch),
            source: 2,
            line: 11,
            prelude: true,
            wire_details: matches!(kind, KindRef::Execute { .. }).then_some(&particulars),
        });
        let mut packed = EventBatch::default();
        packed.push(&events[1]);
        assert!(!packed.is_from_wire());
        packed.clear();
        events.iter().for_each(|event| packed.push(event));
        assert_eq!(packed.len(), events.len());
        assert!(packed.is_from_wire());
        for (index, event) in events.iter().enumerate() {
            assert_eq!(packed.get(index), *event);
            assert_eq!(packed.key(index), (-3, 7, 9));
        }
        packed.replace(0, &events[3]);
        assert_eq!(packed.len(), events.len());
        assert_eq!([packed.get(0), packed.get(1)], [events[3], events[1]]);
    }
}
