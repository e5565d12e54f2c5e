//! Tracks the named objects of a session, prepared statements and portals, which later messages
//! refer to.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use sql::may_have_pair;
use workload::{PackedParameters, ResultFormat, Unreplayable, WireDetails};

/// Returns whether a statement may return values that the server generates (RETURNING, nextval, currval, lastval, a
/// uuid, a snapshot), or rows that it locks for later statements (FOR UPDATE).
fn generates_values(sql: &str) -> bool {
    let bytes = sql.as_bytes();
    if !may_have_pair(bytes, [*b"tv", *b"rv", *b"rn", *b"uu", *b"up", *b"xp"]) {
        return false;
    }
    let is = |from: Option<usize>, word: &[u8]| {
        from.and_then(|from| bytes.get(from..from + word.len()))
            .is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    // The search is for one rare letter of each word.
    let vals = memchr::memchr2_iter(b'v', b'V', bytes).any(|at| {
        let from = at.checked_sub(4);
        is(Some(at), b"val")
            && [&b"nextval"[..], b"currval", b"lastval"]
                .iter()
                .any(|word| is(from, word))
    });
    vals || memchr::memchr2_iter(b'g', b'G', bytes).any(|at| is(at.checked_sub(8), b"returning"))
        || memchr::memchr2_iter(b'u', b'U', bytes)
            .any(|at| is(Some(at), b"uuid") || is(at.checked_sub(4), b"for update"))
        || memchr::memchr2_iter(b'x', b'X', bytes)
            .any(|at| is(at.checked_sub(4), b"pg_export_snapshot"))
}

/// Rows of a result that are kept, so that a replay can substitute its own values for those that the server generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum KeptRows {
    None,
    First,
    /// All, up to a limit. A replay returns them in the same order: those of `INSERT … RETURNING` come in the order in which
    /// they are inserted.
    All,
}

impl KeptRows {
    /// Most rows that are kept of a result.
    pub(super) const COUNT_MAX: usize = 1_000;

    /// Chooses the rows of a statement's result.
    pub(super) fn of(sql: &str) -> Self {
        match generates_values(sql) {
            false => KeptRows::None,
            true if sql::classify(sql) == sql::StatementClass::Insert => KeptRows::All,
            true => KeptRows::First,
        }
    }
}

/// A prepared statement, shared by its executions.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) name: Box<str>,
    pub(super) sql: Arc<str>,
    pub(super) types: Box<[u32]>,
    pub(super) unreplayable: Option<Unreplayable>,
    pub(super) kept_rows: KeptRows,
    /// Names of its result's columns, once the client has requested them.
    pub(super) columns: RefCell<Option<Arc<[Box<str>]>>>,
    /// Wire details of its last execution.
    pub(super) last_details: RefCell<Option<Arc<WireDetails>>>,
}

impl Statement {
    /// Creates a statement of which only the name is known.
    pub(super) fn unknown(name: &str, unreplayable: Unreplayable) -> Self {
        Statement {
            name: name.into(),
            sql: "".into(),
            types: Box::default(),
            unreplayable: Some(unreplayable),
            kept_rows: KeptRows::None,
            columns: RefCell::default(),
            last_details: RefCell::default(),
        }
    }
}

/// The statement of a name.
#[derive(Debug, Clone)]
pub(super) struct PreparedStatement {
    pub(super) statement: Rc<Statement>,
    /// The group of messages in which it was prepared, and the number of its event.
    pub(super) parsed: Option<(u64, u64)>,
}

/// A change of a name's statement that the server has not answered yet.
#[derive(Debug)]
struct NameChange {
    name: Box<str>,
    before: Option<PreparedStatement>,
    after: Option<Rc<Statement>>,
}

/// A statement that a later request used, but the server refused to prepare, and the one that its name still has.
pub(super) type WrongStatement = (Rc<Statement>, Rc<Statement>);

