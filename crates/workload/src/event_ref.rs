//! An event that borrows its texts: how sources hand events out, millions of them, without an
//! allocation for each. [`Event`] is the owned form, how readers get them.

use std::sync::Arc;

use crate::event::{Event, EventKind, Outcome, Unreplayable};

/// One thing that a client did; as [`Event`], but with borrowed texts.
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
}

/// What a client did; as [`EventKind`], whose variants and fields say what they mean.
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
    Cancel,
    Disconnect,
}

impl<'a> KindRef<'a> {
    /// The name under which the kind is stored.
    pub fn name(&self) -> &'static str {
        match self {
            KindRef::Connect { .. } => "connect",
            KindRef::Simple { .. } => "simple",
            KindRef::Prepare { .. } => "prepare",
            KindRef::Execute { .. } => "execute",
            KindRef::Fetch { .. } => "fetch",
            KindRef::Cancel => "cancel",
            KindRef::Disconnect => "disconnect",
        }
    }

    /// The SQL it carries, if any.
    pub fn sql(&self) -> Option<&'a str> {
        match *self {
            KindRef::Simple { sql }
            | KindRef::Prepare { sql, .. }
            | KindRef::Execute { sql, .. }
            | KindRef::Fetch { sql, .. } => Some(sql),
            KindRef::Connect { .. } | KindRef::Cancel | KindRef::Disconnect => None,
        }
    }

    /// Whether it is a statement: something with SQL, which a run must account for.
    pub fn is_statement(&self) -> bool {
        self.sql().is_some()
    }
}

/// The values that a statement was executed with.
#[derive(Debug, Clone, Copy)]
pub enum Parameters<'a> {
    /// Each on its own.
    Values(&'a [Option<Box<str>>]),
    /// One behind the other.
    Packed {
        /// All of them.
        text: &'a str,
        /// Where each ends in it; `None` for NULL.
        ends: &'a [Option<u32>],
    },
}

impl<'a> Parameters<'a> {
    /// None at all.
    pub const NONE: Parameters<'static> = Parameters::Values(&[]);

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Parameters::Values(values) => values.len(),
            Parameters::Packed { ends, .. } => ends.len(),
        }
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values in order; `None` is NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
        let (values, text, ends) = match *self {
            Parameters::Values(values) => (values, "", &[][..]),
            Parameters::Packed { text, ends } => (&[][..], text, ends),
        };
        values
            .iter()
            .map(|value| value.as_deref())
            .chain(unpacked(text, ends))
    }
}

impl PartialEq for Parameters<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// Values one behind the other, in space that is used again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedParameters {
    text: String,
    /// Where each value ends; `None` for NULL.
    ends: Vec<Option<u32>>,
}

impl PackedParameters {
    /// Forgets all values, and keeps the space.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds NULL.
    pub fn push_null(&mut self) {
        self.ends.push(None);
    }

    /// Adds to the text of the value that [`Self::end_value`] will end.
    #[inline]
    pub fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Ends a value.
    ///
    /// # Panics
    /// Where all values together have 4 GiB; the server's messages have 1 GiB at most.
    #[inline]
    pub fn end_value(&mut self) {
        let end = u32::try_from(self.text.len()).expect("a message of the server's has 1 GiB");
        self.ends.push(Some(end));
    }

    /// How much space it keeps for text, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.text.capacity()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The values in order; `None` is NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        unpacked(&self.text, &self.ends)
    }

    /// As an event holds them.
    #[inline]
    pub fn borrowed(&self) -> Parameters<'_> {
        Parameters::Packed {
            text: &self.text,
            ends: &self.ends,
        }
    }
}

fn unpacked<'a>(
    text: &'a str,
    ends: &'a [Option<u32>],
) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
    let mut from = 0;
    ends.iter().map(move |end| {
        let end = (*end)? as usize;
        let value = &text[from..end];
        from = end;
        Some(value)
    })
}

impl Event {
    /// The same event, its texts borrowed.
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
        }
    }
}

impl EventRef<'_> {
    /// The same event, with texts of its own.
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
                parameters: parameters
                    .iter()
                    .map(|value| value.map(Box::from))
                    .collect(),
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
            values in prop::collection::vec(prop::option::of(".{0,12}"), 0..9)
        ) {
            let values: Vec<Option<Box<str>>> =
                values.into_iter().map(|value| value.map(Into::into)).collect();
            let mut packed = PackedParameters::default();
            packed.push_text("left over");
            packed.clear();
            for value in &values {
                match value {
                    None => packed.push_null(),
                    Some(text) => {
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
