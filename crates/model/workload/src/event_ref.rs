//! Events that borrow their texts. Sources pass millions of events on without an allocation for each.
//! [`Event`] is the owned form, which readers return.

use std::sync::Arc;

use sql::Backslash;

use crate::event::{Event, EventKind, Outcome, Unreplayable};
use crate::parameter::{Parameter, ParameterRef};
use crate::wire_details::{REPORTED_STANDARD_CONFORMING_STRINGS, WireDetails};

/// One action of a client; an [`Event`] with borrowed texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventRef<'a> {
    /// As [`Event::session`].
    pub session: u64,
    /// As [`Event::sequence`].
    pub sequence: u64,
    /// As [`Event::due_us`].
    pub due_us: i64,
    /// As [`Event::kind`].
    pub kind: KindRef<'a>,
    /// As [`Event::outcome`].
    pub outcome: Outcome,
    /// As [`Event::unreplayable`].
    pub unreplayable: Option<Unreplayable>,
    /// As [`Event::source`].
    pub source: u32,
    /// As [`Event::line`].
    pub line: u64,
    /// As [`Event::prelude`].
    pub prelude: bool,
    /// As [`Event::wire_details`].
    pub wire_details: Option<&'a Arc<WireDetails>>,
}

/// Action of a client; an [`EventKind`] with borrowed texts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "EventKind documents them")]
pub enum KindRef<'a> {
    Connect {
        database: &'a str,
        user: &'a str,
        application: &'a str,
    },
    Simple {
        sql: &'a str,
    },
    Prepare {
        statement: &'a str,
        sql: &'a str,
    },
    Execute {
        statement: &'a str,
        portal: &'a str,
        sql: &'a str,
        parameters: Parameters<'a>,
    },
    Fetch {
        statement: &'a str,
        portal: &'a str,
        sql: &'a str,
    },
    FunctionCall {
        function: &'a str,
        sql: &'a str,
        parameters: Parameters<'a>,
    },
    Cancel,
    Disconnect,
}

impl<'a> KindRef<'a> {
    /// Returns the name under which the kind is stored.
    pub fn name(&self) -> &'static str {
        match self {
            KindRef::Connect { .. } => "connect",
            KindRef::Simple { .. } => "simple",
            KindRef::Prepare { .. } => "prepare",
            KindRef::Execute { .. } => "execute",
            KindRef::Fetch { .. } => "fetch",
            KindRef::FunctionCall { .. } => "function_call",
            KindRef::Cancel => "cancel",
            KindRef::Disconnect => "disconnect",
        }
    }

    /// Returns the SQL of the event, if any.
    pub fn sql(&self) -> Option<&'a str> {
        match *self {
            KindRef::Simple { sql }
            | KindRef::Prepare { sql, .. }
            | KindRef::Execute { sql, .. }
            | KindRef::Fetch { sql, .. }
            | KindRef::FunctionCall { sql, .. } => Some(sql),
            KindRef::Connect { .. } | KindRef::Cancel | KindRef::Disconnect => None,
        }
    }

    /// Returns the same action with another text, if it has one.
    pub fn with_sql<'b>(self, sql: &'b str) -> KindRef<'b>
    where
        'a: 'b,
    {
        match self {
            KindRef::Simple { .. } => KindRef::Simple { sql },
            KindRef::Prepare { statement, .. } => KindRef::Prepare { statement, sql },
            KindRef::Execute {
                statement,
                portal,
                parameters,
                ..
            } => KindRef::Execute {
                statement,
                portal,
                sql,
                parameters,
            },
            KindRef::Fetch {
                statement, portal, ..
            } => KindRef::Fetch {
                statement,
                portal,
                sql,
            },
            KindRef::FunctionCall {
                function,
                parameters,
                ..
            } => KindRef::FunctionCall {
                function,
                sql,
                parameters,
            },
            kind @ (KindRef::Connect { .. } | KindRef::Cancel | KindRef::Disconnect) => kind,
        }
    }

    /// Whether it is a statement: an event with SQL, which a run must account for.
    pub fn is_statement(&self) -> bool {
        self.sql().is_some()
    }
}

