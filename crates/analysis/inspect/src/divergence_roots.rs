//! Groups differences by their root: the first difference from which others followed.
//!
//! A difference follows from an earlier one
//!
//! - if both have the same error and message, such as a missing table that many statements name;
//! - if it found other rows, or broke a foreign or unique key, in a table that the earlier one should have written, or in
//!   which the earlier one found other rows;
//! - if it broke a foreign key, and in most cases the earlier one was the first difference of its session.
//!
//! A statement whose conditions depend on the time, on chance or on the server may find other rows in the same data. So its
//! difference in rows or values is taken as a root.
//!
//! The first rule is certain. The others are likely: the statements name tables, and no run has the rows.

use std::cmp::Reverse;
use std::collections::HashMap;

use sql::{LexicalRules, StatementClass, TableUse, ValuePlaces, classify};
use workload::Sqlstate;

use crate::divergence::{Difference, DifferenceKind, Divergence, Key};

/// `foreign_key_violation`.
pub(crate) const FOREIGN_KEY: Sqlstate = Sqlstate(*b"23503");
/// `unique_violation`.
const UNIQUE: Sqlstate = Sqlstate(*b"23505");

/// Number of executions of the first difference that followed the second one in a session.
pub(crate) type SessionVotes = HashMap<(Key, Key), u64>;

/// A difference, and what followed from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DivergenceRoot<'d> {
    /// The first difference.
    pub first: &'d Difference,
    /// Number of other differences, each a statement with its error, that followed from it.
    pub statements: u64,
    /// Number of their executions.
    pub executions: u64,
    /// Number of executions that were refused in failed transactions (25P02), of all of them.
    pub refused: u64,
    /// Number of executions that failed here and not in the capture, of all of them.
    pub failed_here_only: u64,
}

impl<'d> DivergenceRoot<'d> {
    fn of(first: &'d Difference) -> Self {
        DivergenceRoot {
            first,
            statements: 0,
            executions: 0,
            refused: 0,
            failed_here_only: 0,
        }
    }

    fn add(&mut self, one: &Difference, follows: bool) {
        if follows {
            self.statements += 1;
            self.executions += one.count;
        }
        self.refused += one.following;
        if matches!(one.kind, DifferenceKind::ErrorNew | DifferenceKind::Lost) {
            self.failed_here_only += one.count + one.following;
        }
    }

    /// Returns the number of executions of all.
    pub fn all(&self) -> u64 {
        self.first.count + self.executions + self.refused
    }
}

impl Divergence {
    /// Counts the statements that failed in the replay and not in the capture, refused ones included.
    pub fn failed_here_only(&self) -> u64 {
        self.errors_new + self.following + self.lost
    }

    /// Returns the roots: the differences that follow from no other, those with the most consequences first.
    pub fn roots(&self) -> Vec<DivergenceRoot<'_>> {
        let mut roots: HashMap<usize, DivergenceRoot<'_>> = HashMap::new();
        for (at, one) in self.differences.iter().enumerate() {
            let root = one.root.unwrap_or(at);
            let entry = roots.entry(root);
            let entry = entry.or_insert_with(|| DivergenceRoot::of(&self.differences[root]));
            entry.add(one, one.root.is_some());
        }
        let mut roots: Vec<DivergenceRoot<'_>> = roots.into_values().collect();
        roots.sort_by_key(|root| (Reverse(root.all()), root.first.order));
        roots
    }
}

/// Sets the root of each difference, as its index.
pub(crate) fn link_roots(differences: &mut [Difference], votes: &SessionVotes) {
    let mut in_order: Vec<usize> = (0..differences.len()).collect();
    in_order.sort_by_key(|&at| differences[at].order);
    let mut by_message: HashMap<(Sqlstate, String), usize> = HashMap::new();
    let mut by_table: HashMap<String, usize> = HashMap::new();
    let by_key: HashMap<Key, usize> = differences
        .iter()
        .enumerate()
        .map(|(at, one)| (one.key(), at))
        .collect();
    for at in in_order {
        let one = &differences[at];
        let message = one.sqlstate.zip(one.first.message.clone());
        let tables = tables(one);
        let by_data = || {
            let used = tables
                .iter()
                .filter_map(|(table, _)| by_table.get(table).copied());
            used.min_by_key(|&root| differences[root].order)
        };
        let same_message = message
            .as_ref()
            .and_then(|key| by_message.get(key).copied());
        let parent = same_message
            .or_else(|| if may_follow(one) { by_data() } else { None })
            .or_else(|| voted(one, votes).and_then(|key| by_key.get(&key).copied()));
        let root = parent.map(|parent| differences[parent].root.unwrap_or(parent));
        let own = root.unwrap_or(at);
        if let Some(key) = message {
            by_message.entry(key).or_insert(own);
        }
        for table in disturbed(one, &tables) {
            by_table.entry(table.to_owned()).or_insert(own);
        }
        differences[at].root = root.filter(|&root| root != at);
    }
}

/// Returns the tables of a statement. Those of a failed transaction control are none.
fn tables(one: &Difference) -> Vec<(String, TableUse)> {
    let sql = one.sql.as_deref().unwrap_or_default();
    ValuePlaces::of(sql, LexicalRules::default()).tables
}

/// Whether other data may be the cause of a difference.
fn may_follow(one: &Difference) -> bool {
    let is_key = |code: Option<Sqlstate>| code == Some(FOREIGN_KEY) || code == Some(UNIQUE);
    match one.kind {
        // Its own conditions may explain the difference.
        DifferenceKind::Rows | DifferenceKind::Values => one.unrepeatable.is_empty(),
        DifferenceKind::ErrorNew | DifferenceKind::ErrorOther => is_key(one.sqlstate),
        DifferenceKind::ErrorGone => is_key(one.captured_sqlstate),
        DifferenceKind::Lost => false,
    }
}

