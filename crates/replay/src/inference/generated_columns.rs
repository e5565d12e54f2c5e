//! Columns of the target's tables that the server fills: identities, sequences, and UUIDs.

use std::collections::{BTreeSet, HashMap};

use crate::connect::{ConnectError, Dialer};
use crate::generated::ColumnName;
use crate::login::Login;
use crate::target_databases::TargetDatabases;

/// One row for each column of an ordinary or partitioned table that takes values of a sequence, or is a UUID with a
/// default: the table, the column, both as SQL, the sequence (empty for a UUID), its increment, and the number of values that
/// a session takes at once.
const COLUMNS_SQL: &str = "WITH filled AS (\
    SELECT p.refobjid AS relation, p.refobjsubid::int2 AS attribute, p.objid AS sequence FROM pg_catalog.pg_depend p \
    WHERE p.classid = 'pg_catalog.pg_class'::regclass AND p.refclassid = 'pg_catalog.pg_class'::regclass AND p.deptype = 'i' \
    UNION ALL \
    SELECT d.adrelid, d.adnum, p.refobjid FROM pg_catalog.pg_attrdef d JOIN pg_catalog.pg_depend p ON p.objid = d.oid \
    WHERE p.classid = 'pg_catalog.pg_attrdef'::regclass AND p.refclassid = 'pg_catalog.pg_class'::regclass) \
    SELECT t.relname, a.attname, t.oid::regclass::text, pg_catalog.quote_ident(a.attname), s.seqrelid::regclass::text, \
      s.seqincrement, s.seqcache \
    FROM filled f JOIN pg_catalog.pg_class t ON t.oid = f.relation JOIN pg_catalog.pg_sequence s ON s.seqrelid = f.sequence \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = f.attribute WHERE t.relkind IN ('r', 'p') \
    UNION ALL \
    SELECT t.relname, a.attname, t.oid::regclass::text, pg_catalog.quote_ident(a.attname), '', 0, 0 \
    FROM pg_catalog.pg_attrdef d JOIN pg_catalog.pg_class t ON t.oid = d.adrelid \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.adnum \
    WHERE a.atttypid = 'pg_catalog.uuid'::regtype AND t.relkind IN ('r', 'p') AND t.relnamespace >= 2200";

/// Most values of one query.
const VALUES_MAX: usize = 2_000;

/// Index of a sequence.
pub(super) type SequenceIndex = usize;

/// Source of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generator {
    /// A sequence, whose values rise by its increment.
    Sequence(SequenceIndex),
    Uuid,
}

/// Sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Name, with its schema if that is not in the search path.
    pub(super) name: String,
    pub(super) increment: i64,
    /// Columns that take its values.
    pub(super) columns: Vec<ColumnName>,
}

/// A column as SQL, with a login to its database.
#[derive(Debug, Clone)]
struct ColumnPlace {
    login: Login,
    table: String,
    column: String,
}

/// Returns the query of those of these UUIDs that a column has.
fn uuids_query(table: &str, column: &str, values: &[String]) -> String {
    let values = values.join("','");
    format!("SELECT {column} FROM {table} WHERE {column} IN ('{values}')")
}

/// Returns the query of those of these numbers that a column has. An `integer` or `smallint` may not have all of them. So they
/// are compared as `bigint`, for which PostgreSQL uses an index on the column as well.
fn integers_query(table: &str, column: &str, values: &[String]) -> String {
    let values = values.join(",");
    format!("SELECT {column} FROM {table} WHERE {column} = ANY ('{{{values}}}'::bigint[])")
}

/// Columns that the server fills, of all databases that a workload uses.
#[derive(Debug, Default)]
pub(crate) struct GeneratedColumns {
    generators: HashMap<ColumnName, Generator>,
    places: HashMap<ColumnName, ColumnPlace>,
    sequences: Vec<Sequence>,
    /// Databases that could not be asked, each with the reason. Nothing is inferred for their tables.
    pub(crate) unknown: Vec<String>,
}

impl GeneratedColumns {
    /// Queries the target.
    pub(crate) fn load(databases: &TargetDatabases, dialer: &Dialer) -> Self {
        let mut found = GeneratedColumns::default();
        let mut twice = BTreeSet::new();
        found.unknown = databases.ask(dialer, COLUMNS_SQL, |row, login| {
            twice.extend(found.add(row, login));
        });
        // Statements do not show which of two tables of the same name they use.
        for column in twice {
            found.generators.remove(&column);
        }
        found
    }