/// Values that a statement was executed with.
#[derive(Debug, Clone, Copy)]
pub enum Parameters<'a> {
    /// One allocation for each value.
    Values(&'a [Option<Parameter>]),
    /// All values in one buffer.
    Packed(PackedValues<'a>),
}

impl<'a> Parameters<'a> {
    /// No values.
    pub const NONE: Parameters<'static> = Parameters::Values(&[]);

    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Parameters::Values(values) => values.len(),
            Parameters::Packed(packed) => packed.ends.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the values in order; `None` is NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<ParameterRef<'a>>> + use<'a> {
        let (values, packed) = match *self {
            Parameters::Values(values) => (values, PackedValues::default()),
            Parameters::Packed(packed) => (&[][..], packed),
        };
        values
            .iter()
            .map(|value| value.as_ref().map(Parameter::borrowed))
            .chain(packed.iter())
    }

    /// Returns the values, owned.
    pub fn to_vec(&self) -> Vec<Option<Parameter>> {
        let values = self.iter();
        values
            .map(|value| value.map(ParameterRef::to_parameter))
            .collect()
    }

    /// Whether a value is in binary form.
    pub fn has_binary(&self) -> bool {
        match self {
            Parameters::Values(values) => values
                .iter()
                .any(|value| matches!(value, Some(Parameter::Binary(_)))),
            Parameters::Packed(packed) => !packed.binary.is_empty(),
        }
    }
}

impl PartialEq for Parameters<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// Values in two buffers: those in text form, and those in binary form.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackedValues<'a> {
    text: &'a str,
    /// Values in binary form, each followed by one byte. So the buffer is not empty if there is a value.
    binary: &'a [u8],
    /// Ends of the values; `None` for NULL.
    ends: &'a [Option<ValueEnd>],
}

impl<'a> PackedValues<'a> {
    #[inline]
    pub(crate) fn new(text: &'a str, binary: &'a [u8], ends: &'a [Option<ValueEnd>]) -> Self {
        PackedValues { text, binary, ends }
    }

    /// Returns the two buffers, and the end of each value in them.
    #[inline]
    pub(crate) fn parts(self) -> (&'a str, &'a [u8], &'a [Option<ValueEnd>]) {
        (self.text, self.binary, self.ends)
    }

    fn iter(self) -> impl Iterator<Item = Option<ParameterRef<'a>>> + use<'a> {
        let PackedValues { text, binary, ends } = self;
        let (mut text_from, mut binary_from) = (0, 0);
        ends.iter().map(move |end| {
            let end = (*end)?;
            let at = end.at();
            Some(if end.is_binary() {
                let from = std::mem::replace(&mut binary_from, at);
                ParameterRef::Binary(&binary[from..at - 1])
            } else {
                let from = std::mem::replace(&mut text_from, at);
                ParameterRef::Text(&text[from..at])
            })
        })
    }
}

/// ValueEnd of a value in the text buffer or the binary buffer. The highest bit selects the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueEnd(u32);

impl ValueEnd {
    const BINARY: u32 = 1 << 31;

    /// # Panics
    /// If the values together exceed 2 GiB. The server's messages have at most 1 GiB.
    #[inline]
    pub(crate) fn of_text(at: usize) -> Self {
        assert!(at < Self::BINARY as usize, "a message has 1 GiB at most");
        ValueEnd(at as u32)
    }

    /// # Panics
    /// As [`ValueEnd::of_text`].
    #[inline]
    pub(crate) fn of_binary(at: usize) -> Self {
        ValueEnd(Self::of_text(at).0 | Self::BINARY)
    }

    #[inline]
    fn at(self) -> usize {
        (self.0 & !Self::BINARY) as usize
    }

    #[inline]
    fn is_binary(self) -> bool {
        self.0 & Self::BINARY != 0
    }
}

/// Appends a value to the binary buffer, whose values begin at `start`.
pub(crate) fn push_binary(values: &mut Vec<u8>, value: &[u8], start: usize) -> ValueEnd {
    values.extend_from_slice(value);
    values.push(0);
    ValueEnd::of_binary(values.len() - start)
}

/// Values in buffers that are reused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedParameters {
    text: String,
    binary: Vec<u8>,
    /// Ends of the values; `None` for NULL.
    ends: Vec<Option<ValueEnd>>,
}

impl PackedParameters {
    /// Removes all values and retains the buffers.
    pub fn clear(&mut self) {
        self.text.clear();
        self.binary.clear();
        self.ends.clear();
    }

    /// Adds NULL.
    pub fn push_null(&mut self) {
        self.ends.push(None);
    }

    /// Appends to the text of the value that [`Self::end_value`] will end.
    #[inline]
    pub fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Ends a value.
    ///
    /// # Panics
    /// If all values together exceed 2 GiB. The server's messages have at most 1 GiB.
    #[inline]
    pub fn end_value(&mut self) {
        self.ends.push(Some(ValueEnd::of_text(self.text.len())));
    }

    /// Adds a value in the binary form of its type.
    ///
    /// # Panics
    /// As [`Self::end_value`].
    pub fn push_binary(&mut self, value: &[u8]) {
        self.ends
            .push(Some(push_binary(&mut self.binary, value, 0)));
    }

    /// Bytes allocated for values.
    pub fn capacity_bytes(&self) -> usize {
        let ends = self.ends.capacity() * size_of::<Option<ValueEnd>>();
        self.text.capacity() + self.binary.capacity() + ends
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Iterates over the values in order; `None` is NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<ParameterRef<'_>>> {
        self.packed().iter()
    }

