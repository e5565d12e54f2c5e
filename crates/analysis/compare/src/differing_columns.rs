//! Names the columns whose values differ between two runs, with one example row of each statement.
//!
//! Runs with a checksum of each column ([`run::ResultColumns`]) tell which columns of an execution differ. The first
//! rows of some executions are kept, so that one row can be shown.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use run::ResultColumns;
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::{Literals, type_name};

use crate::differing_executions::ExecutionPlace;
use crate::example_row::{RowExample, find_example};
use crate::side::Side;

/// Maximum bytes of results that wait for the same execution of the other run. Runs end their executions in about the
/// same order, so few wait.
const WAITING_BYTES_MAX: usize = 128 << 20;
/// Maximum number of columns that are named for a statement.
const COLUMNS_MAX: usize = 1_000;

/// Column whose values differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ColumnChange {
    /// Name; `column 2` if the server did not describe the result.
    pub column: String,
    /// Name of its type, or its OID; `null` if it is not known.
    pub r#type: Option<String>,
    /// Executions with other values in it.
    pub executions: u64,
}

/// Columns of a statement over the executions for which both runs have checksums of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct PairedColumns {
    /// Number of these executions with as many rows and other values.
    pub(crate) differing: u64,
    /// Number of these whose values differ in ignored columns only.
    pub(crate) ignored: u64,
    /// The first of these.
    pub(crate) first_ignored: Option<ExecutionPlace>,
    /// The first that differs in another column.
    pub(crate) first: Option<ExecutionPlace>,
    /// Columns that are not ignored, by place and name.
    columns: BTreeMap<(usize, String), (Option<String>, u64)>,
    pub(crate) example: Option<RowExample>,
}

