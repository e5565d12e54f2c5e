//! Objects that were not created, and the object that an error names as missing.

use std::collections::BTreeMap;

use sql::split_statements;
use workload::Sqlstate;

use crate::created_object::{CreatedObject, ObjectKind};
use crate::error_key::ErrorKey;

/// Maximum number of objects that are remembered as missing. Of more, the oldest are forgotten.
const MISSING_MAX: usize = 10_000;

/// Object that was not created.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectKey {
    /// Session, if only it sees the object.
    owner: Option<u64>,
    kind: ObjectKind,
    /// Lower-case name.
    name: String,
    /// Schema, or table of a column.
    parent: Option<String>,
}

impl ObjectKey {
    fn new(created: &CreatedObject, session: u64) -> Self {
        ObjectKey {
            owner: created.is_of_session.then_some(session),
            kind: created.kind,
            name: created.name.clone(),
            parent: created.parent.clone(),
        }
    }

    fn is_named(&self, owner: Option<u64>, kind: ObjectKind, name: &str) -> bool {
        (self.owner, self.kind, self.name.as_str()) == (owner, kind, name)
    }
}

/// Objects that were not created.
#[derive(Debug, Default)]
pub(crate) struct MissingObjects {
    /// For each object, the failure that prevented it, and its number in the order of additions.
    objects: BTreeMap<ObjectKey, (ErrorKey, u64)>,
    added: u64,
}

impl MissingObjects {
    /// Adds an object that a session did not create, with the failure that prevented it.
    pub(crate) fn add(&mut self, created: &CreatedObject, session: u64, cause: ErrorKey) {
        let key = ObjectKey::new(created, session);
        if self.objects.contains_key(&key) {
            return;
        }
        if self.objects.len() >= MISSING_MAX {
            let oldest = self.objects.iter().min_by_key(|(_, (_, number))| *number);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| self.objects.remove(&key));
        }
        self.objects.insert(key, (cause, self.added));
        self.added += 1;
    }

    /// Removes an object that a session has created.
    pub(crate) fn remove(&mut self, created: &CreatedObject, session: u64) {
        self.objects.remove(&ObjectKey::new(created, session));
    }

    /// Removes the objects that only a session sees.
    pub(crate) fn end_session(&mut self, session: u64) {
        let first = ObjectKey {
            owner: Some(session),
            kind: ObjectKind::Relation,
            name: String::new(),
            parent: None,
        };
        let own = self.objects.range(first..);
        let own = own.take_while(|(key, _)| key.owner == Some(session));
        let own: Vec<_> = own.map(|(key, _)| key.clone()).collect();
        for key in own {
            self.objects.remove(&key);
        }
    }

    /// Returns the failure that prevented the object which an error of a session names as missing. `sql` is the text of the
    /// statement, if it is known.
    pub(crate) fn cause(
        &self,
        session: u64,
        code: Sqlstate,
        message: &str,
        sql: Option<&str>,
    ) -> Option<ErrorKey> {
        let kind = missing_kind(code)?;
        let missing = NamedObject::of(kind, message)?;
        let is_same = |key: &ObjectKey| match (&missing.parent, &key.parent) {
            (_, None) => true,
            (Some(named), Some(parent)) => named == parent,
            // A column without its table.
            (None, Some(table)) if kind == ObjectKind::Column => {
                sql.is_some_and(|sql| names(sql, table))
            }
            (None, Some(_)) => true,
        };
        let found = self.find(session, kind, &missing.name, is_same);
        found.or_else(|| {
            // An object of a schema that was not created.
            let schema = missing.parent.as_deref()?;
            match kind {
                ObjectKind::Column => None,
                _ => self.find(session, ObjectKind::Schema, schema, |_| true),
            }
        })
    }

    /// Returns the failure that prevented an object which a session would see under this name.
    fn find(
        &self,
        session: u64,
        kind: ObjectKind,
        name: &str,
        is_same: impl Fn(&ObjectKey) -> bool,
    ) -> Option<ErrorKey> {
        [Some(session), None].into_iter().find_map(|owner| {
            let first = ObjectKey {
                owner,
                kind,
                name: name.to_owned(),
                parent: None,
            };
            let mut named = (self.objects.range(first..))
                .take_while(|(key, _)| key.is_named(owner, kind, name));
            let found = named.find(|(key, _)| is_same(key));
            found.map(|(_, (cause, _))| *cause)
        })
    }
}