    /// Adds a row of [`COLUMNS_SQL`]. Returns the column if it is known already.
    fn add(&mut self, row: &[Option<String>], login: &Login) -> Option<ColumnName> {
        let [
            Some(table),
            Some(column),
            Some(relation),
            Some(quoted),
            Some(sequence),
            Some(increment),
            Some(cache),
        ] = row
        else {
            return None;
        };
        let name = (table.clone(), column.clone());
        if self.places.contains_key(&name) {
            return Some(name);
        }
        let place = ColumnPlace {
            login: login.clone(),
            table: relation.clone(),
            column: quoted.clone(),
        };
        self.places.insert(name.clone(), place);
        let increment = increment.parse().unwrap_or(1);
        if sequence.is_empty() {
            self.generators.insert(name, Generator::Uuid);
        } else if cache == "1" {
            // Sessions that take several values at once use them in any order.
            self.add_sequence(sequence, increment, name);
        }
        None
    }

    fn add_sequence(&mut self, name: &str, increment: i64, column: ColumnName) {
        let known = self.sequences.iter().position(|one| one.name == name);
        let index = known.unwrap_or(self.sequences.len());
        if index == self.sequences.len() {
            self.sequences.push(Sequence {
                name: name.to_owned(),
                increment,
                columns: Vec::new(),
            });
        }
        self.sequences[index].columns.push(column.clone());
        self.generators.insert(column, Generator::Sequence(index));
    }

    /// Adds a column that takes values of a sequence.
    #[cfg(test)]
    pub(crate) fn with_identity(mut self, table: &str, column: &str) -> Self {
        let name = format!("{table}_{column}_seq");
        self.add_sequence(&name, 1, (table.to_owned(), column.to_owned()));
        self
    }

    /// Adds a UUID with a default.
    #[cfg(test)]
    pub(crate) fn with_uuid(mut self, table: &str, column: &str) -> Self {
        let name = (table.to_owned(), column.to_owned());
        self.generators.insert(name, Generator::Uuid);
        self
    }

    pub(super) fn generator(&self, column: &ColumnName) -> Option<Generator> {
        self.generators.get(column).copied()
    }

    pub(super) fn of_table<'c>(
        &'c self,
        table: &'c str,
    ) -> impl Iterator<Item = (&'c ColumnName, Generator)> {
        let all = self.generators.iter();
        all.filter(move |((of, _), _)| of == table)
            .map(|(column, generator)| (column, *generator))
    }

    /// Returns all columns.
    pub(super) fn all(&self) -> impl Iterator<Item = &ColumnName> {
        self.generators.keys()
    }

    pub(super) fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// Returns the sequence with this name, without its schema.
    pub(super) fn sequence_named(&self, name: &str) -> Option<SequenceIndex> {
        let is_it = |one: &Sequence| {
            let last = one.name.rsplit('.').next().unwrap_or(&one.name);
            last.trim_matches('"') == name
        };
        self.sequences.iter().position(is_it)
    }

    /// Returns those of these values that a column of the target has. The values of a sequence are integers.
    ///
    /// # Errors
    /// If the target refuses the query.
    pub(crate) fn existing(
        &self,
        dialer: &Dialer,
        column: &ColumnName,
        values: &[String],
    ) -> Result<Vec<String>, ConnectError> {
        let Some(place) = self.places.get(column) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for chunk in values.chunks(VALUES_MAX) {
            let sql = match self.generator(column) {
                Some(Generator::Uuid) => uuids_query(&place.table, &place.column, chunk),
                _ => integers_query(&place.table, &place.column, chunk),
            };
            let rows = dialer.ask(&place.login, &sql)?.rows;
            found.extend(rows.into_iter().flatten().flatten());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_queried_as_bigint() {
        let values = [1_i64, 1_764_000_000_000, i64::MIN].map(|value| value.to_string());
        assert_eq!(
            integers_query("app.orders", "id", &values),
            "SELECT id FROM app.orders WHERE id = ANY ('{1,1764000000000,-9223372036854775808}'::bigint[])"
        );
    }
}