/// A prepared statement with values.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) statement: Rc<Statement>,
    /// Taken by the first execution.
    pub(super) parameters: Option<Box<PackedParameters>>,
    pub(super) result_formats: Rc<[ResultFormat]>,
    pub(super) unreplayable: Option<Unreplayable>,
    pub(super) parsed: Option<(u64, u64)>,
}

/// The named objects of one session.
#[derive(Debug, Default)]
pub(super) struct NamedObjects {
    unnamed: Option<PreparedStatement>,
    prepared: HashMap<Box<str>, PreparedStatement>,
    /// The named statement used last: most sessions use few, again and again.
    last_used: Option<PreparedStatement>,
    unnamed_portal: Option<Portal>,
    portals: HashMap<Rc<str>, Portal>,
    /// Changes by Parse and Close, in the order of the requests.
    unanswered: VecDeque<NameChange>,
    no_name: Rc<str>,
    formats: Rc<[ResultFormat]>,
}

impl NamedObjects {
    pub(super) fn prepare(&mut self, prepared: PreparedStatement) {
        let name: Box<str> = prepared.statement.name.clone();
        let after = Some(prepared.statement.clone());
        let before = self.set(&name, Some(prepared));
        self.unanswered.push_back(NameChange {
            name,
            before,
            after,
        });
    }

    /// Sets or removes the statement of a name. Returns the previous one.
    fn set(
        &mut self,
        name: &str,
        statement: Option<PreparedStatement>,
    ) -> Option<PreparedStatement> {
        if name.is_empty() {
            return std::mem::replace(&mut self.unnamed, statement);
        }
        self.last_used = None;
        match statement {
            Some(statement) => self.prepared.insert(name.into(), statement),
            None => self.prepared.remove(name),
        }
    }

    /// Handles the server's answers to the first `count` changes of names.
    pub(super) fn confirm(&mut self, count: usize) {
        self.unanswered.drain(..count.min(self.unanswered.len()));
    }

    /// Reverts the first `count` changes of names, which the server refused or skipped. Returns the statements that
    /// later requests were wrongly taken to use.
    pub(super) fn revert(&mut self, count: usize) -> Vec<WrongStatement> {
        let count = count.min(self.unanswered.len());
        let reverted: Vec<NameChange> = self.unanswered.drain(..count).collect();
        let mut wrong = Vec::new();
        for change in reverted.into_iter().rev() {
            if let (Some(before), Some(after)) = (&change.before, &change.after) {
                wrong.push((after.clone(), before.statement.clone()));
            }
            let mut later = self.unanswered.iter_mut();
            match later.find(|later| later.name == change.name) {
                Some(later) => later.before = change.before,
                None => drop(self.set(&change.name, change.before)),
            }
        }
        wrong
    }

    /// Reverts all changes of names that the server has not answered.
    pub(super) fn revert_all(&mut self) {
        self.revert(self.unanswered.len());
    }

    pub(super) fn prepared(&mut self, name: &str) -> Option<&PreparedStatement> {
        if name.is_empty() {
            return self.unnamed.as_ref();
        }
        let is_last = (self.last_used.as_ref()).is_some_and(|last| *last.statement.name == *name);
        if !is_last {
            self.last_used = Some(self.prepared.get(name)?.clone());
        }
        self.last_used.as_ref()
    }

    /// Returns formats that many executions share.
    pub(super) fn formats(
        &mut self,
        formats: impl ExactSizeIterator<Item = ResultFormat> + Clone,
    ) -> Rc<[ResultFormat]> {
        if !formats.clone().eq(self.formats.iter().copied()) {
            self.formats = formats.collect();
        }
        self.formats.clone()
    }