/// Returns the tables that have other rows because of a difference, or of which it shows that.
fn disturbed<'t>(one: &Difference, tables: &'t [(String, TableUse)]) -> Vec<&'t str> {
    let is_write = |of: &TableUse| *of == TableUse::Written;
    let written = tables.iter().filter(|(_, of)| is_write(of));
    let written: Vec<&str> = written.map(|(table, _)| table.as_str()).collect();
    let is_read = classify(one.sql.as_deref().unwrap_or_default()) == StatementClass::Select;
    match (one.kind, tables) {
        // Of several tables, it does not show which one has other rows.
        (DifferenceKind::Rows, [(table, _)]) if is_read => vec![table],
        _ => written,
    }
}

/// Returns the difference after which most of the executions came, each in its session.
fn voted(one: &Difference, votes: &SessionVotes) -> Option<Key> {
    let own = one.key();
    let of_own = votes.iter().filter(|((child, _), _)| *child == own);
    let ((_, parent), number) = of_own.max_by_key(|((_, parent), number)| (**number, *parent))?;
    (number * 2 >= one.count).then_some(*parent)
}

#[cfg(test)]
mod tests {
    use sql::{Fingerprint, UnrepeatableCall};

    use super::*;
    use crate::divergence::FirstDifference;

    fn difference(
        order: u64,
        kind: DifferenceKind,
        code: Option<&[u8; 5]>,
        sql: &str,
        message: Option<&str>,
    ) -> Difference {
        Difference {
            kind,
            fingerprint: Some(Fingerprint(order)),
            sql: Some(sql.to_owned()),
            sqlstate: code.map(|code| Sqlstate(*code)),
            captured_sqlstate: None,
            count: 3,
            following: 0,
            rows: None,
            first: FirstDifference::with_message(message),
            unrepeatable: UnrepeatableCall::find_in_conditions(sql),
            root: None,
            order,
        }
    }

    fn roots(mut differences: Vec<Difference>, votes: &SessionVotes) -> Vec<Option<usize>> {
        link_roots(&mut differences, votes);
        differences.iter().map(|one| one.root).collect()
    }

    #[test]
    fn statements_that_name_the_same_missing_table_have_one_root() {
        use DifferenceKind::ErrorNew;
        let missing = Some("relation \"orders\" does not exist");
        let other = Some("column \"price\" does not exist");
        let found = roots(
            vec![
                difference(
                    9,
                    ErrorNew,
                    Some(b"42P01"),
                    "select count(*) from orders",
                    missing,
                ),
                difference(
                    2,
                    ErrorNew,
                    Some(b"42P01"),
                    "insert into orders values ($1)",
                    missing,
                ),
                difference(
                    1,
                    ErrorNew,
                    Some(b"42703"),
                    "select price from orders",
                    other,
                ),
            ],
            &SessionVotes::new(),
        );
        assert_eq!(found, [Some(1), None, None]);
    }

    #[test]
    fn other_rows_follow_from_a_failed_write_to_the_table_and_not_from_one_to_another() {
        use DifferenceKind::{ErrorNew, Rows};
        let found = roots(
            vec![
                difference(
                    1,
                    ErrorNew,
                    Some(b"42501"),
                    "insert into orders values ($1)",
                    Some("no"),
                ),
                difference(2, Rows, None, "select id from orders where id = $1", None),
                difference(
                    3,
                    Rows,
                    None,
                    "update orders set n = $1 where id = $2",
                    None,
                ),
                difference(4, Rows, None, "select id from product", None),
            ],
            &SessionVotes::new(),
        );
        assert_eq!(found, [None, Some(0), Some(0), None]);
    }

    #[test]
    fn statement_that_depends_on_the_time_is_a_root_and_others_follow_from_it() {
        use DifferenceKind::Rows;
        let found = roots(
            vec![
                difference(1, Rows, None, "select id from orders where id = $1", None),
                difference(2, Rows, None, "delete from orders where at < now()", None),
                difference(3, Rows, None, "select at from orders where id = $1", None),
                difference(4, Rows, None, "delete from item where at < now()", None),
                difference(5, Rows, None, "select id from item where id = $1", None),
            ],
            &SessionVotes::new(),
        );
        assert_eq!(found, [None, None, Some(0), None, Some(3)]);
    }

    #[test]
    fn write_after_a_read_with_other_rows_of_its_table_follows_from_it() {
        use DifferenceKind::Rows;
        let found = roots(
            vec![
                difference(
                    5,
                    Rows,
                    None,
                    "update orders set n = $1 where id = $2",
                    None,
                ),
                difference(4, Rows, None, "select id from orders where id = $1", None),
            ],
            &SessionVotes::new(),
        );
        assert_eq!(found, [Some(1), None]);
    }

    #[test]
    fn broken_foreign_key_follows_from_the_first_difference_of_its_sessions() {
        use DifferenceKind::ErrorNew;
        let purchase = difference(
            1,
            ErrorNew,
            Some(b"22P02"),
            "insert into purchases values ($1)",
            Some("x"),
        );
        let line = difference(
            2,
            ErrorNew,
            Some(b"23503"),
            "insert into lines values ($1)",
            Some("y"),
        );
        let vote = |number| SessionVotes::from([((line.key(), purchase.key()), number)]);
        let both = vec![purchase.clone(), line.clone()];
        assert_eq!(roots(both.clone(), &vote(2)), [None, Some(0)]);
        // In one of three executions only.
        assert_eq!(roots(both, &vote(1)), [None, None]);
    }
}