    #[inline]
    fn packed(&self) -> PackedValues<'_> {
        PackedValues::new(&self.text, &self.binary, &self.ends)
    }

    /// Borrows the values, in the form that an event holds.
    #[inline]
    pub fn borrowed(&self) -> Parameters<'_> {
        Parameters::Packed(self.packed())
    }
}

impl Event {
    /// Returns the same event with its texts borrowed.
    pub fn borrowed(&self) -> EventRef<'_> {
        let kind = match &self.kind {
            EventKind::Connect {
                database,
                user,
                application,
            } => KindRef::Connect {
                database,
                user,
                application,
            },
            EventKind::Simple { sql } => KindRef::Simple { sql },
            EventKind::Prepare { statement, sql } => KindRef::Prepare { statement, sql },
            EventKind::Execute {
                statement,
                portal,
                sql,
                parameters,
            } => KindRef::Execute {
                statement,
                portal,
                sql,
                parameters: Parameters::Values(parameters),
            },
            EventKind::Fetch {
                statement,
                portal,
                sql,
            } => KindRef::Fetch {
                statement,
                portal,
                sql,
            },
            EventKind::FunctionCall {
                function,
                sql,
                parameters,
            } => KindRef::FunctionCall {
                function,
                sql,
                parameters: Parameters::Values(parameters),
            },
            EventKind::Cancel => KindRef::Cancel,
            EventKind::Disconnect => KindRef::Disconnect,
        };
        EventRef {
            session: self.session,
            sequence: self.sequence,
            due_us: self.due_us,
            kind,
            outcome: self.outcome,
            unreplayable: self.unreplayable,
            source: self.source,
            line: self.line,
            prelude: self.prelude,
            wire_details: self.wire_details.as_ref(),
        }
    }
}

impl EventRef<'_> {
    /// Returns the meaning of a backslash in plain literals that the settings of a connection give.
    pub fn backslash_at_start(&self) -> Backslash {
        let settings = self
            .wire_details
            .iter()
            .flat_map(|details| &details.settings);
        Backslash::of_connection(
            settings.map(|(name, value)| (&**name, &**value)),
            REPORTED_STANDARD_CONFORMING_STRINGS,
        )
    }

    /// Returns the same event, owned.
    pub fn to_event(&self) -> Event {
        let shared = |text: &str| Arc::<str>::from(text);
        let kind = match self.kind {
            KindRef::Connect {
                database,
                user,
                application,
            } => EventKind::Connect {
                database: shared(database),
                user: shared(user),
                application: shared(application),
            },
            KindRef::Simple { sql } => EventKind::Simple { sql: shared(sql) },
            KindRef::Prepare { statement, sql } => EventKind::Prepare {
                statement: shared(statement),
                sql: shared(sql),
            },
            KindRef::Execute {
                statement,
                portal,
                sql,
                parameters,
            } => EventKind::Execute {
                statement: shared(statement),
                portal: shared(portal),
                sql: shared(sql),
                parameters: parameters.to_vec(),
            },
            KindRef::Fetch {
                statement,
                portal,
                sql,
            } => EventKind::Fetch {
                statement: shared(statement),
                portal: shared(portal),
                sql: shared(sql),
            },
            KindRef::FunctionCall {
                function,
                sql,
                parameters,
            } => EventKind::FunctionCall {
                function: shared(function),
                sql: shared(sql),
                parameters: parameters.to_vec(),
            },
            KindRef::Cancel => EventKind::Cancel,
            KindRef::Disconnect => EventKind::Disconnect,
        };
        Event {
            session: self.session,
            sequence: self.sequence,
            due_us: self.due_us,
            kind,
            outcome: self.outcome,
            unreplayable: self.unreplayable,
            source: self.source,
            line: self.line,
            prelude: self.prelude,
            wire_details: self.wire_details.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_values_are_the_values(
            values in prop::collection::vec(
                prop::option::of((".{0,12}", any::<bool>())), 0..9)
        ) {
            let value = |(text, binary): (String, bool)| match binary {
                true => Parameter::from(text.as_bytes()),
                false => Parameter::from(text),
            };
            let values: Vec<Option<Parameter>> =
                values.into_iter().map(|drawn| drawn.map(value)).collect();
            let mut packed = PackedParameters::default();
            packed.push_text("left over");
            packed.push_binary(b"this, too");
            packed.clear();
            for value in &values {
                match value {
                    None => packed.push_null(),
                    Some(Parameter::Binary(bytes)) => packed.push_binary(bytes),
                    Some(Parameter::Text(text)) => {
                        packed.push_text(text);
                        packed.end_value();
                    }
                }
            }
            prop_assert_eq!(packed.borrowed(), Parameters::Values(&values));
            prop_assert_eq!(packed.len(), values.len());
        }
    }
}
