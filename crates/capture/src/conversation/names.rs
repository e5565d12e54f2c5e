//! What a client gave names to: prepared statements and portals. They say what a later message means.

use std::collections::HashMap;
use std::sync::Arc;

use workload::{PackedParameters, Particulars, ResultFormat, Unreplayable};

/// Whether a statement may return what the server makes up (RETURNING, nextval, currval, lastval, a
/// uuid): its first row is kept, so that a replay can tell what it made up instead.
pub(super) fn makes_values(sql: &str) -> bool {
    let bytes = sql.as_bytes();
    let is = |from: Option<usize>, word: &[u8]| {
        from.and_then(|from| bytes.get(from..from + word.len()))
            .is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    // One seldom letter of each word is looked for.
    let vals = memchr::memchr2_iter(b'v', b'V', bytes).any(|at| {
        let from = at.checked_sub(4);
        is(Some(at), b"val")
            && [&b"nextval"[..], b"currval", b"lastval"]
                .iter()
                .any(|word| is(from, word))
    });
    vals || memchr::memchr2_iter(b'g', b'G', bytes).any(|at| is(at.checked_sub(8), b"returning"))
        || memchr::memchr2_iter(b'u', b'U', bytes).any(|at| is(Some(at), b"uuid"))
}

/// A prepared statement.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) sql: Arc<str>,
    pub(super) types: Arc<[u32]>,
    pub(super) unreplayable: Option<Unreplayable>,
    pub(super) makes_values: bool,
    /// The group of messages in which it was prepared, and the number of its event.
    pub(super) parsed: Option<(u64, u64)>,
    /// The names of its result's columns, once the client has asked for them.
    pub(super) columns: Option<Arc<[Box<str>]>>,
    /// How its last execution was described.
    pub(super) alike: Option<Arc<Particulars>>,
}

/// A prepared statement with values.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) statement: Arc<str>,
    pub(super) sql: Arc<str>,
    pub(super) types: Arc<[u32]>,
    /// Gone into the first execution.
    pub(super) parameters: Option<PackedParameters>,
    pub(super) result_formats: Vec<ResultFormat>,
    pub(super) unreplayable: Option<Unreplayable>,
    pub(super) makes_values: bool,
    pub(super) parsed: Option<(u64, u64)>,
    pub(super) columns: Option<Arc<[Box<str>]>>,
    pub(super) alike: Option<Arc<Particulars>>,
}

/// The names of one session.
#[derive(Debug, Default)]
pub(super) struct Names {
    unnamed: Option<(Arc<str>, Prepared)>,
    prepared: HashMap<Arc<str>, Prepared>,
    unnamed_portal: Option<Portal>,
    portals: HashMap<Arc<str>, Portal>,
}

impl Names {
    pub(super) fn prepare(&mut self, name: &str, prepared: Prepared) -> Arc<str> {
        if name.is_empty() {
            let empty = match self.unnamed.take() {
                Some((name, _)) => name,
                None => Arc::from(""),
            };
            self.unnamed = Some((empty.clone(), prepared));
            return empty;
        }
        let name: Arc<str> = name.into();
        self.prepared.insert(name.clone(), prepared);
        name
    }

    pub(super) fn prepared(&mut self, name: &str) -> Option<(&Arc<str>, &Prepared)> {
        if name.is_empty() {
            return self
                .unnamed
                .as_ref()
                .map(|(name, prepared)| (name, prepared));
        }
        self.prepared.get_key_value(name)
    }

    pub(super) fn prepared_mut(&mut self, name: &str) -> Option<&mut Prepared> {
        match name {
            "" => self.unnamed.as_mut().map(|(_, prepared)| prepared),
            name => self.prepared.get_mut(name),
        }
    }

    pub(super) fn bind(&mut self, name: &str, portal: Portal) {
        if name.is_empty() {
            self.unnamed_portal = Some(portal);
        } else {
            self.portals.insert(name.into(), portal);
        }
    }

    pub(super) fn portal(&mut self, name: &str) -> Option<&mut Portal> {
        match name {
            "" => self.unnamed_portal.as_mut(),
            name => self.portals.get_mut(name),
        }
    }

    pub(super) fn close_statement(&mut self, name: &str) {
        match name {
            "" => self.unnamed = None,
            name => drop(self.prepared.remove(name)),
        }
    }

    pub(super) fn close_portal(&mut self, name: &str) {
        match name {
            "" => self.unnamed_portal = None,
            name => drop(self.portals.remove(name)),
        }
    }

    /// No transaction is open any more: portals end with theirs.
    pub(super) fn transaction_ended(&mut self) {
        self.portals.clear();
    }

    /// What the client sent is not all here. Drivers count the names of their statements up, and do not
    /// give one to another text while it is prepared; the unnamed one is given anew with each.
    pub(super) fn lost(&mut self) {
        self.unnamed = None;
        self.unnamed_portal = None;
        self.portals.clear();
    }

    /// A statement of SQL was done that takes names away.
    pub(super) fn deallocated(&mut self, command_tag: &[u8], sql: &str) {
        match command_tag {
            b"DEALLOCATE ALL" | b"DISCARD ALL" => self.prepared.clear(),
            b"DEALLOCATE" => {
                let mut words = sql.split_ascii_whitespace();
                let is_word = |word: Option<&str>, is| {
                    word.is_some_and(|word: &str| word.eq_ignore_ascii_case(is))
                };
                if !is_word(words.next(), "deallocate") {
                    return;
                }
                let mut name = words.next();
                if is_word(name, "prepare") {
                    name = words.next();
                }
                let name = name.unwrap_or_default().trim_end_matches(';');
                match name
                    .strip_prefix('"')
                    .and_then(|name| name.strip_suffix('"'))
                {
                    Some(quoted) => drop(self.prepared.remove(&*quoted.replace("\"\"", "\""))),
                    None => drop(self.prepared.remove(&*name.to_ascii_lowercase())),
                }
            }
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_make_values_are_told_by_a_word() {
        for made in [
            "INSERT INTO t VALUES (1) RETURNING id",
            "select nextval('s')",
            "SELECT LastVal()",
            "select gen_random_uuid()",
        ] {
            assert!(makes_values(made), "{made}");
        }
        for not in ["", "v", "select v, g, u from t", "returnin", "SELECT 1"] {
            assert!(!makes_values(not), "{not}");
        }
    }

    fn prepared() -> Prepared {
        Prepared {
            sql: "SELECT 1".into(),
            types: Arc::default(),
            unreplayable: None,
            makes_values: false,
            parsed: None,
            columns: None,
            alike: None,
        }
    }

    #[test]
    fn deallocate_takes_the_name_that_it_says() {
        let mut names = Names::default();
        for name in ["a", "B", "c"] {
            names.prepare(name, prepared());
        }
        names.deallocated(b"DEALLOCATE", "DEALLOCATE PREPARE A;");
        names.deallocated(b"DEALLOCATE", "deallocate b");
        assert!(names.prepared("a").is_none() && names.prepared("B").is_some());
        names.deallocated(b"DEALLOCATE", "deallocate \"B\"");
        assert!(names.prepared("B").is_none() && names.prepared("c").is_some());
        names.deallocated(b"DISCARD ALL", "discard all");
        assert!(names.prepared("c").is_none());
    }
}