impl PairedColumns {
    /// Returns the differing columns, those of most executions first.
    pub(crate) fn changes(&self) -> Vec<ColumnChange> {
        let change = |((_, column), (r#type, executions)): (&(_, String), &(_, _))| ColumnChange {
            column: column.clone(),
            r#type: Option::clone(r#type),
            executions: *executions,
        };
        let mut changes: Vec<ColumnChange> = self.columns.iter().map(change).collect();
        changes.sort_by_key(|change| std::cmp::Reverse(change.executions));
        changes
    }

    pub(crate) fn merge(&mut self, other: &PairedColumns) {
        self.differing += other.differing;
        self.ignored += other.ignored;
        self.first = self.first.or(other.first);
        self.first_ignored = self.first_ignored.or(other.first_ignored);
        for (column, (r#type, executions)) in &other.columns {
            let known = self.columns.entry(column.clone());
            known.or_insert_with(|| (r#type.clone(), 0)).1 += executions;
        }
        if self.example.is_none() {
            self.example.clone_from(&other.example);
        }
    }
}

/// Compares the columns of the executions of two runs. Add those of both runs alternately, so that few wait.
#[derive(Debug)]
pub struct ColumnPairs {
    statements: HashSet<Fingerprint>,
    ignored: Vec<String>,
    literals: Literals,
    waiting: HashMap<ExecutionPlace, (Side, ResultColumns)>,
    waiting_bytes: usize,
    /// Ignored columns that differ in some execution.
    pub(crate) found: BTreeSet<String>,
    pub(crate) columns: HashMap<Fingerprint, PairedColumns>,
}

impl ColumnPairs {
    /// Creates a comparison of the columns of these statements' results, without the `ignored` columns: their names in
    /// lower case. `literals`: whether examples have values.
    pub fn new(statements: HashSet<Fingerprint>, ignored: Vec<String>, literals: Literals) -> Self {
        Self {
            statements,
            ignored,
            literals,
            waiting: HashMap::new(),
            waiting_bytes: 0,
            found: BTreeSet::new(),
            columns: HashMap::new(),
        }
    }

    /// Adds the columns of an execution's result.
    pub fn add(&mut self, side: Side, columns: ResultColumns) {
        let Some(fingerprint) = columns.fingerprint else {
            return;
        };
        if !self.statements.contains(&fingerprint) {
            return;
        }
        let place = ExecutionPlace {
            session: columns.session,
            sequence: columns.sequence,
        };
        match self.waiting.remove(&place) {
            Some((waiting_side, other)) if waiting_side != side => {
                self.waiting_bytes -= bytes(&other);
                let (before, after) = match side {
                    Side::Before => (columns, other),
                    Side::After => (other, columns),
                };
                self.compare(fingerprint, place, &before, &after);
            }
            _ if self.waiting_bytes > WAITING_BYTES_MAX => {}
            _ => {
                self.waiting_bytes += bytes(&columns);
                self.waiting.insert(place, (side, columns));
            }
        }
    }

    fn compare(
        &mut self,
        fingerprint: Fingerprint,
        place: ExecutionPlace,
        before: &ResultColumns,
        after: &ResultColumns,
    ) {
        let is_comparable = before.digests.len() == after.digests.len();
        if before.rows != after.rows || before.digest == after.digest || !is_comparable {
            return;
        }
        let paired = self.columns.entry(fingerprint).or_default();
        paired.differing += 1;
        let digests = before.digests.iter().zip(&after.digests).enumerate();
        let differing = digests.filter(|(_, (one, other))| one != other);
        let differing: Vec<usize> = differing.map(|(at, _)| at).collect();
        let mut is_kept = |at: &usize| {
            let name = column_name(before, after, *at).to_lowercase();
            let is_ignored = self.ignored.contains(&name);
            if is_ignored {
                self.found.insert(name);
            }
            !is_ignored
        };
        let kept: Vec<usize> = differing.iter().copied().filter(|at| is_kept(at)).collect();
        if kept.is_empty() && !differing.is_empty() {
            paired.ignored += 1;
            let first = paired.first_ignored;
            paired.first_ignored = Some(first.map_or(place, |first| first.min(place)));
            return;
        }
        paired.first = Some(paired.first.map_or(place, |first| first.min(place)));
        for at in &kept {
            let column = (*at, column_name(before, after, *at));
            if paired.columns.len() < COLUMNS_MAX || paired.columns.contains_key(&column) {
                let known = paired.columns.entry(column);
                known.or_insert_with(|| (column_type(before, *at), 0)).1 += 1;
            }
        }
        let is_earlier = |example: &RowExample| place < example.place;
        if paired.example.as_ref().is_none_or(is_earlier)
            && let Some(example) = find_example(place, before, after, &kept, self.literals)
        {
            paired.example = Some(example);
        }
    }
}

/// Returns about the memory of a result that waits.
fn bytes(columns: &ResultColumns) -> usize {
    let names: usize = columns.names.iter().map(|name| name.len() + 16).sum();
    200 + names + 16 * columns.digests.len() + columns.kept_bytes()
}

/// Returns the name of a column, from 0.
pub(crate) fn column_name(before: &ResultColumns, after: &ResultColumns, at: usize) -> String {
    let name = before.names.get(at).or(after.names.get(at));
    name.map_or_else(|| format!("column {}", at + 1), |name| name.to_string())
}

/// Returns the type of a column, from 0.
pub(crate) fn column_type(columns: &ResultColumns, at: usize) -> Option<String> {
    let oid = *columns.types.get(at)?;
    Some(type_name(oid).map_or_else(|| format!("type {oid}"), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATEMENT: Fingerprint = Fingerprint(7);

    fn columns(sequence: u64, digests: [u64; 2]) -> ResultColumns {
        ResultColumns {
            session: 1,
            sequence,
            fingerprint: Some(STATEMENT),
            rows: 1,
            digest: digests[0] * 1_000 + digests[1],
            names: vec!["id".into(), "Changed".into()],
            types: vec![23, 99_999],
            formats: vec![0, 0],
            digests: digests.to_vec(),
            kept_rows: Vec::new(),
        }
    }

    fn paired(ignored: &[&str]) -> PairedColumns {
        let ignored = ignored.iter().map(|name| name.to_string()).collect();
        let mut pairs = ColumnPairs::new([STATEMENT].into(), ignored, Literals::Hidden);
        for sequence in 0..10 {
            pairs.add(Side::Before, columns(sequence, [sequence, 1]));
        }
        for sequence in (0..10).rev() {
            let digests = match sequence {
                2 | 4 | 6 => [sequence, 2],
                8 => [90, 2],
                _ => [sequence, 1],
            };
            pairs.add(Side::After, columns(sequence, digests));
        }
        pairs.columns[&STATEMENT].clone()
    }

    #[test]
    fn differing_columns_are_counted_by_executions() {
        let paired = paired(&[]);
        assert_eq!((paired.differing, paired.ignored), (4, 0));
        assert_eq!(paired.first.unwrap().sequence, 2);
        let changes = paired.changes();
        let names = changes.iter().map(|one| (&*one.column, one.executions));
        assert_eq!(names.collect::<Vec<_>>(), [("Changed", 4), ("id", 1)]);
        assert_eq!(changes[0].r#type.as_deref(), Some("type 99999"));
    }

    #[test]
    fn executions_that_differ_in_ignored_columns_only_are_ignored() {
        let ignoring = paired(&["changed"]);
        assert_eq!((ignoring.differing, ignoring.ignored), (4, 3));
        assert_eq!(ignoring.first.unwrap().sequence, 8);
        assert_eq!(ignoring.changes().len(), 1);
    }

    #[test]
    fn equal_columns_of_different_rows_are_not_ignored() {
        let mut pairs = ColumnPairs::new([STATEMENT].into(), vec!["id".into()], Literals::Hidden);
        let one = columns(1, [1, 1]);
        // The same values, in other rows.
        let other = ResultColumns {
            digest: one.digest + 1,
            ..one.clone()
        };
        pairs.add(Side::Before, one);
        pairs.add(Side::After, other);
        let paired = &pairs.columns[&STATEMENT];
        assert_eq!((paired.differing, paired.ignored), (1, 0));
    }
}