/// Returns the kind of the object that is missing, for the codes of missing objects.
pub(crate) fn missing_kind(code: Sqlstate) -> Option<ObjectKind> {
    Some(match code.as_str() {
        "42P01" => ObjectKind::Relation,
        "42703" => ObjectKind::Column,
        "42883" => ObjectKind::Function,
        "42704" => ObjectKind::Other,
        "3F000" => ObjectKind::Schema,
        "34000" => ObjectKind::Cursor,
        "3B001" => ObjectKind::Savepoint,
        "26000" => ObjectKind::PreparedStatement,
        _ => return None,
    })
}

/// Whether a text has a name.
fn names(sql: &str, name: &str) -> bool {
    let statements = split_statements(sql);
    let words = statements.iter().flat_map(|statement| &statement.words);
    let mut found = words.filter_map(|word| word.name());
    found.any(|found| found.to_lowercase() == name)
}

/// Object that a message names as missing.
#[derive(Debug, PartialEq, Eq)]
struct NamedObject {
    name: String,
    /// Schema, or table of a column, if the message has it.
    parent: Option<String>,
}

impl NamedObject {
    /// Reads a message of PostgreSQL, in any language: translations keep the names, and their place after the first quotation mark
    /// or before the first bracket.
    fn of(kind: ObjectKind, message: &str) -> Option<Self> {
        match kind {
            ObjectKind::Function => {
                let (before, _) = message.split_once('(')?;
                let name = before.rsplit(char::is_whitespace).next()?;
                Some(Self::qualified(name))
            }
            // `column "c" of relation "t"`; `column a.c`, of which `a` may be an alias.
            ObjectKind::Column => match quoted(message) {
                Some((column, rest)) => Some(NamedObject {
                    name: column.to_lowercase(),
                    parent: quoted(rest).map(|(table, _)| table.to_lowercase()),
                }),
                None => {
                    let mut words = message.split(char::is_whitespace);
                    let qualified = words.find(|word| word.trim_matches('.').contains('.'))?;
                    let column = Self::qualified(qualified);
                    Some(NamedObject {
                        parent: None,
                        ..column
                    })
                }
            },
            // `missing FROM-clause entry for table "a"` is an error of the statement.
            ObjectKind::Relation if message.contains("FROM") => None,
            _ => Some(Self::qualified(quoted(message)?.0)),
        }
    }

    fn qualified(name: &str) -> Self {
        let mut parts = name.rsplit('.').map(|part| part.trim_matches('"'));
        let last = parts.next().unwrap_or_default().to_lowercase();
        NamedObject {
            name: last,
            parent: parts.next().map(str::to_lowercase),
        }
    }
}

/// Returns the first text in quotation marks, and what follows it.
fn quoted(message: &str) -> Option<(&str, &str)> {
    const OPEN: [char; 5] = ['"', '«', '»', '„', '“'];
    const CLOSE: [char; 5] = ['"', '»', '«', '“', '”'];
    let (_, rest) = message.split_once(OPEN)?;
    let (name, rest) = rest.split_once(CLOSE)?;
    Some((name.trim(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_object_of_a_message_is_found_in_any_language() {
        use ObjectKind::{Column, Function, Other, Relation};
        for (kind, message, name, parent) in [
            (
                Relation,
                "relation \"s.work\" does not exist",
                "work",
                Some("s"),
            ),
            (Relation, "Relation »work« existiert nicht", "work", None),
            (Relation, "la relation « work » n'existe pas", "work", None),
            (
                Column,
                "column \"c\" of relation \"t\" does not exist",
                "c",
                Some("t"),
            ),
            (Column, "column t.c does not exist", "c", None),
            (Column, "Spalte c.x existiert nicht.", "x", None),
            (
                Function,
                "function s.f(integer, text) does not exist",
                "f",
                Some("s"),
            ),
            (Other, "type \"mood\" does not exist", "mood", None),
        ] {
            let expected = NamedObject {
                name: name.to_owned(),
                parent: parent.map(str::to_owned),
            };
            assert_eq!(NamedObject::of(kind, message), Some(expected), "{message}");
        }
        for (kind, message) in [
            (Function, "operator does not exist: text = integer"),
            (Relation, "missing FROM-clause entry for table \"work\""),
        ] {
            assert_eq!(NamedObject::of(kind, message), None, "{message}");
        }
    }
}