    /// Returns a portal's name; the empty one is shared.
    pub(super) fn portal_name(&self, name: &str) -> Rc<str> {
        match name {
            "" => self.no_name.clone(),
            name => name.into(),
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
        let before = self.set(name, None);
        self.unanswered.push_back(NameChange {
            name: name.into(),
            before,
            after: None,
        });
    }

    fn forget(&mut self, name: &str) {
        self.last_used = None;
        self.prepared.remove(name);
    }

    pub(super) fn close_portal(&mut self, name: &str) {
        match name {
            "" => self.unnamed_portal = None,
            name => drop(self.portals.remove(name)),
        }
    }

    /// Handles the end of a transaction, which closes its portals.
    pub(super) fn end_transaction(&mut self) {
        self.portals.clear();
    }

    /// Handles lost bytes. Drivers number the names of their statements, and do not reuse one for
    /// another text while it is prepared; the unnamed statement is prepared each time.
    pub(super) fn handle_loss(&mut self) {
        self.unnamed = None;
        self.forget_portals();
        self.unanswered.clear();
    }

    /// Handles a Bind whose portal is not known.
    pub(super) fn forget_portals(&mut self) {
        self.unnamed_portal = None;
        self.portals.clear();
    }

    /// Handles an SQL statement that removes names ([`removes_names`]).
    pub(super) fn remove_names(&mut self, command_tag: &[u8], sql: &str) {
        match command_tag {
            b"DEALLOCATE ALL" | b"DISCARD ALL" => {
                self.last_used = None;
                self.prepared.clear();
            }
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
                    Some(quoted) => self.forget(&quoted.replace("\"\"", "\"")),
                    None => self.forget(&name.to_ascii_lowercase()),
                }
            }
            _ => (),
        }
    }
}

/// Returns whether a command with this tag removes names.
pub(super) fn removes_names(command_tag: &[u8]) -> bool {
    matches!(
        command_tag,
        b"DEALLOCATE" | b"DEALLOCATE ALL" | b"DISCARD ALL"
    )
}

/// The last Bind or Describe of the current group, if no Execute followed it.
#[derive(Debug)]
pub(super) struct UnexecutedMessage {
    pub(super) request: UnexecutedRequest,
    pub(super) at_us: i64,
    pub(super) place: u64,
}

/// Message that no Execute followed.
#[derive(Debug)]
pub(super) enum UnexecutedRequest {
    Bind { portal: Rc<str> },
    DescribeStatement { statement: Rc<Statement> },
    DescribePortal { portal: Rc<str> },
}

/// Decodes a text; also returns why it cannot be replayed, if it cannot.
pub(super) fn decode_text(bytes: &[u8]) -> (Cow<'_, str>, Option<Unreplayable>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), None),
        Err(_) => (String::from_utf8_lossy(bytes), Some(Unreplayable::NotUtf8)),
    }
}

/// Decodes a name.
pub(super) fn decode_name(bytes: &[u8]) -> Cow<'_, str> {
    decode_text(bytes).0
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
            assert!(generates_values(made), "{made}");
        }
        for not in ["", "v", "select v, g, u from t", "returnin", "SELECT 1"] {
            assert!(!generates_values(not), "{not}");
        }
    }

    fn prepared(name: &str) -> PreparedStatement {
        let statement = Statement {
            sql: "SELECT 1".into(),
            unreplayable: None,
            ..Statement::unknown(name, Unreplayable::StatementUnknown)
        };
        PreparedStatement {
            statement: Rc::new(statement),
            parsed: None,
        }
    }

    #[test]
    fn deallocate_takes_the_name_that_it_says() {
        let mut names = NamedObjects::default();
        for name in ["a", "B", "c"] {
            names.prepare(prepared(name));
        }
        // The statement used last is removed as well.
        assert!(names.prepared("a").is_some());
        names.remove_names(b"DEALLOCATE", "DEALLOCATE PREPARE A;");
        names.remove_names(b"DEALLOCATE", "deallocate b");
        assert!(names.prepared("a").is_none() && names.prepared("B").is_some());
        names.remove_names(b"DEALLOCATE", "deallocate \"B\"");
        assert!(names.prepared("B").is_none() && names.prepared("c").is_some());
        names.remove_names(b"DISCARD ALL", "discard all");
        assert!(names.prepared("c").is_none());
    }
}
